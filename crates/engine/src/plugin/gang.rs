//! `gang`: a job's pods start together or not at all.

use std::cmp::Ordering;

use basalt_api::reason::Code;

use rustc_hash::FxHashMap;

use super::{Claim, Hook, Means, Plugin, Refusal, TooFew, Vote};
use crate::ledger::{Counts, Status};
use crate::model::{JobId, QueueId, Role, TaskId};
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
            Hook::Preemptable,
            Hook::Reclaimable,
            Hook::Evictable,
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

    /// No gang goes below its minimum, or that of one of its roles. A gang of one is no gang: its last pod may go.
    /// Whole gangs are for those to spare who ask for them.
    fn victims(&self, state: &State, claim: &Claim, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        if matches!(claim.means, Means::GangPreempt | Means::GangReclaim) {
            return Some(candidates.to_vec());
        }
        let mut gone: FxHashMap<(JobId, Option<u16>), u32> = FxHashMap::default();
        let mut goes = |&task: &TaskId| {
            let record = &state.model.tasks[task];
            let job = &state.model.jobs[record.job];
            let role = usize::from(record.role);
            let role_min = job.roles.get(role).map_or(0, |role| role.min);
            let without = |key: Option<u16>| gone.get(&(record.job, key)).copied().unwrap_or(0);
            let spare = state.ledger.counts(record.job).ready().saturating_sub(without(None)) > job.min_member;
            let role_ready = state.ledger.role_counts(record.job, role).ready();
            let role_spare =
                !job.roles_count() || role_min == 0 || role_ready.saturating_sub(without(Some(record.role))) > role_min;
            let allowed = job.min_member <= 1 || (spare && role_spare) || mutant!(BreakGangs);
            if allowed {
                *gone.entry((record.job, None)).or_default() += 1;
                *gone.entry((record.job, Some(record.role))).or_default() += 1;
            }
            allowed
        };
        Some(candidates.iter().copied().filter(|task| goes(task)).collect())
    }

    fn protects(&self) -> bool {
        true
    }
}
