//! `status.nominatedNodeName`: the node that is being cleared for a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::slim::Pod;
use basalt_controllers::Change;
use basalt_engine::ledger::Status;
use basalt_engine::plan::Plan;
use basalt_engine::session::State;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::pod_target;
use crate::write::coalescing::Latest;

/// The nominations that stand: pod → uid and node.
pub(in crate::scheduler) struct Nominations {
    outlet: Latest,
    stand: BTreeMap<Arc<str>, (Arc<str>, Arc<str>)>,
}

impl Nominations {
    pub(in crate::scheduler) fn new(outlet: Latest) -> Self {
        Self {
            outlet,
            stand: BTreeMap::new(),
        }
    }

    /// Learns of a nomination that somebody, or an earlier run of us, has made.
    pub(in crate::scheduler) fn observe(&mut self, key: &str, pod: &Pod) {
        let node = &pod.status.nominated_node_name;
        if pod.spec.node_name.is_empty() && !node.is_empty() && !self.stand.contains_key(key) {
            let uid = pod.uid().unwrap_or_default();
            self.stand.insert(key.into(), (uid.into(), node.as_str().into()));
        }
    }

    /// Nominates, and takes back what no longer holds.
    pub(in crate::scheduler) fn tell(&mut self, plan: &Plan, state: &State) {
        let pipelined = plan.transactions.iter().flat_map(|transaction| &transaction.pipelined);
        for pod in pipelined.filter(|pod| pod.nominated) {
            let nomination = (Arc::clone(&pod.uid), Arc::clone(&pod.node));
            if self.stand.get(&pod.pod) != Some(&nomination) {
                self.write(&pod.pod, &pod.uid, json!(&*pod.node));
                self.stand.insert(Arc::clone(&pod.pod), nomination);
            }
        }
        let mut void = Vec::new();
        self.stand.retain(|pod, (uid, _)| {
            let task = state
                .model
                .tasks
                .find(pod)
                .filter(|&task| state.model.tasks[task].uid == *uid);
            let status = task.map(|task| state.ledger.status(task));
            if status == Some(Status::Pending) {
                void.push((Arc::clone(pod), Arc::clone(uid)));
            }
            status == Some(Status::Pipelined)
        });
        for (pod, uid) in void {
            self.write(&pod, &uid, Value::Null);
        }
    }

    fn write(&self, pod: &str, uid: &str, node: Value) {
        let target = pod_target(pod);
        let change = Change::Patch {
            target: target.clone(),
            subresource: Some("status".to_owned()),
            uid: Some(uid.to_owned()),
            resource_version: None,
            merge: json!({"status": {"nominatedNodeName": node}}),
        };
        self.outlet.put(target, change);
    }
}
