//! `capacity`: queues say what they deserve, always keep, and may have at most; what nobody uses can be borrowed and is
//! taken back when its owner needs it. Flat, or as a tree of queues (`enableHierarchy`).

mod levels;
mod tree;

use std::cmp::Ordering;

use basalt_api::reason::Code;

use self::tree::Tree;
use super::shares::{self, Excess, Losers, Shares, Standing};
use super::{Claim, Hook, Means, Plugin, QueueReport, Refusal, Vote};
use crate::conf::PluginConf;
use crate::model::{Id, JobId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::resources::{Amounts, DimId};
use crate::session::State;

/// The plugin: what queues are due in this cycle, and which of them are in disorder.
pub(super) struct Capacity {
    hierarchy: bool,
    from_weight: bool,
    /// How many levels above a leaf count when something is taken from one queue for another.
    ancestor_level: usize,
    shares: Shares,
    tree: Tree,
    inputs: Vec<i64>,
}

impl Capacity {
    pub(super) fn new(conf: &PluginConf) -> Self {
        let level = conf.integer("ancestorReclaimLevel").unwrap_or(0);
        Capacity {
            hierarchy: conf.is_on("enableHierarchy"),
            from_weight: conf.boolean("deservedFromWeight").unwrap_or(false),
            ancestor_level: usize::try_from(level).unwrap_or(0),
            shares: Shares::default(),
            tree: Tree::default(),
            inputs: Vec::new(),
        }
    }

    /// The queues whose limits hold for a queue: itself, and with a tree all above it.
    fn bounds<'a>(&self, state: &'a State, queue: QueueId) -> &'a [QueueId] {
        let chain = state.model.chain(queue);
        if self.hierarchy {
            chain
        } else {
            &chain[..chain.len().min(1)]
        }
    }

    /// A queue that is due nothing counts as one that has all of its due.
    fn share(&self, state: &State, queue: QueueId) -> f64 {
        if self.shares.has_due(queue) {
            self.shares.share(state, queue).unwrap_or(1.0)
        } else {
            1.0
        }
    }

    /// The queues to compare in place of two queues: where their branches part, seen from the root.
    fn rivals(&self, state: &State, a: QueueId, b: QueueId) -> (QueueId, QueueId) {
        if !self.hierarchy {
            return (a, b);
        }
        let (up, over) = (state.model.chain(a).iter().rev(), state.model.chain(b).iter().rev());
        up.zip(over).find(|(a, b)| a != b).map_or((a, b), |(&a, &b)| (a, b))
    }

    /// The first limit on the way up that would be passed, and the rule that says so.
    fn over_limit(&self, state: &State, queue: QueueId, passes: impl Fn(QueueId) -> Option<Excess>) -> Option<Refusal> {
        let mut first = None;
        let bounds = self.bounds(state, queue).iter();
        for &bound in bounds.take(if mutant!(IgnoreAncestors) { 1 } else { usize::MAX }) {
            let Some(excess) = passes(bound) else { continue };
            let own = shares::capability(state, bound, excess.dim);
            let most = if self.tree.is_root(bound) {
                Some(excess.have)
            } else {
                own
            };
            if most.is_some_and(|most| excess.need > most) {
                let code = if bound == queue {
                    Code::QueueOverCapability
                } else {
                    Code::AncestorOverCapability
                };
                return Some(excess.refusal(code, bound));
            }
            first.get_or_insert((bound, excess));
        }
        let (bound, excess) = first?;
        let code = if self.hierarchy {
            Code::ReservedForOthers
        } else {
            shares::flat_code(state, bound, excess)
        };
        Some(excess.refusal(code, bound))
    }

    /// Whether a queue, or one of those above it that count, is within its due with this much more: in some of these
    /// dimensions, or in all of them that it is due anything of.
    fn is_entitled(&self, state: &State, queue: QueueId, more: &Amounts, dims: Option<&[DimId]>) -> bool {
        if mutant!(ReclaimBeyondDue) {
            return true;
        }
        let has = |queue, dim| self.shares.has(state, queue, dim);
        let levels = self.bounds(state, queue).iter().take(self.ancestor_level + 1);
        let levels = levels
            .enumerate()
            .filter(|&(level, &queue)| level == 0 || !self.tree.is_root(queue));
        let mut levels = levels.map(|(_, &queue)| queue);
        levels.any(|queue| {
            let fits = shares::asked(more).filter_map(|(dim, amount)| {
                let due = self.shares.due(queue, dim)?;
                let counts = dims.is_none_or(|dims| dims.contains(&dim));
                counts.then(|| has(queue, dim) + amount <= due)
            });
            let fits: Vec<bool> = fits.collect();
            if dims.is_some() {
                !fits.is_empty() && fits.into_iter().all(|fits| fits)
            } else {
                fits.into_iter().any(|fits| fits)
            }
        })
    }

    /// The lowest queue above a claimant that would pass its limit with it: only what leaves that queue helps.
    fn bottleneck(&self, state: &State, claimant: QueueId, more: &Amounts) -> Option<QueueId> {
        let mut bounds = self.bounds(state, claimant).iter().skip(1).copied();
        bounds.find(|&bound| self.shares.over_limit(state, bound, more).is_some())
    }

    /// How the queues of a candidate stand to a claim.
    fn judge(&self, losers: &Losers<'_>, claim: &Claim, queue: QueueId, loss: &Amounts, short: &[DimId]) -> Standing {
        let state = losers.state();
        let ours = self.bounds(state, claim.queue);
        let theirs = self.bounds(state, queue);
        let mut worst = Standing::Clean;
        for (level, &bound) in theirs.iter().enumerate() {
            // What both are below of changes nothing; but whose pod it is always counts.
            if level > 0 && ours.contains(&bound) {
                break;
            }
            if !losers.keeps_guarantee(bound, loss) {
                return Standing::Keeps;
            }
            if level <= self.ancestor_level {
                worst = worst.max(losers.by_due(bound, loss, short));
            }
        }
        if self.is_family_affair(losers, claim, queue, loss) {
            return Standing::Keeps;
        }
        worst
    }

    /// Two queues below one that counts, neither of which is due anything of this, do not take from each other.
    fn is_family_affair(&self, losers: &Losers<'_>, claim: &Claim, queue: QueueId, loss: &Amounts) -> bool {
        let state = losers.state();
        let near = |queue: QueueId| self.bounds(state, queue).iter().skip(1).take(self.ancestor_level);
        let related =
            near(queue).any(|above| !self.tree.is_root(*above) && near(claim.queue).any(|other| other == above));
        let request = shares::requests(state, &[claim.task]);
        related && !losers.is_due(queue, loss) && !losers.is_due(claim.queue, &request)
    }
}

