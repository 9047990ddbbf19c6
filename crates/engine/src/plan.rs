//! What the engine decides: plain data, in a stable order, ready to be written down or carried out.

mod waiting;

use std::sync::Arc;

use basalt_api::reason::Reason;
use serde::{Deserialize, Serialize};

use crate::conf::SchedulingAction;
use crate::facts::{Phase, Resources, Tally};
pub use waiting::WaitingList;

/// The outcome of a cycle.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// What to do, one entry per pod group, in the order in which it was decided.
    pub transactions: Vec<Transaction>,
    /// Every pod group that waits, and why; sorted by key. Shared with the engine: an unchanged list costs nothing.
    pub waiting: Arc<WaitingList>,
    /// Every queue, sorted by name. Shared with the engine.
    pub queues: Arc<Vec<QueueState>>,
}

/// What to do for one pod group: all of it or nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transaction {
    /// `namespace/name`.
    pub pod_group: Arc<str>,
    /// The group's uid.
    pub uid: Arc<str>,
    /// Hash of the spec that the decision was made for.
    pub spec_hash: u64,
    /// The minimum that the decision was made for.
    pub min_member: u32,
    /// Pods to bind now.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub binds: Vec<Bind>,
    /// Pods to evict.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub evictions: Vec<Eviction>,
    /// Pods that wait on a node for others to end.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pipelined: Vec<Pipelined>,
    /// The group's new phase.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub phase: Option<Phase>,
    /// The group's new counters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tally: Option<Tally>,
}

impl Transaction {
    /// Whether it changes what others can have: a claim that is renewed in every cycle does not.
    pub(crate) fn moves(&self) -> bool {
        !self.binds.is_empty() || !self.evictions.is_empty() || self.phase.is_some()
    }
}

/// A pod and its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// `namespace/name`.
    pub pod: Arc<str>,
    /// The pod's uid.
    pub uid: Arc<str>,
    /// The node's name.
    pub node: Arc<str>,
}

/// A pod and the node that it waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipelined {
    /// `namespace/name`.
    pub pod: Arc<str>,
    /// The pod's uid.
    pub uid: Arc<str>,
    /// The node's name.
    pub node: Arc<str>,
    /// Others were evicted for it: the room is kept, and the pod should name the node (`nominatedNodeName`).
    pub nominated: bool,
}

/// A pod that has to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// `namespace/name`.
    pub pod: Arc<str>,
    /// The pod's uid.
    pub uid: Arc<str>,
    /// The node's name.
    pub node: Arc<str>,
    /// What for.
    pub purpose: Purpose,
}

/// What an eviction is for, and by which action: plain ones clear a node for a pod, those on gangs make room for a whole
/// gang by whole gangs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// Another group of the same queue, or a near one, is more important.
    Preempt {
        /// The group that gets the room.
        beneficiary: Arc<str>,
    },
    /// Another queue gets back what it deserves.
    Reclaim {
        /// The group that gets the room.
        beneficiary: Arc<str>,
    },
    /// As `Preempt`, by whole gangs.
    GangPreempt {
        /// The group that gets the room.
        beneficiary: Arc<str>,
    },
    /// As `Reclaim`, by whole gangs.
    GangReclaim {
        /// The group that gets the room.
        beneficiary: Arc<str>,
    },
    /// Its node is locked for a queue whose guarantee is to be made good.
    Reservation {
        /// That queue.
        queue: Arc<str>,
    },
    /// A policy wants it elsewhere.
    Shuffle,
}

impl Purpose {
    /// Returns the name of the action that asked for the eviction, as the configuration has it.
    pub fn action(&self) -> &'static str {
        let action = match self {
            Purpose::Preempt { .. } => SchedulingAction::Preempt,
            Purpose::Reclaim { .. } => SchedulingAction::Reclaim,
            Purpose::GangPreempt { .. } => SchedulingAction::GangPreempt,
            Purpose::GangReclaim { .. } => SchedulingAction::GangReclaim,
            Purpose::Reservation { .. } => SchedulingAction::Reserve,
            Purpose::Shuffle => SchedulingAction::Shuffle,
        };
        action.name()
    }

    /// The group that gets the room; none: nobody in particular.
    pub fn beneficiary(&self) -> Option<&Arc<str>> {
        match self {
            Purpose::Preempt { beneficiary }
            | Purpose::Reclaim { beneficiary }
            | Purpose::GangPreempt { beneficiary }
            | Purpose::GangReclaim { beneficiary } => Some(beneficiary),
            Purpose::Reservation { .. } | Purpose::Shuffle => None,
        }
    }
}

/// A pod group that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// `namespace/name`.
    pub pod_group: Arc<str>,
    /// The group's uid; empty if the group does not exist.
    pub uid: Arc<str>,
    /// How many of its pods have no node.
    pub pods: u32,
    /// Why, most important first.
    pub reasons: Arc<[Reason]>,
}

/// A queue after the cycle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueState {
    /// Its name.
    pub name: Arc<str>,
    /// What its pods, and those of all queues below, have.
    pub allocated: Resources,
    /// What it deserves; empty where no plugin says.
    pub deserved: Resources,
    /// The largest part of its due, over all dimensions, that it has.
    pub share: f64,
}

impl Plan {
    /// All binds.
    pub fn binds(&self) -> impl Iterator<Item = &Bind> {
        self.transactions.iter().flat_map(|transaction| &transaction.binds)
    }

    /// All evictions.
    pub fn evictions(&self) -> impl Iterator<Item = &Eviction> {
        self.transactions.iter().flat_map(|transaction| &transaction.evictions)
    }

    /// Nothing to do.
    pub fn is_idle(&self) -> bool {
        self.transactions.is_empty()
    }
}

/// Splits `namespace/name`.
pub fn split_key(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}
