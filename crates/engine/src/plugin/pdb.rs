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

/// The pods, from the first, that can go together without a budget being passed.
fn within_budgets(state: &State, candidates: &[TaskId]) -> Vec<TaskId> {
    let mut allowance = Allowance::new(state);
    let goes = |task: &TaskId| allowance.spend(std::slice::from_ref(task));
    candidates.iter().copied().filter(goes).collect()
}

/// What disruption budgets leave. Whom we told to go before and the API does not show yet counts as gone already.
pub(crate) struct Allowance<'s> {
    state: &'s State,
    /// By budget; none where nothing is limited.
    left: Option<FxHashMap<&'s str, u32>>,
}

impl<'s> Allowance<'s> {
    /// What there is now.
    pub(crate) fn new(state: &'s State) -> Self {
        if state.model.budgets.is_empty() || mutant!(IgnoreBudgets) {
            return Self { state, left: None };
        }
        let budgets = state.model.budgets.values();
        let mut left: FxHashMap<&str, u32> = budgets.map(|budget| (&*budget.key, budget.allowed)).collect();
        let going: FxHashSet<TaskId> = state.going().collect();
        for budget in going.into_iter().flat_map(|task| budgets_of(state, task)) {
            left.entry(&budget.key)
                .and_modify(|left| *left = left.saturating_sub(1));
        }
        Self {
            state,
            left: Some(left),
        }
    }

    /// Lets these pods go, all of them or none; says whether they may.
    pub(crate) fn spend(&mut self, tasks: &[TaskId]) -> bool {
        let Some(left) = &mut self.left else { return true };
        let mut needed: FxHashMap<&str, u32> = FxHashMap::default();
        for budget in tasks.iter().flat_map(|&task| budgets_of(self.state, task)) {
            *needed.entry(&budget.key).or_default() += 1;
        }
        let covers = |(budget, needed): (&&str, &u32)| left.get(budget).is_some_and(|left| left >= needed);
        let goes = needed.iter().all(covers);
        for (budget, needed) in needed.into_iter().filter(|_| goes) {
            left.entry(budget)
                .and_modify(|left| *left = left.saturating_sub(needed));
        }
        goes
    }
}
