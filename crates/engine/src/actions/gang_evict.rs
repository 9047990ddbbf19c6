//! `gangpreempt` and `gangreclaim`: room for a whole gang, from whole gangs or from what gangs have beyond their
//! minimum. Never a part of a gang; what loses least goes first.

use std::cmp::Ordering;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Cycle;
use super::hunt::{Hunt, Kind};
use super::serve::Effort;
use super::victims::Evicted;
use crate::ledger::Status;
use crate::model::{Id, JobId, NodeId, TaskId};
use crate::mutants::mutant;
use crate::plugin::{Claim, Means, Want};
use crate::resources::{Amounts, DimId};

/// Pods of one job that can go.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    pub job: JobId,
    /// In the order in which they go.
    pub tasks: Vec<TaskId>,
    /// All of them or none; else each for itself.
    pub whole: bool,
}

/// The pods that wait for room, by what they want, each kind in order.
type Waiting = Vec<(Want, Vec<TaskId>)>;

impl Cycle<'_> {
    /// The best queue's best starving job is served, then the queues are looked at again.
    pub(super) fn gang_evict(&mut self, means: Means) {
        let mut hunt = self.hunt();
        let mut line = self.starving_line();
        while let Some(queue) = self.next_queue(&mut line) {
            if means == Means::GangReclaim && self.hooks.overused(self.state, queue) {
                line.close(queue);
                continue;
            }
            let Some(job) = self.next_job(&mut line, queue) else {
                continue;
            };
            let served = self.serve_gang(&mut hunt, job, means);
            self.follow(&mut line, queue);
            if served {
                self.call_again(&mut line, queue);
            }
            self.requeue(&mut line, queue);
        }
    }

    /// Makes room for a job, all that it needs or nothing. What is to spare is tried first; whoever would fall below
    /// what its queue deserves goes only if that does not help. True: decided.
    fn serve_gang(&mut self, hunt: &mut Hunt, job: JobId, means: Means) -> bool {
        let mut tasks = self.claimants(job);
        tasks.retain(|&task| self.state.model.tasks[task].preempts);
        let Some(&first) = tasks.first() else { return false };
        let claim = self.claim(means, first);
        let (kind, wish) = (Kind::of(self.state, &claim), self.wish(job));
        if hunt.is_refused(kind, &wish) {
            return false;
        }
        let needed = (self.still_lacks(job).max(1) as usize).min(tasks.len());
        let due = means != Means::GangReclaim || self.is_due(claim.queue, &tasks[..needed]);
        let bundles = if due {
            self.bundles(&claim, &tasks[..needed])
        } else {
            Vec::new()
        };
        let sparing: &[bool] = if means == Means::GangReclaim {
            &[true, false]
        } else {
            &[false]
        };
        for &spare in sparing {
            let checkpoint = self.state.checkpoint();
            if let Some(effort) = self.take_bundles(hunt, &claim, &tasks, &bundles, spare) {
                hunt.decided();
                self.decide(job, effort, means);
                return true;
            }
            self.state.rollback(checkpoint);
        }
        hunt.refuse(kind, wish);
        false
    }

    /// Takes bundle after bundle until the gang has its place, then lets off whom it does not need.
    fn take_bundles(
        &mut self,
        hunt: &mut Hunt,
        claim: &Claim,
        tasks: &[TaskId],
        bundles: &[Bundle],
        spare: bool,
    ) -> Option<Effort> {
        let mut waiting: Waiting = Vec::new();
        for &task in tasks.iter().rev() {
            let want = self.hooks.want(self.state, task);
            match waiting.iter_mut().find(|(known, _)| *known == want) {
                Some((_, list)) => list.push(task),
                None => waiting.push((want, vec![task])),
            }
        }
        waiting.reverse();
        let mut effort = Effort::default();
        let mut taken: Vec<Bundle> = Vec::new();
        self.settle_in(claim, &mut waiting, &mut effort);
        for bundle in bundles {
            if !self.wants_more(claim.job) {
                break;
            }
            let going = self.allowed(hunt, claim, bundle, spare);
            if going.is_empty() {
                continue;
            }
            for &task in &going {
                self.state.evict(task);
            }
            taken.push(Bundle {
                tasks: going,
                ..*bundle
            });
            self.settle_in(claim, &mut waiting, &mut effort);
        }
        if self.wants_more(claim.job) {
            return None;
        }
        if !mutant!(LetNobodyOff) {
            self.let_off(claim, &effort.placed, &mut taken);
        }
        effort.evicted = taken.into_iter().flat_map(|bundle| bundle.tasks).collect();
        (!effort.evicted.is_empty()).then_some(effort)
    }

    /// Pipelines as many pods as there is room for, until the job has enough.
    fn settle_in(&mut self, claim: &Claim, waiting: &mut Waiting, effort: &mut Effort) {
        for (_, tasks) in waiting {
            while let Some(&task) = tasks.last() {
                if !self.wants_more(claim.job) {
                    return;
                }
                let next = Claim { task, ..*claim };
                // Every pod has to be due, also those beyond the minimum.
                if claim.means == Means::GangReclaim && !self.may_claim(&next) {
                    break;
                }
                let Some(node) = self.free_place(&next) else {
                    break;
                };
                self.pipeline(task, node, Evicted::new(), effort);
                tasks.pop();
            }
        }
    }

    /// The pods of a bundle that go: those that still run and that all rules let go; of a whole gang all or none.
    fn allowed(&self, hunt: &mut Hunt, claim: &Claim, bundle: &Bundle, spare: bool) -> Vec<TaskId> {
        let runs = |task: &TaskId| matches!(self.state.ledger.status(*task), Status::Running | Status::Bound);
        let mut tasks: Vec<TaskId> = bundle.tasks.iter().copied().filter(runs).collect();
        if spare {
            let kept = self.within_excess(hunt, bundle.job, &tasks);
            if bundle.whole && kept < tasks.len() {
                return Vec::new();
            }
            tasks.truncate(kept);
        }
        let allowed = self.hooks.victims(self.state, claim, &tasks);
        if bundle.whole && allowed.len() < tasks.len() {
            return Vec::new();
        }
        allowed
    }

    /// How many of these pods, from the first, can go so that their queue keeps what it deserves.
    fn within_excess(&self, hunt: &mut Hunt, job: JobId, tasks: &[TaskId]) -> usize {
        let queue = self.state.model.jobs[job].queue;
        let deserved = hunt.deserved(self.state, self.hooks, queue);
        let mut left: SmallVec<[(DimId, i64); 4]> = deserved
            .iter()
            .map(|(dim, due)| (dim, self.state.ledger.queue_allocated().get(queue.index(), dim) - due))
            .collect();
        let fits = |&task: &TaskId| {
            let request = self.state.model.classes.request(self.state.model.tasks[task].class);
            left.iter_mut().all(|(dim, left)| {
                let amount = request.get(*dim).unwrap_or(0);
                *left -= amount;
                amount == 0 || *left >= 0
            })
        };
        tasks
            .iter()
            .take_while({
                let mut fits = fits;
                move |task| fits(task)
            })
            .count()
    }

    /// Lets off whoever is not needed, whole gangs first looked at as a whole, the last taken first. Where a gang goes,
    /// what it had beyond its minimum goes with it.
    fn let_off(&mut self, claim: &Claim, placed: &[TaskId], taken: &mut Vec<Bundle>) {
        let mut gone: SmallVec<[JobId; 4]> = SmallVec::new();
        for bundle in taken.iter_mut().rev() {
            if gone.contains(&bundle.job) {
                continue;
            }
            let mut spared: FxHashSet<TaskId> = FxHashSet::default();
            for &task in bundle.tasks.iter().rev() {
                if self.can_stay(claim, placed, task) {
                    spared.insert(task);
                } else if bundle.whole {
                    break;
                }
            }
            if bundle.whole && spared.len() < bundle.tasks.len() {
                gone.push(bundle.job);
                for &task in bundle.tasks.iter().filter(|task| spared.contains(task)) {
                    self.state.evict(task);
                }
            } else {
                bundle.tasks.retain(|task| !spared.contains(task));
            }
        }
        taken.retain(|bundle| !bundle.tasks.is_empty());
    }

    /// Takes back the eviction of a pod, if nobody needs it: neither its place, nor what its queue may have.
    fn can_stay(&mut self, claim: &Claim, placed: &[TaskId], task: TaskId) -> bool {
        if !self.has_room_again(task) {
            return false;
        }
        self.spare(task);
        let Some(&one) = placed.last() else { return true };
        let node = self.state.ledger.node(one);
        self.state.set(one, Status::Pending, NodeId::NONE);
        let refused = self.hooks.queue_refuses(self.state, claim.queue, one).is_some();
        self.state.set(one, Status::Pipelined, node);
        if refused {
            self.state.evict(task);
        }
        !refused
    }

    /// Whether nobody has taken the place of a pod that was told to go.
    fn has_room_again(&self, task: TaskId) -> bool {
        let (ledger, model) = (&self.state.ledger, &self.state.model);
        let request = model.classes.request(model.tasks[task].class);
        let node = ledger.node(task);
        // Who minds others may mind those who came.
        let shape = self.hooks.shape(self.state, task);
        let minds = !self.hooks.want(self.state, task).is_plain() || self.hooks.minds_guests(self.state, shape);
        ledger.future().fits(node.index(), request) && (!minds || self.hooks.obstacle(self.state, task, node).is_none())
    }

    /// What can go for a claim, in the order in which it goes.
    fn bundles(&self, claim: &Claim, claimants: &[TaskId]) -> Vec<Bundle> {
        let model = &self.state.model;
        let mut bundles: Vec<Bundle> = Vec::new();
        for job in model.jobs.ids() {
            if self.may_lose(claim, job) {
                bundles.extend(self.bundles_of(claim, job));
            }
        }
        let requests = claimants
            .iter()
            .map(|&task| model.classes.request(model.tasks[task].class));
        let need = Amounts::from_pairs(requests.flat_map(Amounts::iter));
        let gain: FxHashMap<JobId, f64> = bundles
            .iter()
            .filter(|bundle| bundle.whole)
            .map(|bundle| (bundle.job, self.gain(&need, bundle)))
            .collect();
        let gain = |bundle: &Bundle| gain.get(&bundle.job).copied().unwrap_or(0.0);
        bundles.sort_by(|a, b| {
            let far = self.loses_first(claim, a.job, b.job);
            let order = a.whole.cmp(&b.whole).then(far);
            let order = order.then_with(|| {
                if a.whole {
                    gain(b).total_cmp(&gain(a))
                } else {
                    Ordering::Equal
                }
            });
            order.then_with(|| model.jobs.name(a.job).cmp(model.jobs.name(b.job)))
        });
        bundles
    }

    /// Whether pods of a job can be asked to go at all.
    fn may_lose(&self, claim: &Claim, job: JobId) -> bool {
        let model = &self.state.model;
        let record = &model.jobs[job];
        if job == claim.job || !record.present || (record.preemptable == Some(false) && !mutant!(TakeProtectedGroups)) {
            return false;
        }
        let queue = &model.queues[record.queue];
        match claim.means {
            Means::GangReclaim => record.queue != claim.queue && queue.present && queue.reclaimable,
            _ => record.queue == claim.queue && record.priority < model.jobs[claim.job].priority,
        }
    }

    /// Less: jobs that lose first. Preempt: the least important; reclaim: those of the queue that gives way first.
    fn loses_first(&self, claim: &Claim, a: JobId, b: JobId) -> Ordering {
        if claim.means != Means::GangReclaim {
            return self.hooks.job_rank(self.state, b, a);
        }
        let (a, b) = (self.state.model.jobs[a].queue, self.state.model.jobs[b].queue);
        if a == b {
            Ordering::Equal
        } else {
            self.hooks.victim_queue_order(self.state, a, b, claim.queue)
        }
    }

    /// What a job can lose to a claim. Who is on a node that is locked against the claimant helps it only as part of a gang.
    fn bundles_of(&self, claim: &Claim, job: JobId) -> SmallVec<[Bundle; 2]> {
        let shape = self.hooks.shape(self.state, claim.task);
        let helps = |task: TaskId| {
            let node = self.state.ledger.node(task);
            self.state.locked_against(shape.class, shape.right, node).is_none()
        };
        let runs = |task: &TaskId| match self.state.ledger.status(*task) {
            _ if !self.state.ledger.node(*task).is_some() => false,
            Status::Running => true,
            Status::Bound => claim.means == Means::GangPreempt,
            _ => false,
        };
        let goes = |task: &TaskId| {
            let record = &self.state.model.tasks[*task];
            runs(task) && record.preemptable && !record.spared
        };
        self.bundles_from(job, goes, helps)
    }

    /// What a job has beyond its minimum, pod by pod; and all of it together, if none of its pods would stay behind. `goes`:
    /// who can go at all; `helps`: whose going is of use.
    pub(super) fn bundles_from(
        &self,
        job: JobId,
        goes: impl Fn(&TaskId) -> bool,
        helps: impl Fn(TaskId) -> bool,
    ) -> SmallVec<[Bundle; 2]> {
        let (record, counts) = (&self.state.model.jobs[job], self.state.ledger.counts(job));
        let mut all: Vec<TaskId> = record.tasks.iter().copied().filter(goes).collect();
        all.sort_unstable_by(|&a, &b| self.hooks.task_order(self.state, b, a));
        // What is below its minimum has nothing to spare: all that is left of it goes, or nothing. What it may yet get
        // does not count: it runs on what it has.
        let mut surplus = counts.ready().saturating_sub(record.min_member) + u32::from(mutant!(TakeBeyondSurplus));
        let mut by_role: FxHashMap<u16, u32> = FxHashMap::default();
        let spare = |task: &TaskId| {
            let role = self.state.model.tasks[*task].role;
            let left = by_role.entry(role).or_insert_with(|| {
                let min = record.roles.get(usize::from(role)).map_or(0, |role| role.min);
                let ready = self.state.ledger.role_counts(job, usize::from(role)).ready();
                if record.roles_count() {
                    ready.saturating_sub(min)
                } else {
                    u32::MAX
                }
            });
            let goes = helps(*task) && surplus > 0 && *left > 0;
            if goes {
                surplus = surplus.saturating_sub(1);
                *left = left.saturating_sub(1);
            }
            goes
        };
        let safe: Vec<TaskId> = all.iter().copied().filter(spare).collect();
        let of_use = all.iter().any(|&task| helps(task));
        let on_nodes = counts.ready() - counts.of(Status::Succeeded);
        let helped = counts.of(Status::Pipelined) > 0;
        let whole = of_use && all.len() > safe.len() && all.len() == on_nodes as usize && !helped;
        let bundle = |tasks: Vec<TaskId>, whole: bool| Bundle { job, tasks, whole };
        let safe = (!safe.is_empty()).then(|| bundle(safe, false));
        let whole = whole.then(|| bundle(all, !mutant!(TakePartOfGang)));
        safe.into_iter().chain(whole).collect()
    }

    /// How much of what a gang would lose is of use.
    fn gain(&self, need: &Amounts, bundle: &Bundle) -> f64 {
        let model = &self.state.model;
        let requests = bundle
            .tasks
            .iter()
            .map(|&task| model.classes.request(model.tasks[task].class));
        let lost = Amounts::from_pairs(requests.flat_map(Amounts::iter));
        let (mut used, mut all) = (0.0, 0.0);
        for (dim, need) in need.iter().filter(|&(_, need)| need > 0) {
            let lost = lost.get(dim).unwrap_or(0) as f64 / need as f64;
            used += lost.min(1.0);
            all += lost;
        }
        if all > 0.0 { used / all } else { 0.0 }
    }
}
