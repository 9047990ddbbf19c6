//! What a scheduler wants done.

use std::sync::Arc;
use std::time::Duration;

use basalt_api::{Change, EventType, ObjectRef, resource_kind};
use basalt_engine::plan::{Eviction, Transaction, split_key};
use jiff::SignedDuration;

/// Something that the driver of a [`SchedulerCore`](crate::SchedulerCore) has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum SchedulerCommand {
    /// Bind all pods of a transaction, and report the answers as
    /// [`BindsAnswered`](crate::SchedulerInput::BindsAnswered).
    Bind {
        /// The transaction.
        transaction: Box<Transaction>,
        /// Pods whose conditions must not be written any more: writes that have not been sent are dropped, and the
        /// bind waits for the answers to those that have. They get no answer of their own.
        cancelled_conditions: Vec<ObjectRef>,
    },
    /// Evict a pod, and report the answer as [`EvictionAnswered`](crate::SchedulerInput::EvictionAnswered).
    Evict {
        /// The eviction.
        eviction: Box<Eviction>,
        /// One sentence that says why.
        message: String,
    },
    /// Delete the bound pods of a gang that did not become whole. No answer is expected: what stays is deleted again.
    ReleaseGang {
        /// The PodGroup, as `namespace/name`.
        pod_group: Arc<str>,
        /// The deletions, one for each pod.
        deletions: Vec<Change>,
    },
    /// Write a status.
    WriteStatus(StatusWrite),
    /// Record an event on an object ([`Change::Event`]).
    RecordEvent {
        /// The object that the event is about.
        target: ObjectRef,
        /// The event.
        event: Change,
    },
    /// Count or measure something.
    RecordMetric(SchedulingMetric),
}

/// A write of a status. Only the newest one for an object matters: a driver may drop a write that it has not sent when
/// a newer one comes. It tries again until the write is done or rejected, and then reports
/// [`StatusWriteAnswered`](crate::SchedulerInput::StatusWriteAnswered).
#[derive(Debug, Clone, PartialEq)]
pub struct StatusWrite {
    /// The writer that it belongs to.
    pub writer: StatusWriter,
    /// The object.
    pub target: ObjectRef,
    /// The number of this write; later ones have larger numbers.
    pub sequence: u64,
    /// The change.
    pub change: Change,
    /// How long it may wait for a newer one.
    pub delay: Duration,
}

/// The kinds of statuses that a scheduler writes. Writes of one writer to one object replace each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusWriter {
    /// Statuses of PodGroups.
    PodGroups,
    /// Statuses of queues.
    Queues,
    /// Conditions of pods that wait.
    PodConditions,
    /// Nominated nodes of pods.
    Nominations,
}

/// Something that is counted or measured.
#[derive(Debug, Clone, PartialEq)]
pub enum SchedulingMetric {
    /// A pod got its node.
    PodBound {
        /// The time since the pod was first observed.
        waited: SignedDuration,
    },
    /// The minimum of a PodGroup was placed.
    PodGroupScheduled {
        /// The time since the PodGroup was created.
        waited: SignedDuration,
    },
    /// The scheduler tried to place PodGroups.
    PodGroupsAttempted {
        /// `scheduled`, `unschedulable` or `error`.
        result: &'static str,
        /// How many.
        count: usize,
    },
    /// Binds of a PodGroup failed.
    BindFailed {
        /// The PodGroup, as `namespace/name`.
        pod_group: Arc<str>,
    },
    /// A PodGroup is gone, and its series with it.
    PodGroupDeleted {
        /// The PodGroup, as `namespace/name`.
        pod_group: String,
    },
    /// A cycle decided to evict pods.
    VictimsSelected {
        /// The number of PodGroups that pods are evicted for.
        preemptors: usize,
        /// The number of pods.
        victims: usize,
    },
    /// An eviction was answered.
    EvictionAnswered {
        /// The action that asked for it.
        action: &'static str,
        /// How it ended.
        result: &'static str,
    },
    /// A gang of which only a part was bound became whole or was released.
    PartialGangResolved(GangOutcome),
    /// A decision was dropped because changes that came in since spoke against it.
    DecisionOutdated,
}

/// What became of a gang of which only a part was bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangOutcome {
    /// The gang became whole.
    Completed,
    /// The bound part of the gang was deleted.
    Released,
}

impl GangOutcome {
    /// Returns one word for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Released => "released",
        }
    }
}

/// The commands that have not been taken yet.
#[derive(Debug, Default)]
pub(crate) struct CommandOutbox {
    commands: Vec<SchedulerCommand>,
    last_sequence: u64,
}

impl CommandOutbox {
    pub(crate) fn push(&mut self, command: SchedulerCommand) {
        self.commands.push(command);
    }

    pub(crate) fn take(&mut self) -> Vec<SchedulerCommand> {
        std::mem::take(&mut self.commands)
    }

    /// Adds a status write, and returns its sequence number.
    pub(crate) fn write_status(
        &mut self,
        writer: StatusWriter,
        target: ObjectRef,
        change: Change,
        delay: Duration,
    ) -> u64 {
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        self.push(SchedulerCommand::WriteStatus(StatusWrite {
            writer,
            target,
            sequence,
            change,
            delay,
        }));
        sequence
    }

    pub(crate) fn record_event(
        &mut self,
        target: ObjectRef,
        uid: &str,
        reason: &str,
        message: String,
        event_type: EventType,
    ) {
        let event = Change::Event {
            regarding: target.clone(),
            uid: uid.to_owned(),
            reason: reason.to_owned(),
            message,
            event_type,
        };
        self.push(SchedulerCommand::RecordEvent { target, event });
    }

    pub(crate) fn record_metric(&mut self, metric: SchedulingMetric) {
        self.push(SchedulerCommand::RecordMetric(metric));
    }
}

/// Returns the reference of the PodGroup `namespace/name`.
pub(crate) fn pod_group_ref(key: &str) -> ObjectRef {
    let (namespace, name) = split_key(key);
    ObjectRef::new(resource_kind::POD_GROUP, namespace, name)
}

/// Returns the reference of the pod `namespace/name`.
pub(crate) fn pod_ref(key: &str) -> ObjectRef {
    let (namespace, name) = split_key(key);
    ObjectRef::new(resource_kind::POD, namespace, name)
}

/// Returns the reference of a queue.
pub(crate) fn queue_ref(name: &str) -> ObjectRef {
    ObjectRef::new(resource_kind::QUEUE, "", name)
}
