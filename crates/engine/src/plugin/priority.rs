//! `priority`: higher priority first, among jobs and among the pods of a job.

use std::cmp::Ordering;

use super::{Hook, Plugin};
use crate::ledger::Status;
use crate::model::{JobId, TaskId};
use crate::session::State;

/// The plugin; it has no state of its own.
pub(super) struct Priority;

impl Plugin for Priority {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::JobOrder, Hook::TaskOrder, Hook::JobStarving]
    }

    fn job_order(&self, state: &State, a: JobId, b: JobId) -> Ordering {
        state.model.jobs[b].priority.cmp(&state.model.jobs[a].priority)
    }

    fn task_order(&self, state: &State, a: TaskId, b: TaskId) -> Ordering {
        state.model.tasks[b].priority.cmp(&state.model.tasks[a].priority)
    }

    fn job_starving(&self, state: &State, job: JobId) -> bool {
        let counts = state.ledger.counts(job);
        counts.ready() + counts.of(Status::Pipelined) < counts.total()
    }
}
