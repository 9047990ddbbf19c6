//! What a scheduler learns: watch events, and the answers to its own requests.

use basalt_api::podgroup::PodGroup;
use basalt_api::queue::Queue;
use basalt_api::slim::{Node, Pod};
use basalt_api::{NamespacedName, ObjectRef};
use basalt_engine::Conf;
use basalt_engine::facts::Event;
use basalt_engine::plan::{Bind, Eviction, Transaction};

use crate::command::StatusWriter;

/// One report of a watch about an object of kind `K`.
#[derive(Debug)]
pub enum ObjectEvent<'a, K> {
    /// The object is new or changed.
    Applied(&'a K),
    /// The object is gone.
    Deleted {
        /// Namespace and name of the object.
        key: &'a NamespacedName,
        /// The uid of the incarnation that is gone.
        uid: &'a str,
    },
}

/// Something that a [`SchedulerCore`](crate::SchedulerCore) has to know.
#[derive(Debug)]
pub enum SchedulerInput<'a> {
    /// A watch reported a node.
    Node(ObjectEvent<'a, Node>),
    /// A watch reported a pod.
    Pod(ObjectEvent<'a, Pod>),
    /// A watch reported a PodGroup.
    PodGroup(ObjectEvent<'a, PodGroup>),
    /// A watch reported a queue.
    Queue(ObjectEvent<'a, Queue>),
    /// A watch reported an object of a kind that only the engine reads.
    Fact(&'a Event),
    /// All binds of a [`Bind`](crate::SchedulerCommand::Bind) command were answered.
    BindsAnswered {
        /// The transaction of the command.
        transaction: &'a Transaction,
        /// The binds that did not succeed, or of which nobody knows whether they did.
        failed: &'a [FailedBind],
    },
    /// An [`Evict`](crate::SchedulerCommand::Evict) command was answered.
    EvictionAnswered {
        /// The eviction of the command.
        eviction: &'a Eviction,
        /// How it ended.
        outcome: &'a EvictionOutcome,
    },
    /// A [`WriteStatus`](crate::SchedulerCommand::WriteStatus) command was answered for good.
    StatusWriteAnswered {
        /// The writer of the command.
        writer: StatusWriter,
        /// The object that was written.
        target: &'a ObjectRef,
        /// The sequence number of the command.
        sequence: u64,
        /// How it ended.
        outcome: StatusWriteOutcome,
    },
    /// The configuration changed.
    ConfigurationChanged(Conf),
    /// A new configuration cannot be used; the former one stays in force.
    ConfigurationRejected {
        /// What is wrong with it.
        message: &'a str,
    },
}

/// A bind that did not succeed, or of which nobody knows whether it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedBind {
    /// The bind.
    pub bind: Bind,
    /// What the server said.
    pub message: String,
    /// Whether the server surely did not carry it out; otherwise only the watch can tell.
    pub is_certain: bool,
}

/// How an eviction ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// The pod is going, or was gone already.
    Evicted,
    /// A disruption budget forbids the eviction.
    Blocked(String),
    /// The server refused the eviction for another reason.
    Failed(String),
    /// The server may have carried out the eviction, or not: only the watch can tell.
    Unknown(String),
}

impl EvictionOutcome {
    /// Returns one word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Evicted => "done",
            Self::Blocked(_) => "blocked",
            Self::Failed(_) => "failed",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// How a status write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusWriteOutcome {
    /// The write is done.
    Written {
        /// The resourceVersion that it made, where that is a number.
        resource_version: Option<u64>,
    },
    /// The server rejected the write, and would reject it again.
    Rejected,
}
