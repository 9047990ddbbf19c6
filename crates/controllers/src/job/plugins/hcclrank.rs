//! `hcclrank`: the rank of a pod among those that use Ascend devices, as an annotation.

use basalt_api::Job;
use basalt_api::job::TaskSpec;
use basalt_api::job::plugins::Hcclrank;
use serde_json::{Value, json};

use super::{Act, replicas};

const RANK_INDEX: &str = "hccl/rankIndex";

/// Ranks pods: masters first, then workers, unless the pod has a rank.
#[derive(Debug)]
pub(super) struct RankIndex {
    settings: Hcclrank,
    masters: u32,
}

impl RankIndex {
    pub(super) fn new(settings: Hcclrank, job: &Job) -> Self {
        let masters = replicas(job, &settings.master);
        Self { settings, masters }
    }

    fn rank(&self, task: &TaskSpec, index: u32, pod: &Value) -> Option<String> {
        let of_index = match &task.name {
            name if *name == self.settings.master => Some(index),
            name if *name == self.settings.worker => Some(self.masters.saturating_add(index)),
            _ => None,
        };
        rank_variable(pod).or_else(|| of_index.map(|rank| rank.to_string()))
    }
}

/// The first `RANK` with a value, `pytorch`'s or the user's.
fn rank_variable(pod: &Value) -> Option<String> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut variables = containers.flat_map(|container| container["env"].as_array().into_iter().flatten());
    let rank = variables.find(|variable| variable["name"] == "RANK")?["value"].as_str()?;
    (!rank.is_empty()).then(|| rank.to_owned())
}

impl Act for RankIndex {
    fn stamp(&self, task: &TaskSpec, index: u32, pod: &mut Value) {
        let present = pod["metadata"]["annotations"][RANK_INDEX].as_str();
        if present.is_some_and(|rank| !rank.is_empty()) {
            return;
        }
        if let Some(rank) = self.rank(task, index, pod) {
            pod["metadata"]["annotations"][RANK_INDEX] = json!(rank);
        }
    }
}
