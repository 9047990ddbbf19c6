//! The writers of statuses and events.

use std::time::Duration;

use basalt_api::{Change, ObjectRef};
use basalt_scheduler::{StatusWrite, StatusWriter};

use crate::write::coalescing::{Latest, Pace, WriteAnswer};

/// Numbers of queues change with every cycle; people need them a few times a second, or, where the server has much to
/// do, once a second.
const QUEUES: Pace = Pace {
    gives_way: Some(Duration::from_millis(800)),
    ..Pace::after(Duration::from_millis(200))
};

/// One coalescing writer for each kind of status, and one for events.
#[derive(Clone)]
pub(super) struct StatusWriters {
    pod_groups: Latest,
    queues: Latest,
    pod_conditions: Latest,
    nominations: Latest,
    events: Latest,
}

impl Default for StatusWriters {
    fn default() -> Self {
        Self {
            pod_groups: Latest::new(Pace::AT_ONCE).reporting_answers(),
            queues: Latest::new(QUEUES).reporting_answers(),
            pod_conditions: Latest::new(Pace::after(Duration::ZERO)).reporting_answers(),
            nominations: Latest::new(Pace::AT_ONCE),
            events: Latest::new(Pace::EVENTS),
        }
    }
}

impl StatusWriters {
    fn writer(&self, writer: StatusWriter) -> &Latest {
        match writer {
            StatusWriter::PodGroups => &self.pod_groups,
            StatusWriter::Queues => &self.queues,
            StatusWriter::PodConditions => &self.pod_conditions,
            StatusWriter::Nominations => &self.nominations,
        }
    }

    /// Returns all writers.
    pub(super) fn all(&self) -> [&Latest; 5] {
        [
            &self.pod_groups,
            &self.queues,
            &self.pod_conditions,
            &self.nominations,
            &self.events,
        ]
    }

    /// Takes on a status write.
    pub(super) fn write(&self, write: StatusWrite) {
        let StatusWrite {
            writer,
            target,
            sequence,
            change,
            delay,
        } = write;
        self.writer(writer).put_later(target, sequence, change, delay);
    }

    /// Takes on an event.
    pub(super) fn record_event(&self, target: ObjectRef, event: Change) {
        self.events.put(target, event);
    }

    /// Returns the answers since the last call, in order.
    pub(super) fn take_answers(&self) -> impl Iterator<Item = (StatusWriter, WriteAnswer)> {
        let reporting = [
            StatusWriter::PodGroups,
            StatusWriter::Queues,
            StatusWriter::PodConditions,
        ];
        reporting.into_iter().flat_map(|writer| {
            let answers = self.writer(writer).take_answers();
            answers.into_iter().map(move |answer| (writer, answer))
        })
    }

    /// Drops conditions of pods that have not been sent; returns the pods whose conditions have been sent and not
    /// answered.
    pub(super) fn cancel_conditions(&self, pods: Vec<ObjectRef>) -> Vec<ObjectRef> {
        let mut sent = pods;
        sent.retain(|pod| self.pod_conditions.withdraw(pod));
        sent
    }

    /// Waits until the conditions of these pods are answered.
    pub(super) async fn await_conditions(&self, pods: &[ObjectRef]) {
        self.pod_conditions.silence(pods).await;
    }

    /// Returns whether all statuses are written. Events are not waited for.
    pub(super) fn is_idle(&self) -> bool {
        let statuses = [&self.pod_groups, &self.queues, &self.pod_conditions, &self.nominations];
        statuses.into_iter().all(Latest::is_idle)
    }

    /// Returns how many writes wait, and were dropped, by writer.
    pub(super) fn backlog(&self) -> Vec<(&'static str, (usize, u64))> {
        vec![
            ("podgroups", self.pod_groups.backlog()),
            ("queues", self.queues.backlog()),
            ("pods", self.pod_conditions.backlog()),
            ("nominations", self.nominations.backlog()),
            ("events", self.events.backlog()),
        ]
    }
}
