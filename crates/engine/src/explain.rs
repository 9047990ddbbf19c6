//! Why something waits, with numbers. Worked out once for all pods that want the same, never per pod.

mod shortage;

use std::sync::Arc;

use basalt_api::reason::{Code, Reason};

use crate::actions::Cycle;
use crate::conf::SchedulingAction;
use crate::facts::{Phase, quantity};
use crate::ledger::Status;
use crate::model::{JobId, QueueId};
use crate::plan::Waiting;
use crate::plugin::{Refusal, Want};

pub(crate) use self::shortage::{Shortage, Shortages};

/// A plan does not carry more failing classes per group than this.
const CLASSES_MAX: usize = 4;

/// What makes two groups wait for the same reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Alike {
    queue: QueueId,
    min_member: u32,
    placed: u32,
    pipelined: bool,
    want: Want,
    /// The same counts are the same object.
    shortage: *const Shortage,
}

fn pods(code: Code, need: u32, have: u32) -> Reason {
    Reason::new(code).amounts(
        "pods",
        quantity("pods", i64::from(need)),
        quantity("pods", i64::from(have)),
    )
}

impl Cycle<'_> {
    /// Whether a group waits at the end of the cycle, and why.
    pub(crate) fn waiting(&mut self, job: JobId) -> Option<Arc<Waiting>> {
        let reasons = self.shared_reasons(job, self.open_pods(job));
        self.waiting_for(job, &reasons)
    }

    /// A group that waits for these reasons; none: it does not wait.
    pub(crate) fn waiting_for(&self, job: JobId, reasons: &Arc<[Reason]>) -> Option<Arc<Waiting>> {
        let model = &self.state.model;
        (!reasons.is_empty()).then(|| {
            Arc::new(Waiting {
                pod_group: model.jobs.name(job).clone(),
                uid: model.jobs[job].uid.clone(),
                pods: self.open_pods(job),
                reasons: reasons.clone(),
            })
        })
    }

    /// How many pods of a group have no place yet.
    fn open_pods(&self, job: JobId) -> u32 {
        let counts = self.state.ledger.counts(job);
        counts.of(Status::Pending) + counts.of(Status::Pipelined)
    }

    /// Groups that wait for the same thing in the same way share their reasons: of a long backlog few are worked out.
    fn shared_reasons(&mut self, job: JobId, pending: u32) -> Arc<[Reason]> {
        let record = &self.state.model.jobs[job];
        let alike = self.attempts.get(&job).and_then(|attempt| {
            let plain = record.odd_tasks == 0
                && record.unsupported.is_empty()
                && record.retry_at_ms <= self.now_ms
                && record.phase != Phase::Completed
                && pending > 0
                && attempt.refusal.is_none()
                && attempt.failed.len() == 1
                && self.state.ledger.counts(job).pending_best_effort == 0;
            plain.then(|| Alike {
                queue: record.queue,
                min_member: record.min_member,
                placed: attempt.placed,
                pipelined: attempt.pipelined,
                want: attempt.failed[0].0,
                shortage: Arc::as_ptr(&attempt.failed[0].1),
            })
        });
        if let Some(alike) = &alike
            && let Some(known) = self.alike.get(alike)
            && self.hooks.job_invalid(self.state, job).is_none()
        {
            return known.clone();
        }
        let reasons: Arc<[Reason]> = self.reasons(job, pending).into();
        if let Some(alike) = alike
            && self.hooks.job_invalid(self.state, job).is_none()
        {
            self.alike.insert(alike, reasons.clone());
        }
        reasons
    }

    fn reasons(&self, job: JobId, pending: u32) -> Vec<Reason> {
        let record = &self.state.model.jobs[job];
        if !record.present {
            let reason = || Reason::new(Code::PodGroupNotFound);
            return if pending > 0 { vec![reason()] } else { Vec::new() };
        }
        let incomplete = self.hooks.job_invalid(self.state, job);
        if record.phase == Phase::Completed || (pending == 0 && incomplete.is_none() && record.phase != Phase::Pending)
        {
            return Vec::new();
        }
        let mut reasons = Vec::new();
        if !self.state.model.queues[record.queue].present {
            reasons.push(Reason::new(Code::QueueNotFound).queue(&**self.state.model.queues.name(record.queue)));
        }
        if record.retry_at_ms > self.now_ms {
            reasons.push(Reason::new(Code::BindFailed));
        }
        reasons.extend(
            record
                .unsupported
                .iter()
                .map(|what| Reason::new(Code::NotSupported).dimension(&**what)),
        );
        let attempt = self.attempts.get(&job).filter(|_| record.phase == Phase::Pending);
        if let Some(refusal) = attempt.and_then(|attempt| attempt.refusal.as_ref()) {
            // Pods are made, and placed, once it is let in.
            reasons.push(self.refused(refusal));
            return reasons;
        }
        if let Some(few) = incomplete {
            let mut reason = pods(Code::GangNotReady, few.need, few.have);
            if let Some(role) = few.role {
                reason.dimension = format!("pods of task {role:?}");
            }
            reasons.push(reason);
        }
        if reasons.is_empty() && (pending > 0 || self.attempts.contains_key(&job)) {
            self.placement_reasons(job, &mut reasons);
        }
        reasons
    }

    /// What a queue, or the cluster, said no to, with the two numbers that disagree.
    fn refused(&self, refusal: &Refusal) -> Reason {
        let model = &self.state.model;
        let mut reason = Reason::new(refusal.code.clone());
        if refusal.queue.is_some() {
            reason = reason.queue(&**model.queues.name(refusal.queue));
        }
        let about = refusal.about.as_deref();
        match refusal.dim {
            Some(dim) => {
                let name = model.dims.name(dim);
                let (need, have) = (quantity(name, refusal.need), quantity(name, refusal.have));
                reason.amounts(about.unwrap_or(name), need, have)
            }
            None => reason.dimension(about.unwrap_or_default()),
        }
    }

    /// Why pods of a group that is in order found no node.
    fn placement_reasons(&self, job: JobId, reasons: &mut Vec<Reason>) {
        let record = &self.state.model.jobs[job];
        if let Some(attempt) = self.attempts.get(&job) {
            reasons.extend(attempt.refusal.as_ref().map(|refusal| self.refused(refusal)));
            if attempt.pipelined {
                reasons.push(pods(Code::WaitingForEviction, record.min_member, attempt.placed));
            } else if record.min_member > 1 && attempt.placed < record.min_member {
                reasons.push(pods(Code::NotEnoughResources, record.min_member, attempt.placed));
            }
            for (_, shortage) in attempt.failed.iter().take(CLASSES_MAX) {
                let reason = shortage.reason();
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
        let mut gated = 0;
        let odd = if record.odd_tasks > 0 {
            record.tasks.as_slice()
        } else {
            &[]
        };
        for &task in odd
            .iter()
            .filter(|&&task| self.state.ledger.status(task) == Status::Pending)
        {
            let task = &self.state.model.tasks[task];
            gated += i64::from(task.gated);
            for what in &self.state.model.classes[task.class].key.constraints.unsupported {
                let reason = Reason::new(Code::NotSupported).dimension(&**what);
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
        }
        let best_effort = self.state.ledger.counts(job).pending_best_effort > 0;
        if gated > 0 {
            reasons.push(Reason {
                need: Some(quantity("pods", gated)),
                ..Reason::new(Code::Gated).dimension("pods")
            });
        }
        if best_effort && !self.conf.has_action(SchedulingAction::Backfill) {
            let what = "pods without requests (the backfill action is not configured)";
            reasons.push(Reason::new(Code::NotSupported).dimension(what));
        }
    }
}
