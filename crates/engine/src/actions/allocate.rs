//! `allocate`: places pods on nodes, gang by gang.

use basalt_api::reason::Code;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{Attempt, Cycle, Decision};
use crate::conf::SchedulingAction;
use crate::facts::Phase;
use crate::ledger::Status;
use crate::model::{ClassId, JobId, NodeId, TaskId};
use crate::plugin::Want;
use crate::session::Checkpoint;

/// The pods of a job that are still to be tried in this cycle.
struct Worksheet {
    tasks: Vec<TaskId>,
    next: usize,
    /// Those for which room was kept: their queue had it already, whatever it has been lent since.
    kept: FxHashSet<TaskId>,
}

/// The pods that a turn has placed.
type Placed = SmallVec<[TaskId; 4]>;

/// Jobs with more shapes of pods than this are not looked at beforehand.
const CENSUS_MAX: usize = 16;

impl Cycle<'_> {
    /// The best queue's best job gets one turn, then the queues are looked at again, until nobody has anything left to
    /// try. A turn brings a job to its minimum or, once it is there, one pod further.
    pub(super) fn allocate(&mut self) {
        if !self.conf.has_action(SchedulingAction::Enqueue) {
            self.admit_all();
        }
        let mut line = self.line(|job| {
            let counts = self.state.ledger.counts(job);
            let waits = counts.of(Status::Pending) > counts.pending_best_effort || counts.of(Status::Pipelined) > 0;
            ((waits && self.is_active(job)) || self.holds_its_place(job)) && !self.beneficiaries.contains(&job)
        });
        let mut sheets: FxHashMap<JobId, Worksheet> = FxHashMap::default();
        while let Some(queue) = self.next_queue(&mut line) {
            let next = if self.hooks.overused(self.state, queue) {
                self.next_claimant(&mut line, queue)
            } else {
                self.next_job(&mut line, queue)
            };
            let Some(job) = next else {
                continue;
            };
            let checkpoint = self.state.checkpoint();
            let sheet = match sheets.remove(&job) {
                Some(sheet) => Some(sheet),
                None if !self.is_active(job) || self.is_hopeless(job) => None,
                None => Some(self.worksheet(job)),
            };
            let mut moved = false;
            if let Some(mut sheet) = sheet
                && self.turn(job, &mut sheet, checkpoint)
            {
                moved = !sheet.kept.is_empty();
                if sheet.next < sheet.tasks.len() {
                    sheets.insert(job, sheet);
                    self.requeue_job(&mut line, queue, job);
                }
            }
            self.follow(&mut line, queue);
            if moved {
                // Room that was kept for it may be free now.
                self.call_again(&mut line, queue);
            }
            self.let_head_block(&mut line, queue, job);
            if line.jobs.get(&queue).is_some_and(|jobs| !jobs.is_empty()) {
                self.requeue(&mut line, queue);
            }
        }
    }

    /// What a job has to try. Room that is kept for its pods is given up for the attempt: if that fails, rolling back
    /// restores it.
    fn worksheet(&mut self, job: JobId) -> Worksheet {
        let mut kept = FxHashSet::default();
        if self.state.ledger.counts(job).of(Status::Pipelined) > 0 {
            for task in self.state.model.jobs[job].tasks.clone() {
                if self.state.ledger.status(task) == Status::Pipelined {
                    self.state.set(task, Status::Pending, NodeId::NONE);
                    kept.insert(task);
                }
            }
        }
        Worksheet {
            kept,
            tasks: self.pending(job, false),
            next: 0,
        }
    }

    /// A cheap look before the attempt: in this cycle a class was found short, and the job needs more pods of that
    /// class than there is room for. How many find a place is only guessed then, if any do; a cycle soon after makes the
    /// attempt, for the numbers (`State::outdated`).
    fn is_hopeless(&mut self, job: JobId) -> bool {
        if self.shortages.is_empty()
            || self.recounted.contains(&job)
            || self.state.ledger.counts(job).of(Status::Pipelined) > 0
        {
            return false;
        }
        let Some(census) = self.census(job) else {
            return false;
        };
        let all: u64 = census.iter().map(|&(_, count)| count).sum();
        // Pods without requests may fill the gang too.
        let fillers = self.state.ledger.counts(job).pending_best_effort;
        let lacks = self.hooks.job_lacks(self.state, job);
        if (1..=fillers).contains(&lacks) {
            return false;
        }
        let lacks = lacks.saturating_sub(fillers).max(1);
        let queue = self.state.model.jobs[job].queue;
        let kinds = census.len();
        for (class, count) in census {
            let needed = u64::from(lacks).saturating_sub(all - count);
            let want = Want::plain(self.hooks.shape_in(self.state, class, queue));
            let known = self.shortages.get(want).cloned().filter(|_| needed > 0);
            let Some(known) = known else { continue };
            let slots = self.candidates.slots(self.state, self.hooks, want.shape);
            if slots < needed {
                let one = self.state.model.jobs[job].tasks.iter().copied();
                let mut one = one.filter(|&task| self.is_free(task, false));
                let Some(task) = one.next() else { return false };
                let exact = kinds == 1 && slots == 0 && fillers == 0;
                if exact && self.hooks.queue_refuses(self.state, queue, task).is_some() {
                    // That comes first.
                    return false;
                }
                let placed = self.state.ledger.counts(job).ready().saturating_add(slots as u32);
                let shortage = if exact {
                    self.shortages.note(self.state, self.hooks, task, want)
                } else {
                    known
                };
                let failed = std::iter::once((want, shortage)).collect();
                self.attempts.insert(
                    job,
                    Attempt {
                        placed,
                        failed,
                        guessed: !exact,
                        ..Attempt::default()
                    },
                );
                return true;
            }
        }
        false
    }

    /// How many pods of each class are free to be placed; none if that is not known at a glance.
    fn census(&self, job: JobId) -> Option<SmallVec<[(ClassId, u64); 4]>> {
        let pending = self.state.ledger.pending(job);
        if self.state.model.jobs[job].odd_tasks > 0 || pending.len() > CENSUS_MAX {
            return None;
        }
        let asks = |class: ClassId| !self.state.model.classes[class].best_effort;
        let census = pending.iter().filter(|&&(class, count)| count > 0 && asks(class));
        Some(census.map(|&(class, count)| (class, u64::from(count))).collect())
    }

    /// Without the enqueue action every group is let in.
    fn admit_all(&mut self) {
        for first in self.jobs.clone() {
            let record = &self.state.model.jobs[first];
            if record.present && record.phase == Phase::Pending && self.state.model.queues[record.queue].present {
                for job in self.all_alike(first) {
                    self.state.set_phase(job, Phase::Inqueue);
                    self.state.mark(job);
                    if job != first {
                        self.jobs.push(job);
                    }
                }
            }
        }
    }

    /// One turn of a job: all or nothing. True when it was decided for good, so that the job may have another turn.
    fn turn(&mut self, job: JobId, sheet: &mut Worksheet, checkpoint: Checkpoint) -> bool {
        let mut attempt = Attempt::default();
        let mut placed = Placed::new();
        let was_ready = self.hooks.job_ready(self.state, job);
        let ready = self.place_next(job, sheet, &mut placed, &mut attempt)
            || (!was_ready && self.place_fillers(job, &mut placed, &mut attempt));
        attempt.placed = self.state.ledger.counts(job).ready();
        attempt.pipelined = !placed.is_empty() && !ready && self.hooks.job_pipelined(self.state, job);
        let pipelined = attempt.pipelined;
        if !attempt.failed.is_empty() || attempt.refusal.is_some() || !ready {
            self.attempts.insert(job, attempt);
        }
        if ready && !placed.is_empty() {
            self.decisions.push(Decision {
                job,
                placed,
                evicted: Vec::new(),
            });
            return true;
        }
        if pipelined {
            // What it got stays taken until the end of the cycle, so that nobody overtakes it.
            self.held.extend(placed);
        } else {
            self.state.rollback(checkpoint);
        }
        false
    }

    /// Places the next pods of the sheet. True as soon as the job has what it needs.
    fn place_next(&mut self, job: JobId, sheet: &mut Worksheet, placed: &mut Placed, attempt: &mut Attempt) -> bool {
        let mut failed_roles: SmallVec<[u16; 4]> = SmallVec::new();
        let queue = self.state.model.jobs[job].queue;
        while let Some(&task) = sheet.tasks.get(sheet.next) {
            sheet.next += 1;
            let refusal = self.hooks.queue_refuses(self.state, queue, task);
            let had = |code: &Code| *code == Code::QueueOverDeserved && sheet.kept.contains(&task);
            if let Some(refusal) = refusal.filter(|refusal| !had(&refusal.code)) {
                attempt.refusal.get_or_insert(refusal);
                continue;
            }
            if self.place(task).is_some() {
                placed.push(task);
                if self.hooks.job_ready(self.state, job) {
                    return true;
                }
            } else {
                let role = self.state.model.tasks[task].role;
                self.note_failure(attempt, task);
                if !failed_roles.contains(&role) {
                    failed_roles.push(role);
                }
                if !self.worth_going_on(job, &failed_roles) {
                    break;
                }
            }
        }
        false
    }

    /// The gang is not whole with the pods that ask for something: those that ask for nothing join in the same turn,
    /// until it is. (What is more than the minimum is left to backfill.)
    fn place_fillers(&mut self, job: JobId, placed: &mut Placed, attempt: &mut Attempt) -> bool {
        if self.state.ledger.counts(job).pending_best_effort == 0 {
            return false;
        }
        let queue = self.state.model.jobs[job].queue;
        for task in self.pending(job, true) {
            if let Some(refusal) = self.hooks.queue_refuses(self.state, queue, task) {
                attempt.refusal.get_or_insert(refusal);
                continue;
            }
            if self.place(task).is_none() {
                self.note_failure(attempt, task);
                continue;
            }
            placed.push(task);
            if self.hooks.job_ready(self.state, job) {
                return true;
            }
        }
        false
    }

    /// After a pod found no node: can the rest of the job still reach its minimum?
    fn worth_going_on(&self, job: JobId, failed_roles: &[u16]) -> bool {
        let record = &self.state.model.jobs[job];
        let ledger = &self.state.ledger;
        let sum: u64 = record.roles.iter().map(|role| u64::from(role.min)).sum();
        if record.min_member as usize == record.tasks.len() {
            return false;
        }
        if u64::from(record.min_member) < sum {
            let open: u32 = (0..record.roles.len())
                .filter(|&role| !failed_roles.contains(&(role as u16)))
                .map(|role| ledger.role_counts(job, role).of(Status::Pending))
                .sum();
            return ledger.counts(job).ready() + open >= record.min_member;
        }
        failed_roles.iter().all(|&role| {
            let min = record.roles.get(usize::from(role)).map_or(0, |role| role.min);
            ledger.role_counts(job, usize::from(role)).ready() >= min
        })
    }
}
