//! `enqueue`: which pod groups are let in, so that their pods are made and placed.

use super::Cycle;
use crate::facts::Phase;

impl Cycle<'_> {
    /// Goes through the waiting groups in order; a refused one does not hold up the others, but in a
    /// first-in-first-out queue. A group that declares no
    /// minimum is let in without a vote.
    pub(super) fn enqueue(&mut self) {
        let mut line = self.line(|job| self.state.model.jobs[job].phase == Phase::Pending);
        while let Some(queue) = self.next_queue(&mut line) {
            let Some(job) = self.next_job(&mut line, queue) else {
                continue;
            };
            let declared = self.state.model.jobs[job].min_resources.is_some();
            let vote = if declared {
                self.hooks.job_enqueueable(self.state, job)
            } else {
                Ok(())
            };
            match vote {
                Ok(()) => {
                    self.state.set_phase(job, Phase::Inqueue);
                    self.state.mark(job);
                }
                Err(refusal) => {
                    let attempt = self.attempts.entry(job).or_default();
                    attempt.refusal = Some(refusal);
                    attempt.at_the_door = true;
                    self.let_head_block(&mut line, queue, job);
                }
            }
            self.follow(&mut line, queue);
            self.requeue(&mut line, queue);
        }
    }
}
