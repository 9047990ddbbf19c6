//! The end of a cycle: decisions become transactions, phases and counters are worked out, and what waits is told why.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::crowd::News;
use super::{Cycle, Decision};
use crate::facts::{Phase, Tally};
use crate::ledger::Status;
use crate::model::{CrowdId, JobId, NodeId, TaskId};
use crate::mutants::mutant;
use crate::plan::{Bind, Eviction, Pipelined, Purpose, Transaction};
use crate::plugin::Want;
use crate::session::Promise;

/// The transactions so far, one per job, in the order in which the jobs came up.
#[derive(Default)]
struct Book {
    transactions: Vec<Transaction>,
    index: FxHashMap<JobId, usize>,
}

impl Book {
    fn of(&mut self, cycle: &Cycle<'_>, job: JobId) -> &mut Transaction {
        let at = *self.index.entry(job).or_insert_with(|| {
            self.transactions.push(cycle.transaction(job));
            self.transactions.len() - 1
        });
        &mut self.transactions[at]
    }
}

impl Cycle<'_> {
    /// Turns decisions into transactions, works out phases, and lets go of what was only held.
    pub(crate) fn close(&mut self, now_ms: i64) -> Vec<Transaction> {
        let mut book = Book::default();
        for decision in std::mem::take(&mut self.decisions) {
            self.write_decision(&mut book, decision, now_ms);
        }
        self.write_held(&mut book);
        if (self.conf.evicts() || self.hooks.lends())
            && book
                .transactions
                .iter()
                .any(|transaction| !transaction.binds.is_empty())
        {
            // Who has more now may have to give some of it back, and what was kept for it may be lent.
            self.state.ease();
        }
        for (job, phase, tally) in self.news() {
            let transaction = book.of(self, job);
            transaction.phase = phase;
            transaction.tally = tally;
        }
        book.transactions
    }

    fn write_decision(&mut self, book: &mut Book, decision: Decision, now_ms: i64) {
        let Decision { job, placed, evicted } = decision;
        let clears = !evicted.is_empty();
        for (task, purpose) in evicted {
            let eviction = self.eviction(task, purpose);
            book.of(self, job).evictions.push(eviction);
            self.state.model.tasks[task].evicting = true;
            // Where only its queue's limit was in the way, the next cycle can bind already.
            self.state.changed = true;
            let promise = self.promise(task, now_ms);
            self.state.evicting.push(promise);
            self.state.mark(self.state.model.tasks[task].job);
        }
        for task in placed {
            let promise = self.promise(task, now_ms);
            if self.state.ledger.status(task) == Status::Allocated {
                let bind = self.bind(task);
                if mutant!(BindTwice) {
                    book.of(self, job).binds.push(bind.clone());
                }
                book.of(self, job).binds.push(bind);
                self.state.assumed.push(promise);
                self.state.mark(job);
                continue;
            }
            if clears {
                if self.state.model.tasks[task].nominated.is_some() {
                    // One hold is enough: the new one takes the place of the old.
                    self.state.holds.retain(|hold| hold.task != task);
                }
                self.state.holds.push(promise);
            }
            self.held.push(task);
        }
    }

    /// Claims on room that others still have: those for which somebody was evicted last, the others end with the cycle.
    fn write_held(&mut self, book: &mut Book) {
        let keeps: FxHashSet<TaskId> = self.state.holds.iter().map(|hold| hold.task).collect();
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            // Who was kept out by a claim that ends has to be looked at again.
            self.state.eased += 1;
        }
        for task in held {
            let job = self.state.model.tasks[task].job;
            let nominated = keeps.contains(&task);
            let Bind { pod, uid, node } = self.bind(task);
            if nominated {
                // Some of the room may be free already: it is kept, and taken up only together with the rest.
                self.state.set(task, Status::Pipelined, self.state.ledger.node(task));
                self.state.model.tasks[task].nominated = Some(node.clone());
            } else {
                self.state.set(task, Status::Pending, NodeId::NONE);
            }
            book.of(self, job).pipelined.push(Pipelined {
                pod,
                uid,
                node,
                nominated,
            });
        }
    }

    /// For each job that was looked at: whether it waits, and if so, that nothing more can be done for it until
    /// something changes.
    pub(crate) fn settle(&mut self, tells: usize) -> News {
        let gone = std::mem::take(&mut self.state.gone_jobs);
        let mut news: News = gone.into_iter().map(|key| (key, None)).collect();
        let jobs = std::mem::take(&mut self.jobs);
        let (mut stood, single): (Vec<JobId>, Vec<JobId>) = jobs
            .into_iter()
            .partition(|&job| self.state.model.jobs[job].crowd.is_some());
        // Of each crowd the last one that stood up and was tried.
        let was_tried = |job: JobId| self.attempts.contains_key(&job);
        stood.sort_by(|&a, &b| {
            let tried = was_tried(a).cmp(&was_tried(b));
            tried.then_with(|| self.hooks.job_order(self.state, a, b))
        });
        let last = stood.into_iter().map(|job| (self.state.model.jobs[job].crowd, job));
        for job in last.collect::<BTreeMap<CrowdId, JobId>>().into_values() {
            self.settle_crowd(job);
        }
        self.tell_crowds(tells, &mut news);
        for job in single {
            let waiting = self.waiting(job);
            let counts = self.state.ledger.counts(job);
            let open = counts.of(Status::Pending) + counts.of(Status::Pipelined) > 0;
            let again = self.is_worth_another_look(job);
            let counted_at = self.counted_at(job);
            let record = &mut self.state.model.jobs[job];
            record.counted_at = counted_at;
            record.unsettled = open || waiting.is_some() || record.phase == Phase::Pending;
            record.failed_at = if again { 0 } else { self.state.eased_before + 1 };
            if record.unsettled
                && !again
                && let Some(likeness) = self.likeness(job)
            {
                let told = waiting
                    .as_ref()
                    .map_or_else(Arc::default, |waiting| waiting.reasons.clone());
                self.state.join_crowd(job, likeness, &told);
            }
            news.insert(self.state.model.jobs.name(job).clone(), waiting);
        }
        news
    }

    /// Whether the next cycle has to look at a job again even if nothing changes: it has a claim to renew, stands at the
    /// head of a queue that it blocks, has just fallen back and was not asked about yet (or was refused, and has begun all
    /// the same), or is tied to pods that may come.
    pub(super) fn is_worth_another_look(&self, job: JobId) -> bool {
        let (queue, attempt) = (self.state.model.jobs[job].queue, self.attempts.get(&job));
        let asked = attempt.is_some_and(|attempt| attempt.at_the_door);
        let is_tied = |want: &Want| !want.is_plain();
        attempt.is_some_and(|attempt| attempt.pipelined || attempt.failed.iter().any(|(want, _)| is_tied(want)))
            || self.can_be_asked(job) != asked
            || self.state.ledger.counts(job).of(Status::Pipelined) > 0
            || (queue.is_some() && self.state.model.queues[queue].fifo)
    }

    /// A group that waits to be let in, and that nothing keeps from being asked about.
    fn can_be_asked(&self, job: JobId) -> bool {
        let record = &self.state.model.jobs[job];
        record.phase == Phase::Pending
            && record.present
            && record.unsupported.is_empty()
            && self.state.model.queues[record.queue].present
    }

    fn transaction(&self, job: JobId) -> Transaction {
        let record = &self.state.model.jobs[job];
        Transaction {
            pod_group: self.state.model.jobs.name(job).clone(),
            uid: record.uid.clone(),
            spec_hash: record.spec_hash,
            min_member: record.min_member,
            binds: Vec::new(),
            evictions: Vec::new(),
            pipelined: Vec::new(),
            phase: None,
            tally: None,
        }
    }

    fn promise(&self, task: TaskId, since_ms: i64) -> Promise {
        let uid = self.state.model.tasks[task].uid.clone();
        Promise { since_ms, task, uid }
    }

    fn eviction(&self, task: TaskId, purpose: Purpose) -> Eviction {
        let Bind { pod, uid, node } = self.bind(task);
        Eviction {
            pod,
            uid,
            node,
            purpose,
        }
    }

    fn bind(&self, task: TaskId) -> Bind {
        let model = &self.state.model;
        Bind {
            pod: model.tasks.name(task).clone(),
            uid: model.tasks[task].uid.clone(),
            node: model.nodes.name(self.state.ledger.node(task)).clone(),
        }
    }

    /// The phases and counters that changed, by key.
    fn news(&mut self) -> Vec<(JobId, Option<Phase>, Option<Tally>)> {
        let mut jobs = std::mem::take(&mut self.state.dirty_jobs);
        jobs.sort_unstable();
        jobs.dedup();
        jobs.retain(|&job| self.state.model.jobs[job].present);
        jobs.sort_by(|&a, &b| self.state.model.jobs.name(a).cmp(self.state.model.jobs.name(b)));
        let mut news = Vec::new();
        for job in jobs {
            let (phase, counts) = (self.phase(job), *self.state.ledger.counts(job));
            let tally = Tally {
                running: counts.of(Status::Running),
                succeeded: counts.of(Status::Succeeded),
                failed: counts.of(Status::Failed),
            };
            let before = self.state.model.jobs[job].phase;
            self.state.set_phase(job, phase);
            let record = &mut self.state.model.jobs[job];
            let new_phase = (std::mem::replace(&mut record.announced, phase) != phase).then_some(phase);
            let new_tally = (std::mem::replace(&mut record.announced_tally, tally) != tally).then_some(tally);
            // But for the ordinary way of a group, a next cycle has something to do: who fell back has to be let in again,
            // who has begun by itself can have the rest, and what an ended or broken one claimed others may have.
            if phase != before && (before, phase) != (Phase::Inqueue, Phase::Running) {
                self.state.ease();
            }
            self.state.changed |= new_phase == Some(Phase::Pending);
            if new_phase.is_some() || new_tally.is_some() {
                news.push((job, new_phase, new_tally));
            }
        }
        news
    }

    /// Volcano's rule: pods run but the gang is broken → Unknown; enough pods are placed → Running, or Completed when
    /// all have ended; else Inqueue if it was let in, Pending if not.
    fn phase(&self, job: JobId) -> Phase {
        let record = &self.state.model.jobs[job];
        let counts = self.state.ledger.counts(job);
        let ended = counts.ended() == counts.total();
        if record.phase == Phase::Completed && ended {
            // Cleaning up its pods does not bring a group back.
            return Phase::Completed;
        }
        if counts.of(Status::Running) > 0 && !self.hooks.job_ready(self.state, job) {
            return Phase::Unknown;
        }
        if counts.scheduled() >= record.min_member.max(1) {
            return if ended { Phase::Completed } else { Phase::Running };
        }
        // For whom room is being cleared has been let in, whatever happened to it before.
        if record.phase == Phase::Inqueue || counts.of(Status::Pipelined) > 0 {
            Phase::Inqueue
        } else {
            Phase::Pending
        }
    }
}
