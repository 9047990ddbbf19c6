//! `gang`: a job's pods start together or not at all.

use std::cmp::Ordering;

use basalt_api::reason::Code;

use super::{Hook, Plugin, Refusal, TooFew, Vote};
use crate::ledger::{Counts, Status};
use crate::model::{JobId, QueueId, Role};
use crate::mutants::mutant;
use crate::session::State;

/// The plugin; it has no state of its own.
pub(super) struct Gang;

/// Whether the job and, where they count, all its roles reach their minimum by this way of counting.
fn reaches(state: &State, job: JobId, count: impl Fn(&Counts) -> u32) -> bool {
    let record = &state.model.jobs[job];
    (mutant!(IgnoreMinimum) || count(state.ledger.counts(job)) >= record.min_member)
        && (!record.roles_count()
            || mutant!(IgnoreTaskMinimum)
            || record
                .roles
                .iter()
                .enumerate()
                .all(|(role, Role { min, .. })| *min == 0 || count(&state.ledger.role_counts(job, role)) >= *min))
}

/// Pods without requests count like all others, once they have a place: to hope for one would leave half a gang bound.
fn ready(state: &State, job: JobId) -> bool {
    reaches(state, job, Counts::ready)
}

impl Plugin for Gang {
    fn hooks(&self) -> &'static [Hook] {
        &[
            Hook::JobValid,
            Hook::JobOrder,
            Hook::JobReady,
            Hook::JobPipelined,
            Hook::JobStarving,
        ]
    }

    fn job_invalid(&self, state: &State, job: JobId) -> Option<TooFew> {
        let record = &state.model.jobs[job];
        if record.roles_count() {
            for (index, role) in record.roles.iter().enumerate() {
                let have = state.ledger.role_counts(job, index).valid();
                if have < role.min {
                    return Some(TooFew {
                        role: Some(role.name.clone()),
                        need: role.min,
                        have,
                    });
                }
            }
        }
        let (need, have) = (record.min_member, state.ledger.counts(job).valid());
        (have < need).then_some(TooFew { role: None, need, have })
    }

    /// Jobs that lack pods go before jobs that want more than their minimum.
    fn job_order(&self, state: &State, a: JobId, b: JobId) -> Ordering {
        ready(state, a).cmp(&ready(state, b))
    }

    fn job_ready(&self, state: &State, job: JobId) -> bool {
        ready(state, job)
    }

    fn job_lacks(&self, state: &State, job: JobId) -> u32 {
        let have = state.ledger.counts(job).ready();
        state.model.jobs[job].min_member.saturating_sub(have)
    }

    fn job_pipelined(&self, state: &State, job: JobId) -> Vote {
        let pipelined = |counts: &Counts| counts.ready() + counts.of(Status::Pipelined);
        if reaches(state, job, pipelined) {
            Vote::Permit
        } else {
            Vote::Reject(Refusal::of(Code::NotEnoughResources, QueueId::NONE))
        }
    }

    fn job_starving(&self, state: &State, job: JobId) -> bool {
        let counts = state.ledger.counts(job);
        counts.ready() + counts.of(Status::Pipelined) < state.model.jobs[job].min_member
    }
}
