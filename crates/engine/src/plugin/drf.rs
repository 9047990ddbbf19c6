//! `drf`: the job, or with `enableHierarchy` the branch of an annotated tree of queues, whose dominant share is smallest
//! comes first.

mod hierarchy;

use std::cmp::Ordering;
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use self::hierarchy::Tree;
use super::{Claim, Hook, Means, Plugin};
use crate::conf::PluginConf;
use crate::model::{Id, JobId, QueueId, TaskId};
use crate::resources::{Amounts, DimId};
use crate::session::State;

/// Shares that differ by less are equal.
const SHARE_STEP: f64 = 0.000_001;

/// The plugin.
pub(super) struct Drf {
    hierarchy: bool,
    /// What the cluster has in all, where that is anything.
    total: SmallVec<[(DimId, f64); 4]>,
    /// The tree of queues, and the state of the ledger that it is about. Only a cache: it follows from the state.
    tree: Mutex<Option<(u64, Tree)>>,
}

impl Drf {
    pub(super) fn new(conf: &PluginConf) -> Self {
        Drf {
            hierarchy: conf.is_on("enableHierarchy"),
            total: SmallVec::new(),
            tree: Mutex::new(None),
        }
    }

    /// The largest part of the cluster that a job has, in any dimension.
    fn share(&self, state: &State, job: JobId) -> f64 {
        let has = state.ledger.job_allocated();
        self.dominant(|dim| has.get(job.index(), dim))
    }

    fn dominant(&self, has: impl Fn(DimId) -> i64) -> f64 {
        let part = |&(dim, total): &(DimId, f64)| has(dim) as f64 / total;
        self.total.iter().map(part).fold(0.0, f64::max)
    }

    /// Whether a claim's job, with the pod, has no more than the victim's job without what it loses.
    fn poorer(&self, state: &State, claim: &Claim, candidates: &[TaskId]) -> Vec<TaskId> {
        let model = &state.model;
        let request = |task: TaskId| model.classes.request(model.tasks[task].class);
        let has = |job: JobId, dim: DimId| state.ledger.job_allocated().get(job.index(), dim);
        let asks = request(claim.task);
        let ours = self.dominant(|dim| has(claim.job, dim) + asks.get(dim).unwrap_or(0));
        let mut gone: FxHashMap<JobId, Amounts> = FxHashMap::default();
        let goes = |task: &TaskId| {
            let job = model.tasks[*task].job;
            if !job.is_some() {
                return false;
            }
            let gone = gone.entry(job).or_default();
            *gone = Amounts::from_pairs(gone.iter().chain(request(*task).iter()));
            let theirs = self.dominant(|dim| has(job, dim) - gone.get(dim).unwrap_or(0));
            ours < theirs + SHARE_STEP
        };
        candidates.iter().copied().filter(goes).collect()
    }

    /// Pods whose queue is still better off than the claimant's once the claim is met at their cost.
    fn better_off(&self, state: &State, claim: &Claim, candidates: &[TaskId]) -> Vec<TaskId> {
        let model = &state.model;
        let goes = |task: &TaskId| {
            let job = model.tasks[*task].job;
            if !job.is_some() {
                return false;
            }
            let changes = [(claim.job, claim.task, 1), (job, *task, -1)];
            let tree = Tree::of(state, &self.total, &changes);
            tree.compare(state, claim.queue, model.jobs[job].queue).is_lt()
        };
        candidates.iter().copied().filter(goes).collect()
    }
}

impl Plugin for Drf {
    fn hooks(&self) -> &'static [Hook] {
        if self.hierarchy {
            &[Hook::JobOrder, Hook::Preemptable, Hook::QueueOrder, Hook::Reclaimable]
        } else {
            &[Hook::JobOrder, Hook::Preemptable]
        }
    }

    fn open(&mut self, state: &State) -> bool {
        let total = state.ledger.total();
        self.total = total.iter().map(|(dim, amount)| (dim, amount as f64)).collect();
        *self.tree.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        false
    }

    fn job_order(&self, state: &State, a: JobId, b: JobId) -> Ordering {
        self.share(state, a).total_cmp(&self.share(state, b))
    }

    fn queue_order(&self, state: &State, a: QueueId, b: QueueId) -> Ordering {
        let version = state.ledger.journal.end();
        let mut known = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(at, _)| *at != version) {
            *known = Some((version, Tree::of(state, &self.total, &[])));
        }
        known
            .as_ref()
            .map_or(Ordering::Equal, |(_, tree)| tree.compare(state, a, b))
    }

    fn victims(&self, state: &State, claim: &Claim, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(match claim.means {
            Means::Reclaim => self.better_off(state, claim, candidates),
            Means::Preempt => self.poorer(state, claim, candidates),
            Means::GangPreempt | Means::GangReclaim => return None,
        })
    }
}
