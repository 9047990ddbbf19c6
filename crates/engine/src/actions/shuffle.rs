//! `shuffle`: pods that a policy wants elsewhere have to move. Which ones is for plugins to say; none of ours names any.

use smallvec::SmallVec;

use super::{Cycle, Decision};
use crate::ledger::Status;
use crate::plan::Purpose;

impl Cycle<'_> {
    /// Evicts the running pods that are named. Who has to go already is not asked twice.
    pub(super) fn shuffle(&mut self) {
        for task in self.hooks.victim_tasks(self.state) {
            let job = self.state.model.tasks[task].job;
            if self.state.ledger.status(task) == Status::Running && job.is_some() {
                self.state.evict(task);
                self.decisions.push(Decision {
                    job,
                    placed: SmallVec::new(),
                    evicted: vec![(task, Purpose::Shuffle)],
                });
            }
        }
    }
}
