//! Jobs that wait alike take part in a cycle through the first of them: what fails for it would fail for all.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::reason::Reason;
use smallvec::SmallVec;

use super::{Attempt, Cycle, Line};
use crate::facts::Phase;
use crate::ledger::Status;
use crate::model::{CrowdId, JobId, NOTHING, QueueId, TaskId};
use crate::plan::Waiting;
use crate::session::{Kin, Likeness};

/// A job's turn for all that are like it.
pub(super) struct Turn {
    job: JobId,
    crowd: CrowdId,
    /// How it went for it in actions before this one.
    before: Option<Attempt>,
}

/// What has become known of groups that wait, by key.
pub(super) type News = BTreeMap<Arc<str>, Option<Arc<Waiting>>>;

impl Line {
    /// No job of this queue is looked at again.
    pub(super) fn close(&mut self, queue: QueueId) {
        self.jobs.remove(&queue);
        self.passed.retain(|&(passed, _)| passed != queue);
    }
}

impl Cycle<'_> {
    pub(super) fn turn_of(&self, job: JobId) -> Option<Turn> {
        let crowd = self.state.model.jobs[job].crowd;
        crowd.is_some().then(|| Turn {
            job,
            crowd,
            before: self.attempts.get(&job).cloned(),
        })
    }

    /// After a job's turn: if it stood for a crowd and got something, the next one of the crowd stands up.
    pub(super) fn follow(&mut self, line: &mut Line, queue: QueueId) {
        let Some(turn) = line.turn.take() else { return };
        if self.waits_alike(&turn) {
            line.passed.push((queue, turn));
        } else {
            self.state.single_out(turn.job);
            self.call_next(line, queue, turn);
        }
    }

    /// Something happened by which room may have come free: of crowds that were passed over the next one is asked.
    /// (`current` is the queue whose turn it is, which is not in line.)
    pub(super) fn call_again(&mut self, line: &mut Line, current: QueueId) {
        for (queue, turn) in std::mem::take(&mut line.passed) {
            let called = self.call_next(line, queue, turn);
            if called && queue != current && !line.queued.contains(&queue) {
                self.requeue(line, queue);
            }
        }
    }

    fn call_next(&mut self, line: &mut Line, queue: QueueId, turn: Turn) -> bool {
        let Some(next) = self.state.next_alike(turn.crowd, turn.job) else {
            return false;
        };
        self.jobs.push(next);
        if let Some(before) = turn.before {
            self.attempts.insert(next, before);
        }
        self.requeue_job(line, queue, next);
        true
    }

    /// Whether a job is as it was before its turn.
    fn waits_alike(&self, turn: &Turn) -> bool {
        let counts = self.state.ledger.counts(turn.job);
        self.state.model.jobs[turn.job].crowd == turn.crowd
            && counts.of(Status::Pending) == counts.total()
            && !self.beneficiaries.contains(&turn.job)
    }

    /// Whether a job takes part for itself, or as the first of its crowd.
    pub(super) fn stands_first(&self, job: JobId) -> bool {
        let crowd = self.state.crowds.get(self.state.model.jobs[job].crowd);
        crowd.is_none_or(|crowd| crowd.members().next() == Some(job))
    }

    /// A job and all that are like it.
    pub(super) fn all_alike(&self, job: JobId) -> Vec<JobId> {
        let crowd = self.state.crowds.get(self.state.model.jobs[job].crowd);
        crowd.map_or_else(|| vec![job], |crowd| crowd.members().collect())
    }

    /// What it takes to be like a job; none: it waits in a way of its own.
    pub(super) fn likeness(&self, job: JobId) -> Option<Likeness> {
        let model = &self.state.model;
        let (record, counts) = (&model.jobs[job], self.state.ledger.counts(job));
        let plain = record.present
            && record.unsupported.is_empty()
            && record.odd_tasks == 0
            && record.retry_at_ms <= self.now_ms
            && matches!(record.phase, Phase::Pending | Phase::Inqueue)
            && counts.of(Status::Pending) as usize == record.tasks.len()
            && counts.total() == counts.of(Status::Pending)
            && !model.queues[record.queue].fifo
            && record.tasks.iter().all(|&task| self.is_plain(task));
        plain.then(|| Likeness {
            queue: record.queue,
            namespace: record.namespace,
            let_in: record.phase == Phase::Inqueue,
            priority: record.priority,
            min_member: record.min_member,
            roles: record.roles.clone(),
            min_resources: record.min_resources.clone(),
            quota_asks: record.quota_asks.clone(),
            sla_ms: record.sla_ms,
            pods: self.kindred(&record.tasks),
        })
    }

    /// Whether a pod has no node in mind, and all nodes together look at nothing of it but its shape.
    fn is_plain(&self, task: TaskId) -> bool {
        let record = &self.state.model.tasks[task];
        record.ties == NOTHING && record.nominated.is_none() && self.hooks.want(self.state, task).is_plain()
    }

    fn kindred(&self, tasks: &[TaskId]) -> SmallVec<[(Kin, u32); 1]> {
        let kin = |task: TaskId| {
            let record = &self.state.model.tasks[task];
            Kin {
                class: record.class,
                role: record.role,
                priority: record.priority,
                preempts: record.preempts,
            }
        };
        let one = tasks.first().map(|&first| kin(first));
        if let Some(one) = one.filter(|one| tasks.iter().all(|&task| kin(task) == *one)) {
            return std::iter::once((one, tasks.len() as u32)).collect();
        }
        let mut ordered = tasks.to_vec();
        ordered.sort_by(|&a, &b| self.hooks.task_order(self.state, a, b));
        let mut runs: SmallVec<[(Kin, u32); 1]> = SmallVec::new();
        for kin in ordered.into_iter().map(kin) {
            match runs.last_mut() {
                Some((last, count)) if *last == kin => *count += 1,
                _ => runs.push((kin, 1)),
            }
        }
        runs
    }

    /// Tells so many of those that wait alike why they wait, if they do not know; the others' turn comes in later cycles.
    pub(super) fn tell_crowds(&mut self, tells: usize, news: &mut News) {
        for (listener, crowd, reasons) in self.state.crowds.listeners(tells) {
            if self.state.model.jobs[listener].crowd == crowd {
                let waiting = self.waiting_for(listener, &reasons);
                news.insert(self.state.model.jobs.name(listener).clone(), waiting);
            }
        }
    }

    /// The state's `moves`, if the reasons why a job waits are those of a real attempt.
    pub(super) fn counted_at(&self, job: JobId) -> u64 {
        let guessed = self.attempts.get(&job).is_some_and(|attempt| attempt.guessed);
        if guessed { 0 } else { self.state.moves }
    }

    /// What was found out about the one that stood for a crowd last holds for all of it. A guess is not worth telling to
    /// those that were told something already.
    pub(super) fn settle_crowd(&mut self, job: JobId) {
        let id = self.state.model.jobs[job].crowd;
        let reasons: Arc<[Reason]> = self
            .waiting(job)
            .map_or_else(Arc::default, |waiting| waiting.reasons.clone());
        let failed_at = if self.is_worth_another_look(job) {
            0
        } else {
            self.state.eased_before + 1
        };
        let counted_at = self.counted_at(job);
        let Some(crowd) = self.state.crowds.get_mut(id) else {
            return;
        };
        crowd.failed_at = failed_at;
        crowd.counted_at = counted_at;
        let guessed = counted_at == 0;
        if !guessed || crowd.told().is_empty() {
            self.state.crowds.tell(id, &reasons);
        }
    }
}
