//! Who has to go for whom, on one node: asked for by rules, taken one by one until the claimant really fits, and let
//! off again where that turns out to have been unnecessary.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Cycle;
use super::hunt::{Hunt, Stage, distance, short_dims};
use crate::ledger::Status;
use crate::model::{Id, JobId, NodeId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::plugin::{Claim, Means};
use crate::resources::DimId;

/// Pods that have to go.
pub(super) type Evicted = SmallVec<[TaskId; 4]>;

impl Cycle<'_> {
    /// Whether the claimant could be placed on the node, once what is on its way out is gone: the queue, the node's
    /// room and its rules all agree.
    pub(super) fn is_welcome(&self, claim: &Claim, node: NodeId) -> bool {
        let class = self.state.model.tasks[claim.task].class;
        let request = self.state.model.classes.request(class);
        self.state.ledger.future().fits(node.index(), request)
            && self.hooks.obstacle(self.state, claim.task, node).is_none()
            && self.hooks.queue_refuses(self.state, claim.queue, claim.task).is_none()
    }

    /// Whether a pod may be asked to go at all, before the rules have their say.
    fn is_prey(&self, hunt: &Hunt, claim: &Claim, stage: Stage, task: TaskId) -> bool {
        let model = &self.state.model;
        let record = &model.tasks[task];
        let reclaims = claim.means == Means::Reclaim;
        let runs = match self.state.ledger.status(task) {
            Status::Running => true,
            Status::Bound => !reclaims,
            _ => false,
        };
        if !runs || !(record.preemptable || mutant!(TakeProtected)) || record.spared || !record.job.is_some() {
            return false;
        }
        // Looking for the cheapest node is Kubernetes' way, in which pods have priorities of their own.
        let own = model.tasks[claim.task].priority.max(model.jobs[claim.job].priority);
        if self.dry_run.is_some() && !stage.own_job && record.priority >= own {
            return false;
        }
        // A pod that asks for nothing is not worth one that does.
        let modest = |task: TaskId| model.classes[model.tasks[task].class].best_effort;
        if modest(claim.task) && !modest(task) {
            return false;
        }
        if stage.own_job || record.job == claim.job {
            // Inside a job only a more important pod is worth the change, whatever plugins there are.
            let lower = record.priority < model.tasks[claim.task].priority;
            return stage.own_job && record.job == claim.job && lower;
        }
        let job = &model.jobs[record.job];
        if !job.present || !job.queue.is_some() || !model.queues[job.queue].present {
            return false;
        }
        let queue = &model.queues[job.queue];
        let important = job.priority < model.jobs[claim.job].priority;
        if job.queue == claim.queue {
            // Where no plugin says who is worth more, importance does: equals would take turns for ever.
            return !reclaims && (important || self.hooks.ranks_victims());
        }
        let near = !hunt.tree || distance(self.state, claim.queue, job.queue) <= stage.reach;
        let lower = reclaims || important;
        stage.reach > 0 && (queue.reclaimable || mutant!(TakeUnreclaimable)) && near && lower
    }

    /// Puts pods into the order in which they go: by queue, then the least important job and pod first. Jobs are compared
    /// once each, not once for every two pods.
    fn order_victims(&self, claim: &Claim, tasks: &mut [TaskId]) {
        let model = &self.state.model;
        let job_of = |task: TaskId| model.tasks[task].job;
        let mut jobs: SmallVec<[JobId; 8]> = SmallVec::new();
        for &task in &*tasks {
            if !jobs.contains(&job_of(task)) {
                jobs.push(job_of(task));
            }
        }
        jobs.sort_by(|&a, &b| self.job_goes_first(claim, a, b));
        let mut places: FxHashMap<JobId, usize> = FxHashMap::default();
        let mut place = 0;
        for (at, &job) in jobs.iter().enumerate() {
            if at > 0 && self.job_goes_first(claim, jobs[at - 1], job).is_ne() {
                place = at;
            }
            places.insert(job, place);
        }
        let mut keyed: SmallVec<[(usize, TaskId); 16]> =
            tasks.iter().map(|&task| (places[&job_of(task)], task)).collect();
        keyed.sort_unstable_by(|&(x, a), &(y, b)| x.cmp(&y).then_with(|| self.hooks.task_order(self.state, b, a)));
        for (task, (_, ordered)) in tasks.iter_mut().zip(keyed) {
            *task = ordered;
        }
    }

    /// Less: pods of `a` go before pods of `b`; equal: their pods are compared.
    fn job_goes_first(&self, claim: &Claim, a: JobId, b: JobId) -> Ordering {
        let model = &self.state.model;
        let (queue_a, queue_b) = (model.jobs[a].queue, model.jobs[b].queue);
        if queue_a == queue_b {
            return self.hooks.job_rank(self.state, b, a);
        }
        match (queue_a == claim.queue, queue_b == claim.queue) {
            (true, _) => Ordering::Less,
            (_, true) => Ordering::Greater,
            _ => self.hooks.victim_queue_order(self.state, queue_a, queue_b, claim.queue),
        }
    }

    /// Clears a node for the claimant: the pods that go, or none if it cannot be done (then nothing has changed).
    pub(super) fn clear(&mut self, hunt: &mut Hunt, claim: &Claim, stage: Stage, node: NodeId) -> Option<Evicted> {
        let on_node = self.state.ledger.tasks_on(node).iter().copied();
        let mut candidates: Vec<TaskId> = on_node.filter(|&task| self.is_prey(hunt, claim, stage, task)).collect();
        if candidates.is_empty() {
            return None;
        }
        if !self.could_do(claim.task, node, &candidates) {
            return None;
        }
        self.order_victims(claim, &mut candidates);
        let dims = self.dims_at_stake(claim, node);
        self.keep_fair(hunt, claim, stage, &dims, &mut candidates);
        // Mostly the first few are enough: the rules need not judge the others.
        let enough = (1..=candidates.len()).find(|&count| self.could_do(claim.task, node, &candidates[..count]))?;
        let few = self.take(hunt, claim, node, &candidates[..enough]);
        let mut taken = match few {
            None if enough < candidates.len() => self.take(hunt, claim, node, &candidates),
            few => few,
        }?;
        if mutant!(HuntEverywhere) {
            let all = self.state.model.tasks.ids();
            let elsewhere = all.filter(|&task| self.state.ledger.node(task) != node);
            let prey: Vec<TaskId> = elsewhere
                .filter(|&task| self.is_prey(hunt, claim, stage, task))
                .collect();
            if let Some(&one) = self.consenting(claim, &prey).first() {
                self.state.evict(one);
                taken.push(one);
            }
        }
        Some(taken)
    }

    /// Takes pods one by one, as far as the rules let them go, until the claimant fits.
    fn take(&mut self, hunt: &mut Hunt, claim: &Claim, node: NodeId, candidates: &[TaskId]) -> Option<Evicted> {
        let victims = self.consenting(claim, candidates);
        if !self.could_do(claim.task, node, &victims) {
            return None;
        }
        let (checkpoint, before) = (self.state.checkpoint(), self.state.ledger.journal.last_touch(node));
        let mut evicted = Evicted::new();
        for victim in victims {
            self.state.evict(victim);
            evicted.push(victim);
            if self.is_welcome(claim, node) {
                self.reprieve(claim, node, &mut evicted);
                return Some(evicted);
            }
        }
        self.state.rollback(checkpoint);
        hunt.was_tried(self.state, node, before);
        None
    }

    /// The pods that all rules let go. From outside its own queue a claimant takes only what could be reclaimed.
    fn consenting(&self, claim: &Claim, candidates: &[TaskId]) -> Vec<TaskId> {
        let mut victims = self.hooks.victims(self.state, claim, candidates);
        let model = &self.state.model;
        let is_own = |task: TaskId| model.jobs[model.tasks[task].job].queue == claim.queue;
        if claim.means == Means::Preempt && victims.iter().any(|&task| !is_own(task)) {
            let foreign: Vec<TaskId> = victims.iter().copied().filter(|&task| !is_own(task)).collect();
            let reclaim = Claim {
                means: Means::Reclaim,
                ..*claim
            };
            let allowed = self.hooks.victims(self.state, &reclaim, &foreign);
            victims.retain(|&task| is_own(task) || allowed.contains(&task));
        }
        victims
    }

    /// The dimensions that this is about: those that the node lacks, or else all that the claimant asks for.
    fn dims_at_stake(&self, claim: &Claim, node: NodeId) -> SmallVec<[DimId; 4]> {
        let short = short_dims(self.state, claim.task, node);
        if !short.is_empty() {
            return short;
        }
        let class = self.state.model.tasks[claim.task].class;
        self.state
            .model
            .classes
            .request(class)
            .iter()
            .map(|(dim, _)| dim)
            .collect()
    }

    /// Of pods of other queues keeps those that the stage allows: where only what is to spare is taken, a pod whose
    /// queue has at least what it deserves without it; else, for preempt, a pod whose queue has more than it deserves.
    fn keep_fair(&self, hunt: &mut Hunt, claim: &Claim, stage: Stage, dims: &[DimId], candidates: &mut Vec<TaskId>) {
        if !stage.spare && claim.means != Means::Preempt {
            return;
        }
        let (state, hooks) = (&*self.state, self.hooks);
        let mut taken: SmallVec<[(QueueId, DimId, i64); 4]> = SmallVec::new();
        candidates.retain(|&task| {
            let record = &state.model.tasks[task];
            let queue = state.model.jobs[record.job].queue;
            if queue == claim.queue {
                return true;
            }
            let request = state.model.classes.request(record.class);
            let deserved = hunt.deserved(state, hooks, queue);
            let stakes = dims
                .iter()
                .filter_map(|&dim| Some((dim, request.get(dim)?, deserved.get(dim)?)));
            let left = |dim: DimId| {
                let gone = taken.iter().find(|&&(of, at, _)| (of, at) == (queue, dim));
                state.ledger.queue_allocated().get(queue.index(), dim) - gone.map_or(0, |&(_, _, gone)| gone)
            };
            let stakes: SmallVec<[(DimId, i64, i64); 4]> = stakes.collect();
            let fair = if stage.spare {
                stakes.iter().all(|&(dim, amount, due)| left(dim) - amount >= due)
            } else {
                stakes.is_empty() || stakes.iter().any(|&(dim, _, due)| left(dim) > due)
            };
            if fair {
                for (dim, amount, _) in stakes {
                    match taken.iter_mut().find(|(of, at, _)| (*of, *at) == (queue, dim)) {
                        Some((_, _, gone)) => *gone += amount,
                        None => taken.push((queue, dim, amount)),
                    }
                }
            }
            fair
        });
    }

    /// Whether there would be room if all of them went. (Cheap, and leaves no trace in the journal.)
    fn could_do(&self, task: TaskId, node: NodeId, victims: &[TaskId]) -> bool {
        let model = &self.state.model;
        let freed = |dim: DimId| -> i64 {
            let amounts = victims.iter().map(|&victim| {
                let request = model.classes.request(model.tasks[victim].class);
                request.get(dim).unwrap_or(0)
            });
            amounts.sum()
        };
        let request = model.classes.request(model.tasks[task].class);
        !victims.is_empty()
            && request.iter().all(|(dim, need)| {
                let future = self.state.ledger.future().get(node.index(), dim);
                need <= future || need <= future.saturating_add(freed(dim))
            })
    }

    /// Lets off whom it turns out not to need, the most important first. The last one was needed, or it would not
    /// have been asked.
    fn reprieve(&mut self, claim: &Claim, node: NodeId, evicted: &mut Evicted) {
        for at in (0..evicted.len().saturating_sub(1)).rev() {
            let victim = evicted[at];
            self.spare(victim);
            if self.is_welcome(claim, node) {
                evicted.remove(at);
            } else {
                self.state.evict(victim);
            }
        }
    }

    /// Takes back an eviction of this cycle.
    pub(super) fn spare(&mut self, victim: TaskId) {
        let (status, node) = (self.state.model.tasks[victim].shown_as, self.state.ledger.node(victim));
        self.state.set(victim, status, node);
    }
}
