//! Disruption budgets come, change and go.

use super::is_meant;
use crate::facts::BudgetFacts;
use crate::session::State;

impl State {
    pub(super) fn upsert_budget(&mut self, facts: &BudgetFacts) {
        if self.model.budgets.get(&facts.key) != Some(facts) {
            self.model.budgets.insert(facts.key.clone(), facts.clone());
            self.ease();
        }
    }

    pub(super) fn budget_gone(&mut self, key: &str, uid: Option<&str>) {
        let known = self.model.budgets.get(key);
        if known.is_some_and(|budget| is_meant(uid, &budget.uid)) {
            self.model.budgets.remove(key);
            self.ease();
        }
    }
}
