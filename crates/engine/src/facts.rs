//! What the engine is told: plain facts about nodes, pods, pod groups, queues and priority classes.
//!
//! Facts are complete: an upsert replaces everything known about the object. They can be written down and read back
//! (serde), so a recorded stream of events replays any cycle.

mod budgets;
mod constraints;
mod convert;
mod manifest;
mod quotas;
mod ties;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use basalt_api::podgroup::PodGroupPhase as Phase;
pub use basalt_api::slim::PodPhase;

pub use self::budgets::BudgetFacts;
pub use self::constraints::{Constraints, NodeOperator, NodeRequirement, NodeTerm, Taint, TaintEffect, Toleration};
pub use self::convert::{amount, quantity, resources, spec_hash};
pub use self::manifest::ManifestError;
pub use self::quotas::QuotaFacts;
pub(crate) use self::quotas::{is_quota_name, quota_name};
pub use self::ties::{
    ClaimFacts, HostPort, Labels, NamespaceFacts, NodeGroups, PodSelector, PodTerm, Spread, StorageFacts, Strategy,
    Ties, VolumeFacts,
};
pub use crate::resources::Resources;

/// A change of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A node exists, or changed.
    Node(NodeFacts),
    /// A node is gone.
    NodeGone {
        /// Its name.
        name: Arc<str>,
        /// If given, only a node with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A pod exists, or changed.
    Pod(PodFacts),
    /// A pod is gone.
    PodGone {
        /// `namespace/name`.
        key: Arc<str>,
        /// If given, only a pod with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A pod group exists, or changed.
    PodGroup(PodGroupFacts),
    /// A pod group is gone.
    PodGroupGone {
        /// `namespace/name`.
        key: Arc<str>,
        /// If given, only a pod group with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A queue exists, or changed.
    Queue(QueueFacts),
    /// A queue is gone.
    QueueGone {
        /// Its name.
        name: Arc<str>,
        /// If given, only a queue with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A priority class exists, or changed.
    PriorityClass(PriorityClassFacts),
    /// A priority class is gone.
    PriorityClassGone {
        /// Its name.
        name: Arc<str>,
        /// If given, only a class with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A namespace's quota exists, or changed.
    Quota(QuotaFacts),
    /// A quota is gone.
    QuotaGone {
        /// `namespace/name`.
        key: Arc<str>,
        /// If given, only a quota with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A disruption budget exists, or changed.
    Budget(BudgetFacts),
    /// A disruption budget is gone.
    BudgetGone {
        /// `namespace/name`.
        key: Arc<str>,
        /// If given, only a budget with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A namespace exists, or changed.
    Namespace(NamespaceFacts),
    /// A namespace is gone.
    NamespaceGone {
        /// Its name.
        name: Arc<str>,
        /// If given, only one with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A claim exists, or changed.
    Claim(ClaimFacts),
    /// A claim is gone.
    ClaimGone {
        /// `namespace/name`.
        key: Arc<str>,
        /// If given, only one with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A volume exists, or changed.
    Volume(VolumeFacts),
    /// A volume is gone.
    VolumeGone {
        /// Its name.
        name: Arc<str>,
        /// If given, only one with this uid is meant.
        uid: Option<Arc<str>>,
    },
    /// A storage class exists, or changed.
    Storage(StorageFacts),
    /// A storage class is gone.
    StorageGone {
        /// Its name.
        name: Arc<str>,
        /// If given, only one with this uid is meant.
        uid: Option<Arc<str>>,
    },
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    #[serde(default)]
    pub uid: Arc<str>,
    /// What pods may use in all.
    pub allocatable: Resources,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Its taints.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Cordoned.
    #[serde(default)]
    pub unschedulable: bool,
    /// It says that it is not ready, or has stopped saying that it is.
    #[serde(default)]
    pub not_ready: bool,
    /// The images that it has, with their size in bytes.
    #[serde(default)]
    pub images: BTreeMap<Arc<str>, i64>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodFacts {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Its uid.
    pub uid: Arc<str>,
    /// Creation time, in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: i64,
    /// Who schedules it.
    pub scheduler: Arc<str>,
    /// `namespace/name` of its pod group.
    #[serde(default)]
    pub group: Option<Arc<str>>,
    /// Its task (role) within the group; empty: the unnamed one.
    #[serde(default)]
    pub role: Arc<str>,
    /// Its priority; the order of pods inside a group.
    #[serde(default = "default_task_priority")]
    pub priority: i32,
    /// Its phase.
    #[serde(default = "default_pod_phase")]
    pub phase: PodPhase,
    /// The node that it is bound to.
    #[serde(default)]
    pub node: Option<Arc<str>>,
    /// Being deleted.
    #[serde(default)]
    pub terminating: bool,
    /// Held back by scheduling gates.
    #[serde(default)]
    pub gated: bool,
    /// May be evicted for others.
    #[serde(default = "default_true")]
    pub preemptable: bool,
    /// May have others evicted for it (its preemption policy is not Never).
    #[serde(default = "default_true")]
    pub preempts: bool,
    /// Of the system: never evicted for anyone.
    #[serde(default)]
    pub critical: bool,
    /// Of its node: a daemon's, or one that the node itself runs. Nobody has it moved.
    #[serde(default)]
    pub fixed: bool,
    /// When it began to run, in milliseconds since 1970; 0: it has not.
    #[serde(default)]
    pub started_ms: i64,
    /// The node that is being cleared for it.
    #[serde(default)]
    pub nominated: Option<Arc<str>>,
    /// What it asks for, effectively (init containers and overhead included; `pods` is added by the engine).
    #[serde(default)]
    pub requests: Resources,
    /// What it asks of its node.
    #[serde(default)]
    pub constraints: Arc<Constraints>,
    /// What ties it to other pods and to volumes.
    #[serde(default)]
    pub ties: Arc<Ties>,
    /// Its labels.
    #[serde(default)]
    pub labels: Labels,
}

impl Default for PodFacts {
    fn default() -> Self {
        PodFacts {
            key: Arc::from(""),
            uid: Arc::from(""),
            created_ms: 0,
            scheduler: Arc::from(""),
            group: None,
            role: Arc::from(""),
            priority: default_task_priority(),
            phase: PodPhase::Pending,
            node: None,
            terminating: false,
            gated: false,
            preemptable: true,
            preempts: true,
            critical: false,
            fixed: false,
            started_ms: 0,
            nominated: None,
            requests: Resources::new(),
            constraints: Arc::default(),
            ties: Arc::default(),
            labels: Labels::new(),
        }
    }
}

/// A pod without a priority counts as priority 1, as in Volcano.
fn default_task_priority() -> i32 {
    1
}

fn default_true() -> bool {
    true
}

fn default_pod_phase() -> PodPhase {
    PodPhase::Pending
}

/// A pod group: one job of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodGroupFacts {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Its uid.
    pub uid: Arc<str>,
    /// Creation time, in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: i64,
    /// Hash of the spec that these facts were read from; a plan names it, so that its executor can tell a stale decision.
    #[serde(default)]
    pub spec_hash: u64,
    /// Its queue.
    pub queue: Arc<str>,
    /// How many pods must be placed together; 0: no minimum.
    #[serde(default)]
    pub min_member: u32,
    /// The minimum per task (role).
    #[serde(default)]
    pub min_task_member: BTreeMap<Arc<str>, u32>,
    /// What the minimum needs, if declared.
    #[serde(default)]
    pub min_resources: Option<Resources>,
    /// Its priority class; empty: none.
    #[serde(default)]
    pub priority_class: Arc<str>,
    /// Whether the group says that it may be evicted; absent: it does not say.
    #[serde(default)]
    pub preemptable: Option<bool>,
    /// The phase as last written.
    #[serde(default = "default_phase")]
    pub phase: Phase,
    /// The counters as last written.
    #[serde(default)]
    pub tally: Tally,
    /// How long it may wait at most before it goes first, in milliseconds.
    #[serde(default)]
    pub sla_ms: Option<i64>,
    /// Hard constraints that the engine does not know (by name): the whole group waits.
    #[serde(default)]
    pub unsupported: Vec<Arc<str>>,
}

impl Default for PodGroupFacts {
    fn default() -> Self {
        PodGroupFacts {
            key: Arc::from(""),
            uid: Arc::from(""),
            created_ms: 0,
            spec_hash: 0,
            queue: Arc::from(basalt_api::names::DEFAULT_QUEUE),
            min_member: 0,
            min_task_member: BTreeMap::new(),
            min_resources: None,
            priority_class: Arc::from(""),
            preemptable: None,
            phase: Phase::Pending,
            tally: Tally::default(),
            sla_ms: None,
            unsupported: Vec::new(),
        }
    }
}

/// How many pods of a group run or have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Pods that run.
    pub running: u32,
    /// Pods that ended well.
    pub succeeded: u32,
    /// Pods that failed.
    pub failed: u32,
}

fn default_phase() -> Phase {
    Phase::Pending
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    #[serde(default)]
    pub uid: Arc<str>,
    /// Creation time, in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: i64,
    /// The parent queue; empty: `root`.
    #[serde(default)]
    pub parent: Arc<str>,
    /// Its weight.
    #[serde(default = "default_weight")]
    pub weight: u32,
    /// Its priority: higher is served first.
    #[serde(default)]
    pub priority: i32,
    /// Whether others may take back what it borrowed.
    #[serde(default = "default_true")]
    pub reclaimable: bool,
    /// What it should get.
    #[serde(default)]
    pub deserved: Resources,
    /// What it always keeps.
    #[serde(default)]
    pub guarantee: Resources,
    /// What it can have at most; an absent dimension is unlimited.
    #[serde(default)]
    pub capability: Resources,
    /// First in, first out: while the head of the queue waits, so does the rest.
    #[serde(default)]
    pub fifo: bool,
    /// Its place in drf's own tree: path and weights, as annotated (`root/a/b`, `1/2/3`).
    #[serde(default)]
    pub hierarchy: Option<(Arc<str>, Arc<str>)>,
    /// Node groups that it wants or avoids.
    #[serde(default)]
    pub node_groups: Option<NodeGroups>,
    /// Names of the nodes that are locked for it, sorted. They need not exist.
    #[serde(default)]
    pub locks: Vec<Arc<str>>,
    /// What must be free for it on them, with what it uses there.
    #[serde(default)]
    pub target: Resources,
    /// Others' pods on them are evicted until that is reached.
    #[serde(default)]
    pub evicts: bool,
}

fn default_weight() -> u32 {
    1
}

impl Default for QueueFacts {
    fn default() -> Self {
        QueueFacts {
            name: Arc::from(""),
            uid: Arc::from(""),
            created_ms: 0,
            parent: Arc::from(""),
            weight: 1,
            priority: 0,
            reclaimable: true,
            deserved: Resources::new(),
            guarantee: Resources::new(),
            capability: Resources::new(),
            fifo: false,
            hierarchy: None,
            node_groups: None,
            locks: Vec::new(),
            target: Resources::new(),
            evicts: false,
        }
    }
}

/// A priority class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityClassFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    #[serde(default)]
    pub uid: Arc<str>,
    /// Its value.
    pub value: i32,
    /// Used for groups that name no class.
    #[serde(default)]
    pub global_default: bool,
}
