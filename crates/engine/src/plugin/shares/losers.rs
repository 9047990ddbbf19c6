//! Who may have to give way: which queues lose pods to a claim, and which pods.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Shares, asked};
use crate::model::{Id, JobId, NodeId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::plugin::{Claim, Means};
use crate::resources::{Amounts, DimId, PODS};
use crate::session::State;

/// How a queue stands to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::plugin) enum Standing {
    /// It has no more than its due afterwards, and no less.
    Clean,
    /// It has more than its due, but less afterwards.
    Cuts,
    /// It loses nothing.
    Keeps,
}

type ShortDims = SmallVec<[DimId; 4]>;

/// One claim being judged. What was chosen already counts as gone.
pub(in crate::plugin) struct Losers<'a> {
    state: &'a State,
    shares: &'a Shares,
    claim: &'a Claim,
    gone: FxHashMap<QueueId, Amounts>,
    short: FxHashMap<NodeId, ShortDims>,
}

impl<'a> Losers<'a> {
    pub(in crate::plugin) fn new(state: &'a State, shares: &'a Shares, claim: &'a Claim) -> Self {
        Losers {
            state,
            shares,
            claim,
            gone: FxHashMap::default(),
            short: FxHashMap::default(),
        }
    }

    /// Which candidates may go, in the order given: those that leave their queue its due first; the others only where
    /// those do not serve the claim. `judge` says how the queues of a candidate stand, given what it takes with it and
    /// the dimensions that are short.
    pub(in crate::plugin) fn choose(
        mut self,
        candidates: &[TaskId],
        judge: impl Fn(&Losers<'_>, QueueId, &Amounts, &[DimId]) -> Standing,
    ) -> Vec<TaskId> {
        let mut chosen = Vec::new();
        let mut others = Vec::new();
        for bundle in self.bundles(candidates) {
            match self.stand(&bundle, &judge) {
                Standing::Clean => self.take(bundle, &mut chosen),
                _ => others.push(bundle),
            }
        }
        if !self.serves(&chosen) {
            for bundle in others {
                if self.stand(&bundle, &judge) != Standing::Keeps {
                    self.take(bundle, &mut chosen);
                }
            }
        }
        chosen
    }

    /// What goes together: single pods, or all candidates of a gang where gangs go as a whole.
    fn bundles(&self, candidates: &[TaskId]) -> Vec<SmallVec<[TaskId; 1]>> {
        if matches!(self.claim.means, Means::Preempt | Means::Reclaim) {
            return candidates.iter().map(|&task| SmallVec::from([task])).collect();
        }
        let mut bundles: Vec<SmallVec<[TaskId; 1]>> = Vec::new();
        let mut at: FxHashMap<JobId, usize> = FxHashMap::default();
        for &task in candidates {
            let job = self.state.model.tasks[task].job;
            let at = *at.entry(job).or_insert_with(|| {
                bundles.push(SmallVec::new());
                bundles.len() - 1
            });
            bundles[at].push(task);
        }
        bundles
    }

    fn stand(
        &mut self,
        bundle: &[TaskId],
        judge: impl Fn(&Losers<'_>, QueueId, &Amounts, &[DimId]) -> Standing,
    ) -> Standing {
        let Some(&first) = bundle.first() else {
            return Standing::Keeps;
        };
        let record = &self.state.model.tasks[first];
        if !record.job.is_some() {
            return Standing::Keeps;
        }
        let queue = self.state.model.jobs[record.job].queue;
        if queue == self.claim.queue {
            return Standing::Clean;
        }
        let loss = super::requests(self.state, bundle);
        let short = self.short_of(self.state.ledger.node(first));
        let helps = asked(&loss).any(|(dim, _)| short.contains(&dim));
        if helps && queue.is_some() {
            judge(self, queue, &loss, &short)
        } else {
            Standing::Keeps
        }
    }

    fn take(&mut self, bundle: SmallVec<[TaskId; 1]>, chosen: &mut Vec<TaskId>) {
        let Some(&first) = bundle.first() else { return };
        let loss = super::requests(self.state, &bundle);
        let job = self.state.model.tasks[first].job;
        let payers = self.state.model.chain(self.state.model.jobs[job].queue);
        let payers = if self.shares.is_flat() {
            &payers[..payers.len().min(1)]
        } else {
            payers
        };
        for &queue in payers {
            let gone = self.gone.entry(queue).or_default();
            *gone = Amounts::from_pairs(gone.iter().chain(loss.iter()));
        }
        chosen.extend(bundle);
    }

    /// What the claim asks for and a node does not have; all that it asks for where whole gangs go, or where nothing
    /// is short.
    fn short_of(&mut self, node: NodeId) -> ShortDims {
        let (state, claim) = (self.state, self.claim);
        let by_gangs = matches!(claim.means, Means::GangPreempt | Means::GangReclaim);
        let known = self.short.entry(node).or_insert_with(|| {
            let request = state.model.classes.request(state.model.tasks[claim.task].class);
            let lacks = |&(dim, need): &(DimId, i64)| need > state.ledger.future().get(node.index(), dim);
            let short: ShortDims = asked(request).filter(lacks).map(|(dim, _)| dim).collect();
            if short.is_empty() || by_gangs || !node.is_some() {
                asked(request).map(|(dim, _)| dim).collect()
            } else {
                short
            }
        });
        known.clone()
    }

    /// Whether the chosen pods, all on one node, make room for the claim there. What whole gangs free is for the action
    /// to find out: then nobody is left out.
    fn serves(&self, chosen: &[TaskId]) -> bool {
        let Some(&first) = chosen.first() else { return false };
        let node = self.state.ledger.node(first);
        let by_gangs = matches!(self.claim.means, Means::GangPreempt | Means::GangReclaim);
        if by_gangs || !node.is_some() || chosen.iter().any(|&task| self.state.ledger.node(task) != node) {
            return false;
        }
        let freed = super::requests(self.state, chosen);
        let request = self
            .state
            .model
            .classes
            .request(self.state.model.tasks[self.claim.task].class);
        request
            .iter()
            .all(|(dim, need)| need <= self.state.ledger.future().get(node.index(), dim) + freed.get(dim).unwrap_or(0))
    }

    /// The state that is judged.
    pub(in crate::plugin) fn state(&self) -> &State {
        self.state
    }

    /// What a queue has once the chosen pods are gone.
    pub(in crate::plugin) fn left(&self, queue: QueueId, dim: DimId) -> i64 {
        let gone = self.gone.get(&queue).and_then(|gone| gone.get(dim)).unwrap_or(0);
        self.shares.has(self.state, queue, dim) - gone
    }

    /// Whether a queue keeps what is guaranteed to it without this loss.
    pub(in crate::plugin) fn keeps_guarantee(&self, queue: QueueId, loss: &Amounts) -> bool {
        let mut guaranteed = self.state.model.queues[queue].guarantee.iter();
        guaranteed.all(|(dim, kept)| {
            let loss = loss.get(dim).unwrap_or(0);
            loss == 0 || mutant!(TakeGuaranteed) || self.left(queue, dim) - loss >= kept
        })
    }

    /// Whether a queue is due anything that a loss is about.
    pub(in crate::plugin) fn is_due(&self, queue: QueueId, loss: &Amounts) -> bool {
        asked(loss).any(|(dim, _)| self.shares.due(queue, dim).is_some())
    }

    /// How a queue stands by its due: first in the dimensions that are short; where it is due nothing there, in the
    /// others that it would lose; where it is due nothing at all of that, it has no claim to keep it.
    pub(in crate::plugin) fn by_due(&self, queue: QueueId, loss: &Amounts, short: &[DimId]) -> Standing {
        let due = |dim: DimId| self.shares.due(queue, dim);
        let mut about: SmallVec<[(DimId, i64, i64); 4]> = SmallVec::new();
        for only_short in [true, false] {
            if about.is_empty() {
                let counts = |dim: &DimId| !only_short || short.contains(dim);
                let dims = asked(loss).filter(|(dim, _)| counts(dim) && *dim != PODS);
                about.extend(dims.filter_map(|(dim, loss)| due(dim).map(|due| (dim, loss, due))));
            }
        }
        if about.is_empty()
            || mutant!(IgnoreDeserved)
            || about
                .iter()
                .all(|&(dim, loss, due)| self.left(queue, dim) - loss >= due)
        {
            Standing::Clean
        } else if about.iter().any(|&(dim, _, due)| self.left(queue, dim) > due) {
            Standing::Cuts
        } else {
            Standing::Keeps
        }
    }
}
