//! Queue: a share of the cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fraction::Fraction;
use crate::quantity::ResourceList;
use crate::schema;
use crate::wire::unset;

/// What a queue is entitled to, and where it stands in the tree.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[kube(
    group = "scheduling.volcano.sh",
    version = "v1beta1",
    kind = "Queue",
    doc = "A share of the cluster, and its place in the tree of queues.",
    status = "QueueStatus",
    shortname = "q",
    shortname = "queue-v1beta1",
    category = "volcano",
    category = "all",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Parent", type_ = "string", json_path = ".spec.parent"),
    printcolumn(name = "Weight", type_ = "integer", json_path = ".spec.weight"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Inqueue", type_ = "integer", json_path = ".status.inqueue"),
    printcolumn(name = "Pending", type_ = "integer", json_path = ".status.pending"),
    printcolumn(name = "Running", type_ = "integer", json_path = ".status.running"),
    printcolumn(name = "Share", type_ = "string", json_path = ".status.share", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct QueueSpec {
    /// Share of the queue among its siblings.
    #[schemars(range(min = 1, max = 65535))]
    pub weight: i32,
    /// Whether the queue is wanted open or closed. Absent on update keeps what is stored.
    #[serde(skip_serializing_if = "unset")]
    pub state: Option<WantedState>,
    /// Upper limit; a missing dimension is unlimited.
    #[serde(skip_serializing_if = "unset")]
    pub capability: ResourceList,
    /// What the queue is entitled to; others may borrow it and must give it back.
    #[serde(skip_serializing_if = "unset")]
    pub deserved: ResourceList,
    /// What is kept free for the queue.
    #[serde(skip_serializing_if = "unset")]
    pub guarantee: Guarantee,
    /// Whether other queues may reclaim from this one.
    #[serde(skip_serializing_if = "unset")]
    pub reclaimable: Option<bool>,
    /// The queue above; empty means root.
    #[schemars(length(max = 253), regex(pattern = schema::DNS_SUBDOMAIN_OR_EMPTY))]
    #[serde(skip_serializing_if = "unset")]
    pub parent: String,
    /// Order among queues: higher first.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub priority: i32,
    /// Whether the first waiting job holds up the others.
    pub dequeue_strategy: DequeueStrategy,
    /// Node groups that the queue wants or avoids.
    #[serde(skip_serializing_if = "unset")]
    pub affinity: Option<Affinity>,
    /// Clusters that jobs may be forwarded to.
    #[serde(skip_serializing_if = "unset")]
    pub extend_clusters: Vec<Cluster>,
    /// Free text.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "unset", rename = "type")]
    pub queue_type: String,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self {
            weight: 1,
            state: None,
            capability: ResourceList::new(),
            deserved: ResourceList::new(),
            guarantee: Guarantee::default(),
            reclaimable: None,
            parent: String::new(),
            priority: 0,
            dequeue_strategy: DequeueStrategy::default(),
            affinity: None,
            extend_clusters: Vec::new(),
            queue_type: String::new(),
        }
    }
}

/// The two states that a person can ask for.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
pub enum WantedState {
    /// Takes new work.
    Open,
    /// Takes no new work.
    Closed,
}

/// What happens behind a job that does not fit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
#[serde(rename_all = "lowercase")]
pub enum DequeueStrategy {
    /// The head of the queue holds up the rest.
    Fifo,
    /// A job that does not fit is passed over.
    #[default]
    Traverse,
}

/// Resources that are kept for a queue.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Guarantee {
    /// The reserved amount.
    #[serde(skip_serializing_if = "unset")]
    pub resource: ResourceList,
    /// Whether pods may be evicted to make the reservation good.
    #[serde(skip_serializing_if = "unset")]
    pub policy: Option<GuaranteePolicy>,
    /// Reserve a share of the nodes instead.
    #[serde(skip_serializing_if = "unset")]
    pub percentage: Option<Percentage>,
}

/// How hard a reservation is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
pub enum GuaranteePolicy {
    /// Never evicts: waits for pods to end.
    #[default]
    #[serde(rename = "Best-Effort")]
    BestEffort,
    /// May evict.
    Guaranteed,
}

/// A share of the nodes that offer all of `dimensions`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["dimensions", "value"]))]
pub struct Percentage {
    /// Resource names that a node must offer to count.
    #[schemars(length(min = 1))]
    pub dimensions: Vec<String>,
    /// Share of those nodes, within 0 and 1.
    pub value: Fraction,
}

