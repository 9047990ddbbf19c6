//! `status.nominatedNodeName`: the node that is being cleared for a pod.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use basalt_api::Change;
use basalt_api::slim::Pod;
use basalt_engine::Engine;
use basalt_engine::plan::Plan;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::command::{CommandOutbox, StatusWriter, pod_ref};

/// Publishes which nodes are being cleared for which pods, and withdraws what no longer holds.
#[derive(Debug, Default)]
pub(crate) struct NominationReporter {
    /// The published nominations: pod, uid, node.
    published: BTreeMap<Arc<str>, (Arc<str>, Arc<str>)>,
}

impl NominationReporter {
    /// Learns of a nomination that an earlier scheduler, or somebody else, made.
    pub(crate) fn observe(&mut self, key: &str, pod: &Pod) {
        let node = &pod.status.nominated_node_name;
        if pod.spec.node_name.is_empty() && !node.is_empty() && !self.published.contains_key(key) {
            let uid = pod.uid().unwrap_or_default();
            self.published.insert(key.into(), (uid.into(), node.as_str().into()));
        }
    }

    /// Publishes the nominations of a plan.
    pub(crate) fn publish(&mut self, plan: &Plan, engine: &Engine, outbox: &mut CommandOutbox) {
        let pipelined = plan.transactions.iter().flat_map(|transaction| &transaction.pipelined);
        for pod in pipelined.filter(|pod| pod.nominated) {
            let nomination = (Arc::clone(&pod.uid), Arc::clone(&pod.node));
            if self.published.get(&pod.pod) != Some(&nomination) {
                write(&pod.pod, &pod.uid, json!(&*pod.node), outbox);
                self.published.insert(Arc::clone(&pod.pod), nomination);
            }
        }
        self.published.retain(|key, (uid, _)| {
            let pod = engine.pod(key).filter(|pod| pod.uid() == uid);
            if pod.is_some_and(basalt_engine::PodView::is_pending) {
                write(key, uid, Value::Null, outbox);
            }
            pod.is_some_and(basalt_engine::PodView::is_pipelined)
        });
    }
}

fn write(pod: &str, uid: &str, node: Value, outbox: &mut CommandOutbox) {
    let target = pod_ref(pod);
    let change = Change::Patch {
        target: target.clone(),
        subresource: Some("status".to_owned()),
        uid: Some(uid.to_owned()),
        resource_version: None,
        merge: json!({"status": {"nominatedNodeName": node}}),
    };
    outbox.write_status(StatusWriter::Nominations, target, change, Duration::ZERO);
}
