//! `backfill`: pods that ask for nothing go wherever there is a place; then, where queues share by weight, what nobody
//! else can use is lent.

use smallvec::SmallVec;

use super::{Attempt, Cycle, Decision};
use crate::ledger::Status;
use crate::model::{JobId, NodeId};
use crate::plugin::Fit;

impl Cycle<'_> {
    /// Queue by queue, all jobs of each.
    pub(super) fn backfill(&mut self) {
        let mut line = self.line(|job| self.state.ledger.counts(job).pending_best_effort > 0 && self.is_active(job));
        while let Some(queue) = self.next_queue(&mut line) {
            while let Some(job) = self.next_job(&mut line, queue) {
                self.backfill_job(job);
                self.follow(&mut line, queue);
            }
        }
        self.borrow();
    }

    /// Places what it can. A gang that would stay below its minimum gets nothing.
    fn backfill_job(&mut self, job: JobId) {
        let checkpoint = self.state.checkpoint();
        let mut attempt = Attempt::default();
        let mut placed = SmallVec::new();
        let queue = self.state.model.jobs[job].queue;
        for task in self.pending(job, true) {
            if let Some(refusal) = self.hooks.queue_refuses(self.state, queue, task) {
                attempt.refusal = Some(refusal);
                continue;
            }
            match self.place(task) {
                Some(Fit::Idle) => placed.push(task),
                // It waits for others to go, but there is nothing that would be worth holding.
                Some(Fit::Future) => {
                    self.state.set(task, Status::Pending, NodeId::NONE);
                    attempt.pipelined = true;
                }
                None => self.note_failure(&mut attempt, task),
            }
        }
        attempt.placed = self.state.ledger.counts(job).ready();
        if self.hooks.job_starving(self.state, job) || !self.hooks.job_ready(self.state, job) {
            self.state.rollback(checkpoint);
        } else if !placed.is_empty() {
            self.decisions.push(Decision {
                job,
                placed,
                evicted: Vec::new(),
            });
        }
        if let Some(known) = self.attempts.get_mut(&job) {
            // What allocate found stays true.
            for (want, shortage) in attempt.failed {
                if !known.failed.iter().any(|(known, _)| *known == want) {
                    known.failed.push((want, shortage));
                }
            }
        } else if !attempt.failed.is_empty() || attempt.refusal.is_some() || attempt.pipelined {
            self.attempts.insert(job, attempt);
        }
    }
}
