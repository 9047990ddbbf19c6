//! `conformance`: pods of the system are never evicted for anyone.

use super::{Claim, Hook, Plugin};
use crate::model::TaskId;
use crate::mutants::mutant;
use crate::session::State;

/// The plugin; it has no state of its own.
pub(super) struct Conformance;

impl Plugin for Conformance {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Preemptable, Hook::Reclaimable, Hook::Evictable]
    }

    fn victims(&self, state: &State, _claim: &Claim, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        let goes = |task: &TaskId| !state.model.tasks[*task].critical || mutant!(TakeCritical);
        Some(candidates.iter().copied().filter(goes).collect())
    }

    fn protects(&self) -> bool {
        true
    }
}
