//! What a cycle does, action by action.

mod allocate;
mod backfill;
mod borrow;
mod close;
mod crowd;
mod enqueue;
mod fifo;
mod gang_evict;
mod heap;
mod hunt;
mod preempt;
mod reclaim;
mod reserve;
mod serve;
mod shuffle;
mod victims;

use std::sync::Arc;

use basalt_api::reason::Reason;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::candidates::Candidates;
use crate::conf::{Conf, SchedulingAction};
use crate::explain::{Alike, Shortage, Shortages};
use crate::facts::Phase;
use crate::ledger::Status;
use crate::model::{Id, JobId, NodeId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::plan::Purpose;
use crate::plugin::{Fit, Hooks, Means, Refusal, Want};
use crate::session::State;

use self::crowd::Turn;
use self::heap::Heap;
pub(crate) use self::preempt::DryRun;

/// One cycle at work.
pub(crate) struct Cycle<'a> {
    pub state: &'a mut State,
    pub hooks: &'a Hooks,
    pub candidates: &'a mut Candidates,
    pub conf: &'a Conf,
    pub now_ms: i64,
    /// What was decided for good, in order.
    pub decisions: Vec<Decision>,
    /// Placements that hold for the rest of the cycle only.
    pub held: Vec<TaskId>,
    /// Jobs for which room is being made since this cycle.
    pub beneficiaries: FxHashSet<JobId>,
    /// Which of the configured actions is at work.
    pub at: usize,
    /// Preempt chooses the cheapest of several nodes.
    pub dry_run: Option<DryRun>,
    /// What went wrong for jobs that could not be placed.
    pub attempts: FxHashMap<JobId, Attempt>,
    /// Why no node takes a pod, worked out once for all pods that want the same.
    pub shortages: &'a mut Shortages,
    /// The jobs that this cycle looks at.
    pub jobs: Vec<JobId>,
    /// Reasons that were worked out in this cycle.
    pub alike: FxHashMap<Alike, Arc<[Reason]>>,
    /// Jobs that are really tried, however little hope there is: for the numbers.
    pub recounted: FxHashSet<JobId>,
}

/// What was decided for a job: all of it or nothing.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub job: JobId,
    /// Pods that were placed: allocated, or pipelined to where others have to go first.
    pub placed: SmallVec<[TaskId; 4]>,
    /// Pods that have to go for it.
    pub evicted: Vec<(TaskId, Purpose)>,
}

/// How an attempt to place a job failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempt {
    /// How many pods counted for the gang at its best moment.
    pub placed: u32,
    /// Room for it is being released; it holds a claim on that for the cycle.
    pub pipelined: bool,
    /// What no node was left for, and why not.
    pub failed: SmallVec<[(Want, Arc<Shortage>); 2]>,
    /// What its queue, or the cluster, said no to.
    pub refusal: Option<Refusal>,
    /// That was when it asked to be let in.
    pub at_the_door: bool,
    /// It was not really tried: there could be no room for it.
    pub guessed: bool,
}

/// Jobs by queue, each queue's in a heap, and the queues that have any in a heap of their own. Of jobs that wait alike
/// only the first is in it, until it is served.
struct Line {
    queues: Heap<QueueId>,
    /// Those that are in that heap.
    queued: FxHashSet<QueueId>,
    jobs: FxHashMap<QueueId, Heap<JobId>>,
    /// Whose turn it is, if that stands for a crowd.
    turn: Option<Turn>,
    /// Those that stood for a crowd, in vain.
    passed: Vec<(QueueId, Turn)>,
}

