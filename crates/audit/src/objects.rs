//! A set of raw objects.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Raw objects, as an API server hands them out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Objects {
    /// Nodes.
    pub nodes: Vec<Value>,
    /// Pods of all namespaces.
    pub pods: Vec<Value>,
    /// PodGroups of all namespaces.
    pub pod_groups: Vec<Value>,
    /// Queues.
    pub queues: Vec<Value>,
    /// Volcano Jobs of all namespaces.
    pub jobs: Vec<Value>,
}

impl Objects {
    /// Sorts an object in by its kind; false if the kind is none that is audited.
    pub fn insert(&mut self, object: Value) -> bool {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let place = match kind {
            "Node" => &mut self.nodes,
            "Pod" => &mut self.pods,
            "PodGroup" => &mut self.pod_groups,
            "Queue" => &mut self.queues,
            "Job" => &mut self.jobs,
            _ => return false,
        };
        place.push(object);
        true
    }
}
