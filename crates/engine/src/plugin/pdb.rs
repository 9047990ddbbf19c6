//! `pdb`: no more pods go than disruption budgets allow.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Claim, Hook, Plugin};
use crate::facts::BudgetFacts;
use crate::model::TaskId;
use crate::mutants::mutant;
use crate::session::State;

/// The plugin; it has no state of its own.
pub(super) struct Pdb;

/// The budgets that a pod is under. A pod without labels can be under one, too.
fn budgets_of(state: &State, task: TaskId) -> impl Iterator<Item = &BudgetFacts> {
    let tag = state.model.places.tags.key(state.model.tasks[task].tag);
    let (namespace, _) = crate::plan::split_key(state.model.tasks.name(task));
    let selects = move |budget: &&BudgetFacts| tag.is_some_and(|tag| state.model.places.selects(&budget.pods, tag));
    state.model.budgets_of(namespace).filter(selects)
}

impl Plugin for Pdb {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Preemptable, Hook::Reclaimable, Hook::Evictable]
    }

    fn victims(&self, state: &State, _claim: &Claim, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(within_budgets(state, candidates))
    }

    fn protects(&self) -> bool {
        true
    }
}

/// The pods, from the first, that can go together without a budget being passed. Whom we told to go before and the API does
/// not show yet counts as gone already.
pub(crate) fn within_budgets(state: &State, candidates: &[TaskId]) -> Vec<TaskId> {
    if state.model.budgets.is_empty() || mutant!(IgnoreBudgets) {
        return candidates.to_vec();
    }
    let mut left: FxHashMap<&str, u32> = FxHashMap::default();
    for budget in state.model.budgets.values() {
        left.insert(&budget.key, budget.allowed);
    }
    let mut spend = |task: TaskId, force: bool| {
        let budgets: Vec<&str> = budgets_of(state, task).map(|budget| &*budget.key).collect();
        let goes = force
            || budgets
                .iter()
                .all(|budget| left.get(budget).is_some_and(|&left| left > 0));
        for budget in budgets.iter().filter(|_| goes) {
            left.entry(budget).and_modify(|left| *left = left.saturating_sub(1));
        }
        goes
    };
    let going: FxHashSet<TaskId> = state.going().collect();
    for task in going {
        spend(task, true);
    }
    candidates.iter().copied().filter(|&task| spend(task, false)).collect()
}