impl Cycle<'_> {
    /// Runs the configured actions; calls `stage` after each, with its name.
    pub(crate) fn run(&mut self, stage: &mut dyn FnMut(&str)) {
        for (at, &action) in self.conf.actions.iter().enumerate() {
            self.at = at;
            match action {
                SchedulingAction::Reserve => self.reserve(),
                SchedulingAction::Enqueue => self.enqueue(),
                SchedulingAction::Allocate => self.allocate(),
                SchedulingAction::Backfill => self.backfill(),
                SchedulingAction::Preempt => self.preempt(),
                SchedulingAction::Reclaim => self.reclaim(),
                SchedulingAction::GangPreempt => self.gang_evict(Means::GangPreempt),
                SchedulingAction::GangReclaim => self.gang_evict(Means::GangReclaim),
                SchedulingAction::Shuffle => self.shuffle(),
            }
            // Who stood up for a crowd in this action may have been looked at before.
            self.jobs.sort_unstable();
            self.jobs.dedup();
            stage(action.name());
        }
    }

    /// The jobs that pass a test, in line by queue order and job order. Jobs without a group, without a queue, with
    /// needs that we do not know, or behind the head of a queue that waits are never in line.
    fn line(&self, wanted: impl Fn(JobId) -> bool) -> Line {
        let mut jobs: FxHashMap<QueueId, Heap<JobId>> = FxHashMap::default();
        for &job in &self.jobs {
            let record = &self.state.model.jobs[job];
            let late = record.retry_at_ms > self.now_ms;
            let served = !late
                && record.present
                && record.unsupported.is_empty()
                && self.state.model.queues[record.queue].present;
            if served && self.stands_first(job) && wanted(job) && !self.is_behind_the_head(job) {
                jobs.entry(record.queue).or_default().add(job);
            }
        }
        let mut queues = Heap::default();
        for (&queue, heap) in &mut jobs {
            heap.order(|&a, &b| self.hooks.job_order(self.state, a, b));
            queues.add(queue);
        }
        queues.order(|&a, &b| self.hooks.queue_order(self.state, a, b));
        Line {
            queues,
            queued: jobs.keys().copied().collect(),
            jobs,
            turn: None,
            passed: Vec::new(),
        }
    }

    fn next_queue(&self, line: &mut Line) -> Option<QueueId> {
        let order = |&a: &QueueId, &b: &QueueId| self.hooks.queue_order(self.state, a, b);
        let next = if self.hooks.queues_are_related() {
            line.queues.pop_least(order)
        } else {
            line.queues.pop(order)
        };
        if let Some(queue) = &next {
            line.queued.remove(queue);
        }
        next
    }

    fn next_job(&self, line: &mut Line, queue: QueueId) -> Option<JobId> {
        let jobs = line.jobs.get_mut(&queue)?;
        let job = jobs.pop(|&a, &b| self.hooks.job_order(self.state, a, b))?;
        line.turn = self.turn_of(job);
        Some(job)
    }

    fn requeue(&self, line: &mut Line, queue: QueueId) {
        line.queued.insert(queue);
        line.queues
            .push(queue, |&a, &b| self.hooks.queue_order(self.state, a, b));
    }

    fn requeue_job(&self, line: &mut Line, queue: QueueId, job: JobId) {
        line.jobs
            .entry(queue)
            .or_default()
            .push(job, |&a, &b| self.hooks.job_order(self.state, a, b));
    }

    /// Whether a pod waits, is free to be placed, and is (or is not) best-effort.
    fn is_free(&self, task: TaskId, best_effort: bool) -> bool {
        let record = &self.state.model.tasks[task];
        let class = &self.state.model.classes[record.class];
        self.state.ledger.status(task) == Status::Pending
            && (!record.gated || mutant!(IgnoreGates))
            && class.best_effort == best_effort
            && class.key.constraints.unsupported.is_empty()
    }

    /// The pods of a job that are free to be placed, in order.
    fn pending(&self, job: JobId, best_effort: bool) -> Vec<TaskId> {
        let tasks = self.state.model.jobs[job].tasks.iter().copied();
        let mut tasks: Vec<TaskId> = tasks.filter(|&task| self.is_free(task, best_effort)).collect();
        tasks.sort_by(|&a, &b| self.hooks.task_order(self.state, a, b));
        tasks
    }

    /// Puts a pod on the best node, if there is one. A node that is being cleared for it comes before all others.
    fn place(&mut self, task: TaskId) -> Option<Fit> {
        let (node, fit) = match self.nominated(task) {
            Some((node, Fit::Idle)) => (node, Fit::Idle),
            // Room elsewhere now is better than room there some day: whoever is to go may take its time.
            Some(cleared) => match self.candidates.best(self.state, self.hooks, task) {
                Some((node, Fit::Idle)) => (node, Fit::Idle),
                _ => cleared,
            },
            None => self.candidates.best(self.state, self.hooks, task)?,
        };
        let status = if fit == Fit::Idle {
            Status::Allocated
        } else {
            Status::Pipelined
        };
        self.state.set(task, status, node);
        Some(fit)
    }

    /// The node that is being cleared for a pod, if it still admits the pod and will have room.
    fn nominated(&self, task: TaskId) -> Option<(NodeId, Fit)> {
        let record = &self.state.model.tasks[task];
        let node = self.state.model.nodes.find(record.nominated.as_deref()?)?;
        let request = self.state.model.classes.request(record.class);
        let ledger = &self.state.ledger;
        if !self.state.model.nodes[node].present || !ledger.future().fits(node.index(), request) {
            return None;
        }
        let fit = self.hooks.admits(self.state, task, node).ok()?;
        let idle = ledger.idle().fits(node.index(), request);
        Some((node, if idle { fit } else { Fit::Future }))
    }

    /// Notes that no node takes this pod.
    fn note_failure(&mut self, attempt: &mut Attempt, task: TaskId) {
        let want = self.hooks.want(self.state, task);
        if !attempt.failed.iter().any(|(known, _)| *known == want) {
            let shortage = self.shortages.note(self.state, self.hooks, task, want);
            attempt.failed.push((want, shortage));
        }
    }

    /// Whether a job takes part in placing: admitted, and with enough pods.
    fn is_active(&self, job: JobId) -> bool {
        self.state.model.jobs[job].phase != Phase::Pending && self.hooks.job_invalid(self.state, job).is_none()
    }
}
