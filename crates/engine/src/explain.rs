//! Why something waits, with numbers. Worked out once per class of pods, never per pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::reason::{Code, Reason};

use crate::actions::Cycle;
use crate::facts::{Phase, quantity};
use crate::ledger::Status;
use crate::model::{ClassId, Id, JobId};
use crate::plan::Waiting;
use crate::plugin::{Blocker, Hooks, Refusal};
use crate::resources::DimId;
use crate::session::State;

/// A plan does not carry more failing classes per group than this.
const CLASSES_MAX: usize = 4;

/// Why no node takes a pod of a class.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shortage {
    /// Number of nodes by what speaks against them; each node counts once.
    nodes: BTreeMap<String, usize>,
    /// The resource that most nodes lack: its name, what a pod needs, the most that a node has.
    worst: Option<(Arc<str>, i64, i64)>,
}

impl Shortage {
    pub(crate) fn of(state: &State, hooks: &Hooks, class: ClassId) -> Shortage {
        let mut request: Vec<(DimId, i64)> = state.model.classes.request(class).iter().collect();
        request.sort_by(|a, b| state.model.dims.name(a.0).cmp(state.model.dims.name(b.0)));
        let mut lacking = vec![0_usize; request.len()];
        let mut most = vec![0_i64; request.len()];
        let mut blocked: BTreeMap<Blocker, usize> = BTreeMap::new();
        for &node in state.nodes_in_order() {
            if let Some(blocker) = hooks.blocker(state, class, node) {
                *blocked.entry(blocker).or_default() += 1;
                continue;
            }
            let free = |dim: DimId| {
                state
                    .ledger
                    .future()
                    .get(node.index(), dim)
                    .min(state.ledger.idle_of(node, dim))
            };
            let mut first = None;
            for (at, &(dim, need)) in request.iter().enumerate() {
                most[at] = most[at].max(free(dim));
                if first.is_none() && need > free(dim) {
                    first = Some(at);
                }
            }
            if let Some(at) = first {
                lacking[at] += 1;
            }
        }
        let mut shortage = Shortage::default();
        for (blocker, count) in blocked {
            let why = match blocker {
                Blocker::NotReady => "not ready",
                Blocker::Unschedulable => "unschedulable",
                Blocker::Affinity => "not selected by the pod",
                Blocker::Taint => "with a taint that the pod does not tolerate",
            };
            shortage.nodes.insert(why.to_owned(), count);
        }
        for (at, &(dim, need)) in request.iter().enumerate().filter(|&(at, _)| lacking[at] > 0) {
            let name = state.model.dims.name(dim);
            shortage.nodes.insert(format!("not enough {name}"), lacking[at]);
            if lacking.iter().all(|&count| count <= lacking[at]) && shortage.worst.is_none() {
                shortage.worst = Some((name.clone(), need, most[at].max(0)));
            }
        }
        shortage
    }

    fn reason(&self) -> Reason {
        let mut reason = match &self.worst {
            Some((name, need, have)) => {
                Reason::new(Code::NotEnoughResources).amounts(&**name, quantity(name, *need), quantity(name, *have))
            }
            None => Reason::new(Code::NoFittingNode),
        };
        for (why, &count) in &self.nodes {
            reason = reason.nodes(why.as_str(), count);
        }
        reason
    }
}

fn pods(code: Code, need: u32, have: u32) -> Reason {
    Reason::new(code).amounts(
        "pods",
        quantity("pods", i64::from(need)),
        quantity("pods", i64::from(have)),
    )
}

impl Cycle<'_> {
    /// Every group that waits at the end of the cycle, sorted by key.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let model = &self.state.model;
        let mut waiting = Vec::new();
        for job in model.jobs.ids() {
            let counts = self.state.ledger.counts(job);
            let pods = counts.of(Status::Pending) + counts.of(Status::Pipelined);
            let reasons = self.reasons(job, pods);
            if !reasons.is_empty() {
                let (pod_group, uid) = (model.jobs.name(job).clone(), model.jobs[job].uid.clone());
                waiting.push(Waiting {
                    pod_group,
                    uid,
                    pods,
                    reasons,
                });
            }
        }
        waiting.sort_by(|a, b| a.pod_group.cmp(&b.pod_group));
        waiting
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
        match refusal.dim {
            Some(dim) => {
                let name = model.dims.name(dim);
                reason.amounts(&**name, quantity(name, refusal.need), quantity(name, refusal.have))
            }
            None => reason,
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
            for shortage in attempt
                .failed
                .iter()
                .filter_map(|class| self.shortages.get(class))
                .take(CLASSES_MAX)
            {
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
        if best_effort && !self.conf.has_action("backfill") {
            let what = "pods without requests (the backfill action is not configured)";
            reasons.push(Reason::new(Code::NotSupported).dimension(what));
        }
    }
}
