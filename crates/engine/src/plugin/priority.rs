//! `priority`: higher priority first, among jobs and among the pods of a job.

use std::cmp::Ordering;

use super::{Claim, Hook, Means, Plugin};
use crate::ledger::Status;
use crate::model::{JobId, TaskId};
use crate::mutants::mutant;
use crate::session::State;

/// The plugin; it has no state of its own.
pub(super) struct Priority;

impl Plugin for Priority {
    fn hooks(&self) -> &'static [Hook] {
        &[
            Hook::JobOrder,
            Hook::TaskOrder,
            Hook::JobStarving,
            Hook::Preemptable,
            Hook::Evictable,
        ]
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

    /// Only what is strictly less important goes: jobs among each other, pods inside a job. What a queue reclaims is
    /// not a matter of importance.
    fn victims(&self, state: &State, claim: &Claim, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        if claim.means == Means::GangReclaim || mutant!(IgnorePriority) {
            return Some(candidates.to_vec());
        }
        let (own, job) = (&state.model.tasks[claim.task], &state.model.jobs[claim.job]);
        let goes = |task: &TaskId| {
            let record = &state.model.tasks[*task];
            if record.job == claim.job {
                record.priority < own.priority
            } else {
                state.model.jobs[record.job].priority < job.priority
            }
        };
        Some(candidates.iter().copied().filter(goes).collect())
    }
}
