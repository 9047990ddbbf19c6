//! `dequeueStrategy: fifo`: while the head of a queue waits, so does everything behind it.

use basalt_api::reason::Code;

use super::{Cycle, Line};
use crate::facts::Phase;
use crate::ledger::Status;
use crate::model::{JobId, QueueId};
use crate::plugin::Refusal;

impl Cycle<'_> {
    /// Whether a job stands in line although it cannot be placed now (it is not let in yet, or lacks pods): the head of
    /// such a queue is whoever is first, not whoever can go. Pods that ask for nothing take no room from anybody.
    pub(super) fn holds_its_place(&self, job: JobId) -> bool {
        let queue = self.state.model.jobs[job].queue;
        let counts = self.state.ledger.counts(job);
        let only_fillers = counts.pending_best_effort > 0 && counts.of(Status::Pending) == counts.pending_best_effort;
        queue.is_some() && self.state.model.queues[queue].fifo && !only_fillers && self.lacks_its_minimum(job)
    }

    /// After a job's turn: where it still waits for its minimum, the rest of its queue waits for it.
    pub(super) fn let_head_block(&mut self, line: &mut Line, queue: QueueId, job: JobId) {
        if !self.state.model.queues[queue].fifo || !self.lacks_its_minimum(job) {
            return;
        }
        while let Some(behind) = self.next_job(line, queue) {
            let refusal = Refusal::of(Code::QueueHeadBlocks, queue);
            self.attempts.entry(behind).or_default().refusal = Some(refusal);
        }
    }

    /// Whether a job waits for the head of its queue.
    pub(super) fn is_behind_the_head(&self, job: JobId) -> bool {
        let refusal = self.attempts.get(&job).and_then(|attempt| attempt.refusal.as_ref());
        refusal.is_some_and(|refusal| refusal.code == Code::QueueHeadBlocks)
    }

    fn lacks_its_minimum(&self, job: JobId) -> bool {
        let (phase, counts) = (self.state.model.jobs[job].phase, self.state.ledger.counts(job));
        let open = counts.of(Status::Pending) + counts.of(Status::Pipelined) > 0;
        let waits = open || phase == Phase::Pending || self.hooks.job_invalid(self.state, job).is_some();
        let served = counts.ready() > 0 && self.hooks.job_ready(self.state, job);
        waits && !served && phase != Phase::Completed
    }
}
