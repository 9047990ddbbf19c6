//! `proportion`: queues share the cluster by weight; what one cannot use goes to the others.

mod water;

use std::cmp::Ordering;

use basalt_api::reason::Code;

use self::water::{Vessel, exact, fill, whole};
use super::shares::{self, Losers, Shares, Standing, flat_code};
use super::{Claim, Hook, Plugin, QueueReport, Refusal, Vote};
use crate::model::{Id, JobId, QueueId, TaskId};
use crate::resources::Columns;
use crate::session::State;

/// The plugin: what queues are due in this cycle.
#[derive(Default)]
pub(super) struct Proportion {
    shares: Shares,
    /// What queues asked for when it was shared out.
    asks: Columns,
    inputs: Vec<i64>,
}

impl Proportion {
    /// What queues are due: only those with groups take part, so that idle ones do not thin out the weights.
    fn share_out(&mut self, state: &State) {
        let mut shares = Shares::new(state, true);
        shares::set_flat_limits(&mut shares, state);
        let ledger = &state.ledger;
        let dims: Vec<_> = shares.dims().collect();
        let active = shares::present_queues(state).filter(|&queue| ledger.queue_jobs(queue) > 0);
        let mut asks = Columns::default();
        asks.reserve(state.model.queues.slots(), dims.len());
        let mut vessel = |queue: QueueId| {
            let row = queue.index();
            for &dim in &dims {
                let waits = [ledger.queue_waiting(), ledger.queue_expected()].map(|of| shares.of(of, queue, dim));
                let all = waits
                    .into_iter()
                    .fold(shares.has(state, queue, dim), i64::saturating_add);
                asks.set(row, dim, all);
            }
            Vessel::new(
                state.model.queues[queue].weight,
                dims.iter().map(|&dim| asks.get(row, dim)),
                dims.iter().map(|&dim| shares.limit.get(row, dim)),
                dims.iter().map(|&dim| shares::guarantee(state, queue, dim)),
            )
        };
        let (queues, mut vessels): (Vec<QueueId>, Vec<Vessel>) = active.map(|queue| (queue, vessel(queue))).unzip();
        fill(&mut vessels, dims.iter().map(|&dim| ledger.total_of(dim)));
        for (&queue, vessel) in queues.iter().zip(&vessels) {
            for (&dim, &level) in dims.iter().zip(&vessel.level) {
                shares.set_due(queue, dim, whole(level), exact(level));
            }
        }
        self.shares = shares;
        self.asks = asks;
    }

    /// Whether the new dues may help somebody for whom nothing could be done: a queue that did not get all that it
    /// asked for gets more, or one has more than its due now. What only follows a queue's own demand helps nobody.
    fn helps(&self, state: &State, before: &Shares, asked: &Columns) -> bool {
        let rows = before.rows();
        let known = shares::present_queues(state).filter(|queue| queue.index() < rows);
        let mut cells = known.flat_map(|queue| before.dims().map(move |dim| (queue, dim)));
        cells.any(|(queue, dim)| {
            let [old, new] = [before, &self.shares].map(|shares| shares.due(queue, dim).unwrap_or(0));
            let more = new > old && old < asked.get(queue.index(), dim);
            more || (new < old && new < self.shares.has(state, queue, dim))
        })
    }

    fn share(&self, state: &State, queue: QueueId) -> f64 {
        self.shares.share(state, queue).unwrap_or(0.0)
    }

    fn beyond_due(&self, state: &State, queue: QueueId, tasks: &[TaskId]) -> Option<shares::Excess> {
        let more = shares::requests(state, tasks);
        self.shares.over_due(state, queue, &more)
    }
}

impl Plugin for Proportion {
    fn hooks(&self) -> &'static [Hook] {
        &[
            Hook::QueueOrder,
            Hook::Overused,
            Hook::Allocatable,
            Hook::Loan,
            Hook::Preemptive,
            Hook::Reclaimable,
            Hook::Evictable,
            Hook::JobEnqueueable,
            Hook::QueueReport,
        ]
    }

    fn open(&mut self, state: &State) -> bool {
        let inputs = shares::inputs(state, true);
        if inputs == self.inputs {
            return false;
        }
        let (before, asked) = (std::mem::take(&mut self.shares), std::mem::take(&mut self.asks));
        self.share_out(state);
        self.inputs = inputs;
        self.helps(state, &before, &asked)
    }

    /// The more important queue first, then the one that has the smaller part of its due.
    fn queue_order(&self, state: &State, a: QueueId, b: QueueId) -> Ordering {
        let queues = &state.model.queues;
        let by_share = || self.share(state, a).total_cmp(&self.share(state, b));
        queues[b].priority.cmp(&queues[a].priority).then_with(by_share)
    }

    fn overused(&self, state: &State, queue: QueueId) -> bool {
        let due = |dim| self.shares.due(queue, dim).unwrap_or(0);
        self.shares
            .dims()
            .all(|dim| due(dim) <= self.shares.has(state, queue, dim))
    }

    fn queue_refuses(&self, state: &State, queue: QueueId, task: TaskId) -> Option<Refusal> {
        let more = state.model.classes.request(state.model.tasks[task].class);
        // What is guaranteed is due, but never beyond the queue's own limit.
        if let Some(limit) = self.shares.over_limit(state, queue, more) {
            return Some(limit.refusal(flat_code(state, queue, limit), queue));
        }
        let due = self.shares.over_due(state, queue, more)?;
        Some(due.refusal(Code::QueueOverDeserved, queue))
    }

    fn loan_refused(&self, state: &State, queue: QueueId, task: TaskId) -> Option<Refusal> {
        let more = state.model.classes.request(state.model.tasks[task].class);
        let excess = self.shares.over_limit(state, queue, more)?;
        Some(excess.refusal(flat_code(state, queue, excess), queue))
    }

    fn preemptive(&self, state: &State, queue: QueueId, tasks: &[TaskId]) -> bool {
        self.beyond_due(state, queue, tasks).is_none()
    }

    fn victims(&self, state: &State, claim: &Claim, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        if matches!(claim.means, super::Means::Preempt | super::Means::GangPreempt) {
            return None;
        }
        let losers = Losers::new(state, &self.shares, claim);
        Some(losers.choose(candidates, |losers, queue, loss, short| {
            if losers.keeps_guarantee(queue, loss) {
                losers.by_due(queue, loss, short)
            } else {
                Standing::Keeps
            }
        }))
    }

    fn protects(&self) -> bool {
        true
    }

    fn job_enqueueable(&self, state: &State, job: JobId) -> Vote {
        shares::flat_vote(&self.shares, state, job)
    }

    fn is_due(&self, state: &State, job: JobId) -> bool {
        self.shares.is_due(state, job)
    }

    fn queue_report(&self, state: &State, queue: QueueId) -> Option<QueueReport> {
        self.shares.report(state, queue, self.share(state, queue))
    }
}
