//! `reclaim`: a queue gets back what it deserves from queues that have more than they do.

use super::Cycle;
use crate::plugin::Means;

impl Cycle<'_> {
    /// The best queue's best starving job is served, then the queues are looked at again.
    pub(super) fn reclaim(&mut self) {
        let mut hunt = self.hunt();
        let mut line = self.starving_line();
        while let Some(queue) = self.next_queue(&mut line) {
            if self.hooks.overused(self.state, queue) {
                line.close(queue);
                continue;
            }
            let Some(job) = self.next_job(&mut line, queue) else {
                continue;
            };
            let served = self.serve(&mut hunt, job, Means::Reclaim);
            self.follow(&mut line, queue);
            if served {
                self.call_again(&mut line, queue);
            }
            self.requeue(&mut line, queue);
        }
    }
}
