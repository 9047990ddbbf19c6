//! The second half of `backfill`, where queues share by weight: what is idle and nobody else can use goes to queues
//! beyond their due, so that nothing lies idle only because everybody's due is too small for everybody's job.

use basalt_api::reason::Code;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Attempt, Cycle, Decision};
use crate::facts::Phase;
use crate::ledger::Status;
use crate::model::{ClassId, Id, JobId, NodeId, QueueId, TaskId};
use crate::plugin::{Fit, Refusal};
use crate::resources::{Amounts, DimId, PODS};

/// What may be given away.
struct Spare {
    /// Idle on nodes that take pods, when this began; by estate and dimension.
    idle: Vec<Vec<i64>>,
    /// Idle in the whole cluster, when this began.
    cluster_idle: Vec<i64>,
    /// By queue: the minimums of its waiting jobs that it is due and can still have.
    kept: FxHashMap<QueueId, Vec<i64>>,
    /// The sum of these.
    kept_in_all: Vec<i64>,
}

impl Cycle<'_> {
    /// Gives jobs that were refused for their queue's due alone what nobody else can use. Whole gangs, on what is idle
    /// now; never beyond a queue's limit, never at the cost of others' guarantees or waiting minimums.
    pub(super) fn borrow(&mut self) {
        if !self.hooks.lends() {
            return;
        }
        let wants = |job| self.is_over_due(job) && self.is_active(job) && !self.beneficiaries.contains(&job);
        if !self.jobs.iter().any(|&job| wants(job)) {
            return;
        }
        let mut spare = self.spare_room();
        let mut line = self.line(|job| wants(job) && self.could_lend(job, &spare));
        if line.jobs.is_empty() {
            return;
        }
        self.keep_minimums(&mut spare);
        let mut sheets: FxHashMap<JobId, std::vec::IntoIter<TaskId>> = FxHashMap::default();
        while let Some(queue) = self.next_queue(&mut line) {
            let Some(job) = self.next_job(&mut line, queue) else {
                continue;
            };
            let left = sheets.remove(&job);
            let mut tasks = left.unwrap_or_else(|| self.pending(job, false).into_iter());
            if self.borrow_for(job, &spare, &mut tasks) {
                sheets.insert(job, tasks);
                self.requeue_job(&mut line, queue, job);
            }
            self.follow(&mut line, queue);
            self.requeue(&mut line, queue);
        }
    }

    fn is_over_due(&self, job: JobId) -> bool {
        let refusal = self.attempts.get(&job).and_then(|attempt| attempt.refusal.as_ref());
        refusal.is_some_and(|refusal| refusal.code == Code::QueueOverDeserved)
    }

    /// One turn with the pods that were not tried yet: up to the job's minimum or, from there, one pod more. True: it got
    /// something.
    fn borrow_for(&mut self, job: JobId, spare: &Spare, tasks: &mut std::vec::IntoIter<TaskId>) -> bool {
        let checkpoint = self.state.checkpoint();
        let queue = self.state.model.jobs[job].queue;
        let mut attempt = Attempt::default();
        let mut placed: SmallVec<[TaskId; 4]> = SmallVec::new();
        for task in tasks {
            if let Some(refusal) = self.loan_refused(spare, queue, task) {
                attempt.refusal = Some(refusal);
                break;
            }
            match self.place(task) {
                Some(Fit::Idle) => placed.push(task),
                Some(Fit::Future) => {
                    self.state.set(task, Status::Pending, NodeId::NONE);
                    continue;
                }
                None => self.note_failure(&mut attempt, task),
            }
            if self.hooks.job_ready(self.state, job) {
                break;
            }
        }
        attempt.placed = self.state.ledger.counts(job).ready();
        let served = !placed.is_empty() && self.hooks.job_ready(self.state, job);
        if served {
            self.attempts.remove(&job);
            self.decisions.push(Decision {
                job,
                placed,
                evicted: Vec::new(),
            });
        } else {
            self.state.rollback(checkpoint);
            if attempt.refusal.is_some() || !attempt.failed.is_empty() {
                self.attempts.insert(job, attempt);
            }
        }
        served
    }

    /// Why a queue may not have a pod placed on what others leave.
    fn loan_refused(&self, spare: &Spare, queue: QueueId, task: TaskId) -> Option<Refusal> {
        if let Some(refusal) = self.hooks.loan_refused(self.state, queue, task) {
            return Some(refusal);
        }
        let class = self.state.model.tasks[task].class;
        let request = self.state.model.classes.request(class);
        let short = request.iter().filter(|&(dim, _)| dim != PODS).find_map(|(dim, need)| {
            let at = dim.index();
            let own = spare.kept.get(&queue).map_or(0, |kept| kept[at]);
            let taken = spare.cluster_idle[at] - self.state.ledger.cluster_idle(dim);
            let have = self.idle_for(spare, class, queue, dim) - taken - (spare.kept_in_all[at] - own);
            (need > have).then_some((dim, need, have.max(0)))
        });
        short.map(|(dim, need, have)| Refusal {
            dim: Some(dim),
            need,
            have,
            ..Refusal::of(Code::ReservedForOthers, queue)
        })
    }

    fn spare_room(&self) -> Spare {
        let (model, ledger) = (&self.state.model, &self.state.ledger);
        let dims: Vec<DimId> = (0..model.dims.count()).map(|dim| DimId(dim as u16)).collect();
        let takes = |node: &NodeId| !model.nodes[*node].unschedulable && !model.nodes[*node].not_ready;
        let mut spare = Spare {
            idle: vec![vec![0; dims.len()]; self.state.estates().len().max(1)],
            cluster_idle: dims.iter().map(|&dim| ledger.cluster_idle(dim)).collect(),
            kept: FxHashMap::default(),
            kept_in_all: vec![0; dims.len()],
        };
        for &node in self.state.nodes_in_order().iter().filter(|node| takes(node)) {
            let estate = &mut spare.idle[model.nodes[node].estate as usize];
            for (idle, &dim) in estate.iter_mut().zip(&dims) {
                *idle += ledger.idle_of(node, dim).max(0);
            }
        }
        spare
    }

    /// What was idle on nodes that pods of a class in a queue may use.
    fn idle_for(&self, spare: &Spare, class: ClassId, queue: QueueId, dim: DimId) -> i64 {
        let right = self.state.right_of(class, queue);
        match self.state.reach(class, right) {
            None => spare.idle.iter().map(|idle| idle[dim.index()]).sum(),
            Some(reach) => reach.iter().map(|&at| spare.idle[at as usize][dim.index()]).sum(),
        }
    }

    /// A cheap look beforehand: on a full cluster there is nothing to lend. (Each job by itself: what it is told must not
    /// depend on who else is looked at.)
    fn could_lend(&self, job: JobId, spare: &Spare) -> bool {
        let (model, ledger) = (&self.state.model, &self.state.ledger);
        let queue = model.jobs[job].queue;
        let fits = |class: ClassId| {
            let request = model.classes.request(class);
            request
                .iter()
                .all(|(dim, need)| need <= self.idle_for(spare, class, queue, dim))
        };
        let mut pending = ledger.pending(job).iter();
        pending.any(|&(class, count)| count > 0 && fits(class))
    }

    /// Keeps what waiting jobs need that fit whole into what their queue is still due; of a queue no more than that.
    fn keep_minimums(&self, spare: &mut Spare) {
        let mut unmet: FxHashMap<QueueId, Amounts> = FxHashMap::default();
        let single = self.state.unsettled.iter().map(|&job| (job, 1));
        let crowds = self.state.crowds.iter();
        let first = crowds.filter_map(|crowd| Some((crowd.members().next()?, crowd.len())));
        for (job, count) in single.chain(first) {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let queue = self.state.model.jobs[job].queue;
            if !queue.is_some() {
                continue;
            }
            let unmet = unmet.entry(queue).or_insert_with(|| self.unmet_due(queue));
            if unmet.is_best_effort() {
                continue;
            }
            let need = self.minimum_missing(job);
            if need.is_best_effort() {
                continue;
            }
            let fits = |(dim, need): (DimId, i64)| dim == PODS || need <= unmet.get(dim).unwrap_or(0);
            if need.iter().all(fits) {
                let none = || vec![0; spare.kept_in_all.len()];
                let kept = spare.kept.entry(queue).or_insert_with(none);
                for (dim, need) in need.iter().filter(|&(dim, _)| dim != PODS) {
                    let kept = &mut kept[dim.index()];
                    let more = need.saturating_mul(count);
                    *kept = kept.saturating_add(more).min(unmet.get(dim).unwrap_or(0));
                }
            }
        }
        for kept in spare.kept.values() {
            for (sum, kept) in spare.kept_in_all.iter_mut().zip(kept) {
                *sum += kept;
            }
        }
    }

    /// What a queue is due and does not have.
    fn unmet_due(&self, queue: QueueId) -> Amounts {
        let due = self.hooks.queue_report(self.state, queue).unwrap_or_default().deserved;
        let has = |dim| self.state.ledger.queue_allocated().get(queue.index(), dim);
        Amounts::from_pairs(due.iter().map(|(dim, due)| (dim, (due - has(dim)).max(0))))
    }

    /// What a job that is let in lacks to its minimum.
    fn minimum_missing(&self, job: JobId) -> Amounts {
        let record = &self.state.model.jobs[job];
        let lacks = if record.present { self.still_lacks(job) } else { 0 };
        let served = record.unsupported.is_empty() && !matches!(record.phase, Phase::Pending | Phase::Completed);
        if lacks == 0 || !served {
            return Amounts::default();
        }
        if let Some(declared) = &record.min_resources {
            let has = self.state.ledger.job_allocated();
            let rest = |(dim, wanted): (DimId, i64)| (dim, (wanted - has.get(job.index(), dim)).max(0));
            return Amounts::from_pairs(declared.iter().map(rest));
        }
        let tasks = self.pending(job, false);
        let request = |&task: &TaskId| {
            self.state
                .model
                .classes
                .request(self.state.model.tasks[task].class)
                .iter()
        };
        Amounts::from_pairs(tasks.iter().take(lacks as usize).flat_map(request))
    }

    /// The next job of a queue that has had enough: only one for which room is kept, since its claim is part of what the
    /// queue has. Says why the others get nothing.
    pub(super) fn next_claimant(&mut self, line: &mut super::Line, queue: QueueId) -> Option<JobId> {
        while let Some(job) = self.next_job(line, queue) {
            if self.state.ledger.counts(job).of(Status::Pipelined) > 0 {
                return Some(job);
            }
            let tasks = self.state.model.jobs[job].tasks.iter().copied();
            let free = tasks.filter(|&task| self.is_free(task, false));
            let task = free.min_by(|&a, &b| self.hooks.task_order(self.state, a, b));
            let refusal = task.and_then(|task| self.hooks.queue_refuses(self.state, queue, task));
            let refusal = refusal.unwrap_or_else(|| Refusal::of(Code::QueueOverDeserved, queue));
            self.attempts.entry(job).or_default().refusal.get_or_insert(refusal);
        }
        line.turn = None;
        None
    }
}