impl Plugin for Capacity {
    fn hooks(&self) -> &'static [Hook] {
        &[
            Hook::QueueOrder,
            Hook::Allocatable,
            Hook::Preemptive,
            Hook::Preemptable,
            Hook::Reclaimable,
            Hook::Evictable,
            Hook::VictimQueueOrder,
            Hook::JobEnqueueable,
            Hook::QueueReport,
        ]
    }

    fn open(&mut self, state: &State) -> bool {
        let inputs = shares::inputs(state, false);
        let changed = inputs != self.inputs;
        if changed {
            self.tree = Tree::of(state, self.hierarchy);
            self.shares = levels::share_out(state, &self.tree, self.from_weight);
            self.inputs = inputs;
        }
        changed
    }

    /// The more important queue first; then, where the branches part, the one with the smaller part of its due, and one
    /// that is due something before one that is not.
    fn queue_order(&self, state: &State, a: QueueId, b: QueueId) -> Ordering {
        let queues = &state.model.queues;
        let (x, y) = self.rivals(state, a, b);
        queues[b]
            .priority
            .cmp(&queues[a].priority)
            .then_with(|| self.tree.is_inner(a).cmp(&self.tree.is_inner(b)))
            .then_with(|| self.share(state, x).total_cmp(&self.share(state, y)))
            .then_with(|| self.shares.has_due(y).cmp(&self.shares.has_due(x)))
            .then_with(|| {
                // Whole branches are told apart by the branch, so that there is one order of all leaves.
                let age = queues[x].created_ms.cmp(&queues[y].created_ms);
                age.then_with(|| queues.name(x).cmp(queues.name(y)))
            })
    }

    fn queues_are_related(&self) -> bool {
        self.hierarchy
    }

    fn queue_refuses(&self, state: &State, queue: QueueId, task: TaskId) -> Option<Refusal> {
        if let Some(damage) = self.tree.damage(queue) {
            return Some(damage.clone());
        }
        let more = state.model.classes.request(state.model.tasks[task].class);
        self.over_limit(state, queue, |bound| self.shares.over_limit(state, bound, more))
    }

    /// With what it asks for the queue stays below its own limit, and with what it has alone below those above it; and
    /// it lacks something that it is due.
    fn preemptive(&self, state: &State, queue: QueueId, tasks: &[TaskId]) -> bool {
        let more = shares::requests(state, tasks);
        let has = |dim| self.shares.has(state, queue, dim);
        let limit = |bound: QueueId, dim| self.shares.limit.get(bound.index(), dim);
        let fits = |&bound: &QueueId| shares::asked(&more).all(|(dim, more)| has(dim) + more <= limit(bound, dim));
        // Who goes for one pod is judged by what that pod is short of; who goes for several, by all that they ask for: else
        // two gangs that are each within their due in one dimension only could take turns for ever.
        let asked: Vec<DimId> = shares::asked(&more).map(|(dim, _)| dim).collect();
        let dims = (tasks.len() > 1).then_some(&asked[..]);
        self.tree.damage(queue).is_none()
            && self.bounds(state, queue).iter().all(fits)
            && self.is_entitled(state, queue, &more, dims)
    }

    fn victims(&self, state: &State, claim: &Claim, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        let model = &state.model;
        let ours = |task: TaskId| {
            let job = model.tasks[task].job;
            job.is_some() && model.jobs[job].queue == claim.queue
        };
        let preempts = matches!(claim.means, Means::Preempt | Means::GangPreempt);
        if preempts && candidates.iter().all(|&task| ours(task)) {
            return None;
        }
        let more = shares::requests(state, &[claim.task]);
        let bottleneck = self.bottleneck(state, claim.queue, &more);
        let losers = Losers::new(state, &self.shares, claim);
        Some(losers.choose(candidates, |losers, queue, loss, short| {
            let helps = bottleneck.is_none_or(|bound| model.chain(queue).contains(&bound));
            let entitled = preempts || self.is_entitled(state, claim.queue, &more, Some(short));
            if helps && entitled {
                self.judge(losers, claim, queue, loss, short)
            } else {
                Standing::Keeps
            }
        }))
    }

    fn protects(&self) -> bool {
        true
    }

    /// Pods of the nearest relatives go first.
    fn victim_queue_order(&self, state: &State, a: QueueId, b: QueueId, claimant: QueueId) -> Ordering {
        if !self.hierarchy {
            return Ordering::Equal;
        }
        let common = |queue: QueueId| {
            let ours = state.model.chain(claimant).iter().rev();
            let theirs = state.model.chain(queue).iter().rev();
            ours.zip(theirs).take_while(|(ours, theirs)| ours == theirs).count()
        };
        common(b).cmp(&common(a))
    }

    fn job_enqueueable(&self, state: &State, job: JobId) -> Vote {
        let record = &state.model.jobs[job];
        if let Some(damage) = self.tree.damage(record.queue) {
            return Vote::Reject(damage.clone());
        }
        let Some(need) = &record.min_resources else {
            return Vote::Permit;
        };
        match self.over_limit(state, record.queue, |bound| self.shares.over_entry(state, bound, need)) {
            None => Vote::Permit,
            Some(refusal) => Vote::Reject(refusal),
        }
    }

    fn is_due(&self, state: &State, job: JobId) -> bool {
        self.shares.is_due(state, job)
    }

    fn queue_report(&self, state: &State, queue: QueueId) -> Option<QueueReport> {
        self.shares.report(state, queue, self.share(state, queue))
    }
}
