//! `env`: the pod's index in its environment.

use basalt_api::job::TaskSpec;
use serde_json::Value;

use super::{Act, edit};

/// Puts the index under Volcano's name and under its older one.
#[derive(Debug)]
pub(super) struct IndexEnv;

impl Act for IndexEnv {
    fn stamp(&self, _: &TaskSpec, index: u32, pod: &mut Value) {
        let index = index.to_string();
        edit::stamp_env(pod, &[("VK_TASK_INDEX", &index), ("VC_TASK_INDEX", &index)]);
    }
}
