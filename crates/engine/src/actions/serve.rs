//! Making room for a job, pod by pod: all that it needs, or nothing.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::hunt::{Hunt, Kind, Stage, Wish};
use super::victims::Evicted;
use super::{Attempt, Cycle, Decision};
use crate::conf::SchedulingAction;
use crate::ledger::Status;
use crate::model::{ClassId, JobId, NOTHING, NodeId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::plan::Purpose;
use crate::plugin::{Claim, Means, Want};

/// What making room for a job takes.
#[derive(Debug, Default)]
pub(super) struct Effort {
    /// Its pods that have a place.
    pub placed: SmallVec<[TaskId; 4]>,
    /// Pods that have to go for them.
    pub evicted: Vec<TaskId>,
}

impl Cycle<'_> {
    /// A hunt, with what the configuration says.
    pub(super) fn hunt(&self) -> Hunt {
        let mut plugins = self.conf.tiers.iter().flatten();
        Hunt::new(plugins.any(|plugin| plugin.name == "capacity" && plugin.is_on("enableHierarchy")))
    }

    /// The jobs in line for room that others have.
    pub(super) fn starving_line(&self) -> super::Line {
        self.line(|job| {
            self.state.ledger.counts(job).of(Status::Pending) > 0
                && !self.beneficiaries.contains(&job)
                && !self.is_behind_the_head(job)
                && self.is_active(job)
                && self.hooks.job_starving(self.state, job)
        })
    }

    /// The pods of a job that wait, those that ask for something first; before them those that the minimum of their role
    /// cannot do without.
    pub(super) fn claimants(&self, job: JobId) -> Vec<TaskId> {
        let mut tasks = self.pending(job, false);
        if self.state.ledger.counts(job).pending_best_effort > 0 {
            tasks.extend(self.pending(job, true));
        }
        let record = &self.state.model.jobs[job];
        if record.roles_count() {
            let lacks = |role: usize| {
                let counts = self.state.ledger.role_counts(job, role);
                record.roles[role]
                    .min
                    .saturating_sub(counts.ready() + counts.of(Status::Pipelined))
            };
            let mut lacking: Vec<u32> = (0..record.roles.len()).map(lacks).collect();
            tasks.sort_by_cached_key(|&task| {
                let role = usize::from(self.state.model.tasks[task].role);
                let needed = lacking.get(role).is_some_and(|&count| count > 0);
                if needed {
                    lacking[role] -= 1;
                }
                !needed
            });
        }
        tasks
    }

    /// Whether others may have to give way for more pods of the job: it starves, or one of its roles does.
    pub(super) fn wants_more(&self, job: JobId) -> bool {
        self.hooks.job_starving(self.state, job) || !self.hooks.job_pipelined(self.state, job)
    }

    pub(super) fn claim(&self, means: Means, task: TaskId) -> Claim {
        let job = self.state.model.tasks[task].job;
        Claim {
            means,
            task,
            job,
            queue: self.state.model.jobs[job].queue,
        }
    }

    /// What a job wants, as far as it matters to others that want the same.
    pub(super) fn wish(&self, job: JobId) -> Wish {
        let pending = self.state.ledger.pending(job).iter().copied();
        let mut census: SmallVec<[(ClassId, u32); 2]> = pending.filter(|&(_, count)| count > 0).collect();
        census.sort_unstable();
        let model = &self.state.model;
        let is_tied = |&task: &TaskId| model.tasks[task].ties != NOTHING;
        let tasks = &model.jobs[job].tasks;
        let meek = |&task: &TaskId| !model.tasks[task].preempts;
        let own = model.jobs[job].odd_tasks > 0
            || (!model.places.ties.is_empty() && tasks.iter().any(is_tied))
            || tasks.iter().any(meek);
        (census, self.still_lacks(job), if own { job } else { JobId::NONE })
    }

    /// How many more pods the job needs at least, besides those that are pipelined.
    pub(super) fn still_lacks(&self, job: JobId) -> u32 {
        let pipelined = self.state.ledger.counts(job).of(Status::Pipelined);
        self.hooks.job_lacks(self.state, job).saturating_sub(pipelined)
    }

    /// The steps in which a claim widens.
    fn stages(&self, hunt: &Hunt, claim: &Claim) -> SmallVec<[Stage; 8]> {
        let stage = |reach: usize, spare: bool| Stage {
            own_job: false,
            reach: u8::try_from(reach).unwrap_or(u8::MAX),
            spare,
        };
        let depth = if hunt.tree {
            self.state.model.chain(claim.queue).len()
        } else {
            1
        };
        let mut stages = SmallVec::new();
        if claim.means == Means::Preempt {
            stages.push(stage(0, false));
            if !hunt.tree {
                return stages;
            }
        }
        for spare in [true, false] {
            stages.extend((1..=depth).map(|reach| stage(reach, spare)));
        }
        stages
    }

    /// Finds a place for a pod, whoever has to go for it within the rules. True: it is pipelined.
    fn make_room(&mut self, hunt: &mut Hunt, kind: Kind, claim: &Claim, effort: &mut Effort) -> bool {
        if let Some(node) = self.free_place(claim) {
            self.pipeline(claim.task, node, Evicted::new(), effort);
            return true;
        }
        let want = self.hooks.want(self.state, claim.task);
        for stage in self.stages(hunt, claim) {
            if let Some((node, evicted)) = self.clear_any(hunt, claim, &(kind, stage, want)) {
                self.pipeline(claim.task, node, evicted, effort);
                return true;
            }
        }
        false
    }

    /// A place for which nobody has to go.
    pub(super) fn free_place(&mut self, claim: &Claim) -> Option<NodeId> {
        if self.hooks.queue_refuses(self.state, claim.queue, claim.task).is_some() {
            return None;
        }
        if let Some((node, _)) = self.nominated(claim.task) {
            return Some(node);
        }
        let best = self.candidates.best(self.state, self.hooks, claim.task);
        best.map(|(node, _)| node)
    }

    pub(super) fn pipeline(&mut self, task: TaskId, node: NodeId, evicted: Evicted, effort: &mut Effort) {
        self.state.set(task, Status::Pipelined, node);
        effort.placed.push(task);
        effort.evicted.extend(evicted);
    }

    /// Clears the best node that can be cleared.
    pub(super) fn clear_any(
        &mut self,
        hunt: &mut Hunt,
        claim: &Claim,
        at: &(Kind, Stage, Want),
    ) -> Option<(NodeId, Evicted)> {
        if claim.means == Means::Preempt && self.dry_run.is_some() {
            return self.clear_cheapest(hunt, claim, at);
        }
        while let Some(node) = hunt.best(self.state, self.hooks, at) {
            let admits = self.hooks.blocker(self.state, at.2.shape, node).is_none();
            if admits && let Some(evicted) = self.clear(hunt, claim, at.1, node) {
                return Some((node, evicted));
            }
            hunt.close(self.state, at, node);
        }
        None
    }

    /// Makes room for a job until it starves no more. All or nothing; true: decided.
    pub(super) fn serve(&mut self, hunt: &mut Hunt, job: JobId, means: Means) -> bool {
        let tasks = self.claimants(job);
        let Some(&first) = tasks.first() else { return false };
        let kind = Kind::of(self.state, &self.claim(means, first));
        let wish = self.wish(job);
        if hunt.is_refused(kind, &wish) {
            return false;
        }
        let checkpoint = self.state.checkpoint();
        let mut effort = Effort::default();
        let mut in_vain: FxHashSet<Want> = FxHashSet::default();
        for (at, &task) in tasks.iter().enumerate() {
            if !self.wants_more(job) {
                break;
            }
            let want = self.hooks.want(self.state, task);
            let claim = self.claim(means, task);
            let helped =
                !in_vain.contains(&want) && self.may_claim(&claim) && self.make_room(hunt, kind, &claim, &mut effort);
            if !helped {
                in_vain.insert(want);
                if tasks.len() - at - 1 < self.still_lacks(job) as usize {
                    break;
                }
            }
        }
        let whole = self.hooks.job_pipelined(self.state, job) && self.still_lacks(job) == 0;
        let served = !effort.placed.is_empty() && (whole || mutant!(EvictInVain));
        if served && (!effort.evicted.is_empty() || self.may_hold(means)) {
            hunt.decided();
            self.decide(job, effort, means);
            return true;
        }
        self.state.rollback(checkpoint);
        if !effort.evicted.is_empty() {
            hunt.taken_back();
        }
        hunt.refuse(kind, wish);
        false
    }

    /// Whether a pod may have others go for it.
    pub(super) fn may_claim(&self, claim: &Claim) -> bool {
        let reclaims = matches!(claim.means, Means::Reclaim | Means::GangReclaim);
        self.state.model.tasks[claim.task].preempts && (!reclaims || self.is_due(claim.queue, &[claim.task]))
    }

    /// Whether a queue may have others give way for these pods. Where nothing is shared out, nobody is due anything:
    /// two queues could take the same room from each other for ever.
    pub(super) fn is_due(&self, queue: QueueId, tasks: &[TaskId]) -> bool {
        self.hooks.shares_out() && self.hooks.preemptive(self.state, queue, tasks)
    }

    /// Whether places for which nobody had to go are worth holding for the rest of the cycle: only where no action is
    /// still to come that could give them for good.
    fn may_hold(&self, means: Means) -> bool {
        let places =
            |action: &SchedulingAction| matches!(action, SchedulingAction::Allocate | SchedulingAction::Backfill);
        let mut later = self.conf.actions.iter().skip(self.at + 1);
        means == Means::Preempt && self.dry_run.is_none() && !later.any(places)
    }

    /// Writes down what was decided for a job.
    pub(super) fn decide(&mut self, job: JobId, mut effort: Effort, means: Means) {
        let beneficiary = self.state.model.jobs.name(job).clone();
        let purpose = match means {
            Means::Preempt => Purpose::Preempt { beneficiary },
            Means::Reclaim if !mutant!(MisnameAction) => Purpose::Reclaim { beneficiary },
            Means::GangPreempt => Purpose::GangPreempt { beneficiary },
            Means::Reclaim | Means::GangReclaim => Purpose::GangReclaim { beneficiary },
        };
        let attempt = Attempt {
            placed: self.state.ledger.counts(job).ready(),
            pipelined: true,
            ..Attempt::default()
        };
        self.attempts.insert(job, attempt);
        self.beneficiaries.insert(job);
        if mutant!(EvictForNothing) {
            for task in effort.placed.drain(..) {
                self.state.set(task, Status::Pending, NodeId::NONE);
            }
        }
        let evicted = effort.evicted.into_iter().map(|task| (task, purpose.clone()));
        self.decisions.push(Decision {
            job,
            placed: effort.placed,
            evicted: evicted.collect(),
        });
    }
}
