//! PodGroup: pods that start together or not at all.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names;
use crate::quantity::ResourceList;
use crate::reason::Reason;
use crate::schema;
use crate::wire::unset;

/// What the group needs before any of it starts.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[kube(
    group = "scheduling.volcano.sh",
    version = "v1beta1",
    kind = "PodGroup",
    doc = "Pods that start together or not at all. Its status is not a subresource.",
    namespaced,
    status = "PodGroupStatus",
    shortname = "pg",
    shortname = "podgroup-v1beta1",
    category = "volcano",
    category = "all",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "minMember", type_ = "integer", json_path = ".spec.minMember"),
    printcolumn(name = "RUNNINGS", type_ = "integer", json_path = ".status.running"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "QUEUE", type_ = "string", json_path = ".spec.queue", priority = 1)
)]
pub struct PodGroupSpec {
    /// Pods that must be placed together.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub min_member: i32,
    /// The same by task.
    #[serde(skip_serializing_if = "unset")]
    pub min_task_member: BTreeMap<String, i32>,
    /// The queue that pays.
    #[schemars(length(max = 253), regex(pattern = schema::DNS_SUBDOMAIN_OR_EMPTY))]
    pub queue: String,
    /// Priority class of the group.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "unset")]
    pub priority_class_name: String,
    /// What the first `minMember` pods need in all.
    #[serde(skip_serializing_if = "unset")]
    pub min_resources: Option<ResourceList>,
    /// How close to each other the pods must be.
    #[serde(skip_serializing_if = "unset")]
    pub network_topology: Option<NetworkTopology>,
    /// Smaller groups inside, each with its own topology.
    #[serde(skip_serializing_if = "unset")]
    pub sub_group_policy: Vec<SubGroupPolicy>,
}

impl Default for PodGroupSpec {
    fn default() -> Self {
        Self {
            min_member: 0,
            min_task_member: BTreeMap::new(),
            queue: names::DEFAULT_QUEUE.to_owned(),
            priority_class_name: String::new(),
            min_resources: None,
            network_topology: None,
            sub_group_policy: Vec::new(),
        }
    }
}

/// How close to each other pods must be on the network.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkTopology {
    /// Whether it must hold.
    pub mode: TopologyMode,
    /// Highest tier that the pods may span, by number.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub highest_tier_allowed: Option<i64>,
    /// Highest tier that the pods may span, by name.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "unset")]
    pub highest_tier_name: String,
}

/// Whether a topology must hold.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
#[serde(rename_all = "lowercase")]
pub enum TopologyMode {
    /// It must.
    #[default]
    Hard,
    /// It counts in the score.
    Soft,
}

/// A smaller gang inside a group.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SubGroupPolicy {
    /// Name of the policy.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "unset")]
    pub name: String,
    /// Topology of each sub-group.
    #[serde(skip_serializing_if = "unset")]
    pub network_topology: Option<NetworkTopology>,
    /// Pods in each sub-group.
    #[schemars(range(min = 1))]
    pub sub_group_size: Option<i32>,
    /// Sub-groups that must be placed together.
    #[schemars(range(min = 0))]
    pub min_sub_groups: Option<i32>,
    /// Pods that the policy is about.
    #[schemars(schema_with = "schema::k8s::<LabelSelector>")]
    #[serde(skip_serializing_if = "unset")]
    pub label_selector: Option<LabelSelector>,
    /// Labels whose values tell sub-groups apart.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    #[serde(skip_serializing_if = "unset")]
    pub match_label_keys: Vec<String>,
}

impl Default for SubGroupPolicy {
    fn default() -> Self {
        Self {
            name: String::new(),
            network_topology: None,
            sub_group_size: Some(1),
            min_sub_groups: Some(0),
            label_selector: None,
            match_label_keys: Vec::new(),
        }
    }
}

/// What is known of a group. Counters are always written, so that a patch can bring one back to 0.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupStatus {
    /// Where the group stands.
    #[serde(skip_serializing_if = "unset")]
    pub phase: Option<PodGroupPhase>,
    /// Volcano's conditions.
    #[serde(skip_serializing_if = "unset")]
    pub conditions: Vec<PodGroupCondition>,
    /// Why it waits, with numbers.
    #[serde(skip_serializing_if = "unset")]
    pub reasons: Vec<Reason>,
    /// Pods that run.
    #[schemars(range(min = 0))]
    pub running: i32,
    /// Pods that ended well.
    #[schemars(range(min = 0))]
    pub succeeded: i32,
    /// Pods that failed.
    #[schemars(range(min = 0))]
    pub failed: i32,
}

/// Where a group stands.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
pub enum PodGroupPhase {
    /// Not let in yet.
    Pending,
    /// Enough of it is placed.
    Running,
    /// Let in; waits for nodes.
    Inqueue,
    /// All of it has ended.
    Completed,
    /// Some of it runs, and the rest does not fit; also what this version does not know.
    #[serde(other)]
    Unknown,
}

/// One condition of a group, in Volcano's shape.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroupCondition {
    /// `Unschedulable` or `Scheduled`.
    #[serde(skip_serializing_if = "unset", rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    #[serde(skip_serializing_if = "unset")]
    pub status: String,
    /// The scheduling cycle that wrote it.
    #[serde(skip_serializing_if = "unset", rename = "transitionID")]
    pub transition_id: String,
    /// When the status changed.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub last_transition_time: Option<Time>,
    /// One word.
    #[serde(skip_serializing_if = "unset")]
    pub reason: String,
    /// One sentence.
    #[serde(skip_serializing_if = "unset")]
    pub message: String,
}

impl PodGroup {
    /// Whether its pods may be evicted for others, if it says so, in an annotation or else a label.
    pub fn preemptable(&self) -> Option<bool> {
        let maps = [&self.metadata.annotations, &self.metadata.labels];
        let mut said = maps.into_iter().filter_map(|map| map.as_ref()?.get(names::PREEMPTABLE));
        said.next().map(|word| names::says_yes(word))
    }
}