/// Node groups that a queue wants or avoids.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Affinity {
    /// Groups that the queue's pods go to.
    #[serde(skip_serializing_if = "unset")]
    pub node_group_affinity: Option<NodeGroups>,
    /// Groups that they stay away from.
    #[serde(skip_serializing_if = "unset")]
    pub node_group_anti_affinity: Option<NodeGroups>,
}

/// Names of node groups, hard and soft.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeGroups {
    /// Must hold when a pod is placed.
    #[serde(skip_serializing_if = "unset")]
    pub required_during_scheduling_ignored_during_execution: Vec<String>,
    /// Counts in the score.
    #[serde(skip_serializing_if = "unset")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<String>,
}

/// Another cluster that jobs may be forwarded to.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Cluster {
    /// Name of the cluster.
    #[serde(skip_serializing_if = "unset")]
    pub name: String,
    /// Its weight.
    #[serde(skip_serializing_if = "unset")]
    pub weight: i32,
    /// What it offers.
    #[serde(skip_serializing_if = "unset")]
    pub capacity: ResourceList,
}

/// What is known of a queue. Counters are always written, so that a patch can bring one back to 0.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueStatus {
    /// The derived state.
    #[serde(skip_serializing_if = "unset")]
    pub state: Option<QueueState>,
    /// PodGroups without a Job.
    #[schemars(range(min = 0))]
    pub unknown: i32,
    /// Jobs that wait to enter.
    #[schemars(range(min = 0))]
    pub pending: i32,
    /// Jobs that run, or are between two runs.
    #[schemars(range(min = 0))]
    pub running: i32,
    /// Jobs that were let in and wait for nodes.
    #[schemars(range(min = 0))]
    pub inqueue: i32,
    /// Jobs that ended well.
    #[schemars(range(min = 0))]
    pub completed: i32,
    /// Jobs that failed or were terminated.
    #[schemars(range(min = 0))]
    pub failed: i32,
    /// Jobs that were suspended.
    #[schemars(range(min = 0))]
    pub aborted: i32,
    /// What the queue's pods hold now, its descendants' included.
    #[serde(skip_serializing_if = "unset")]
    pub allocated: ResourceList,
    /// What the queue is entitled to now.
    #[serde(skip_serializing_if = "unset")]
    pub deserved: ResourceList,
    /// Largest allocated / deserved over all dimensions, with 6 decimals.
    #[serde(skip_serializing_if = "unset")]
    pub share: String,
    /// Nodes that are locked for the queue.
    #[serde(skip_serializing_if = "unset")]
    pub reservation: Option<Reservation>,
    /// What is wrong, or was.
    #[schemars(
        schema_with = "schema::k8s_list::<Condition>",
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    #[serde(skip_serializing_if = "unset")]
    pub conditions: Vec<Condition>,
}

/// The derived state of a queue.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
pub enum QueueState {
    /// Takes new work.
    Open,
    /// Takes none, and is empty.
    Closed,
    /// Takes none, and what it has runs to its end.
    Closing,
    /// Written by others; never by us.
    #[serde(other)]
    Unknown,
}

/// Nodes that are locked for a queue.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Reservation {
    /// Names of the locked nodes, in order.
    #[serde(skip_serializing_if = "unset")]
    pub nodes: Vec<String>,
    /// What is idle on them.
    #[serde(skip_serializing_if = "unset")]
    pub resource: ResourceList,
    /// What the queue and its descendants use on them.
    #[serde(skip_serializing_if = "unset")]
    pub used: ResourceList,
    /// What idle and used together must reach; for a percentage, what the chosen nodes are worth.
    #[serde(skip_serializing_if = "unset")]
    pub target: ResourceList,
    /// Pods of others on the locked nodes that must end or be evicted before the target is met; 0 when it is.
    #[schemars(range(min = 0))]
    pub waiting_for: i32,
}

impl Queue {
    /// The queue above, or `None` for root itself.
    pub fn parent(&self) -> Option<&str> {
        if self.metadata.name.as_deref() == Some(crate::names::ROOT_QUEUE) {
            return None;
        }
        Some(if self.spec.parent.is_empty() {
            crate::names::ROOT_QUEUE
        } else {
            &self.spec.parent
        })
    }

    /// Whether others may reclaim from it; so by default.
    pub fn is_reclaimable(&self) -> bool {
        self.spec.reclaimable.unwrap_or(true)
    }

    /// Whether its own spec asks for it to be closed; an ancestor's may as well.
    pub fn wants_closed(&self) -> bool {
        self.spec.state == Some(WantedState::Closed)
    }
}
