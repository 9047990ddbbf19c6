//! How good a set of nodes is for a queue.
//!
//! `0.40·(1−E) + 0.35·U + 0.15·(1−(n−1)/(N−1)) + 0.10·I`: little more than the target (E), much in use by the queue
//! already (U), few nodes of the N that there are (n), much idle (I). Each of the four is in 0..1.

use smallvec::SmallVec;

/// What a set that is no larger than asked for counts.
pub(super) const EXCESS: f64 = 0.40;
/// What nodes count that the queue uses already.
pub(super) const USED: f64 = 0.35;
/// What few nodes count.
pub(super) const NODES: f64 = 0.15;
/// What idle nodes count.
pub(super) const IDLE: f64 = 0.10;

/// One number per dimension. A guarantee names few, and every node has three of these for every queue in every round: they
/// lie beside each other, not each somewhere else.
pub type Figures = SmallVec<[i64; 4]>;

/// One node as the optimiser sees it: one number per target dimension.
///
/// Negative amounts count as 0, and so do missing ones. What is used by the queue and what is idle are parts of
/// the worth: more than the worth counts as the worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// What the node can give to the queue.
    pub worth: Figures,
    /// What the queue uses of it already.
    pub used: Figures,
    /// What nobody uses.
    pub idle: Figures,
}

/// The nodes to choose from, and what they have to give together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// What to reach, per dimension.
    pub target: Vec<i64>,
    /// The nodes, in the order of their names.
    pub candidates: Vec<Candidate>,
    /// Places in `candidates` that every set contains: a parent's children's nodes. Places outside are no nodes.
    pub fixed: Vec<usize>,
}

/// One dimension of one node, with used and idle inside worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amounts {
    pub(super) worth: i64,
    pub(super) used: i64,
    pub(super) idle: i64,
}

impl Candidate {
    /// What it has in a dimension.
    pub(super) fn amounts(&self, dimension: usize) -> Amounts {
        let at = |amounts: &[i64]| amounts.get(dimension).copied().unwrap_or(0).max(0);
        let worth = at(&self.worth);
        Amounts {
            worth,
            used: at(&self.used).min(worth),
            idle: at(&self.idle).min(worth),
        }
    }
}

/// The sums of one dimension over a set; 2^64 nodes of 2^63 would be needed to leave the range.
#[derive(Default)]
struct Sums {
    worth: i128,
    used: i128,
    idle: i128,
}

impl Problem {
    /// What all candidates are worth together, per dimension.
    pub(super) fn totals(&self) -> Vec<i128> {
        let mut totals = vec![0; self.target.len()];
        for node in &self.candidates {
            for (dimension, total) in totals.iter_mut().enumerate() {
                *total += i128::from(node.amounts(dimension).worth);
            }
        }
        totals
    }

    /// The places of the nodes that every set contains, in order.
    pub(super) fn fixed_places(&self) -> Vec<usize> {
        let exists = |place: &usize| *place < self.candidates.len();
        let mut places: Vec<usize> = self.fixed.iter().copied().filter(exists).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// What is to be reached in a dimension.
    pub(super) fn target(&self, dimension: usize) -> i64 {
        self.target.get(dimension).copied().unwrap_or(0).max(0)
    }

    fn sums(&self, set: &[usize], dimension: usize) -> Sums {
        let mut sums = Sums::default();
        for node in set.iter().filter_map(|&place| self.candidates.get(place)) {
            let amounts = node.amounts(dimension);
            sums.worth += i128::from(amounts.worth);
            sums.used += i128::from(amounts.used);
            sums.idle += i128::from(amounts.idle);
        }
        sums
    }

    /// The mean over the target's dimensions.
    fn mean(&self, of: impl Fn(usize) -> f64) -> f64 {
        let dimensions = self.target.len();
        if dimensions == 0 {
            return 0.0;
        }
        (0..dimensions).map(of).sum::<f64>() / dimensions as f64
    }
}

/// The score of a set, given as places without repetition. A set that does not reach the target has no excess.
pub fn score(problem: &Problem, set: &[usize]) -> f64 {
    let totals = problem.totals();
    let excess = problem.mean(|dimension| {
        let total = totals.get(dimension).copied().unwrap_or(0);
        let target = i128::from(problem.target(dimension));
        let sum = problem.sums(set, dimension).worth;
        part((sum - target).max(0), total - target)
    });
    EXCESS * (1.0 - excess) + share_score(problem, set)
}

/// The score of a set without its excess: how sets of a given number of nodes compare.
pub fn share_score(problem: &Problem, set: &[usize]) -> f64 {
    let used = problem.mean(|dimension| {
        let sums = problem.sums(set, dimension);
        part(sums.used, sums.worth)
    });
    let idle = problem.mean(|dimension| {
        let sums = problem.sums(set, dimension);
        part(sums.idle, sums.worth)
    });
    let others = |nodes: usize| nodes.saturating_sub(1) as i128;
    let nodes = part(others(set.len()), others(problem.candidates.len()));
    USED * used + NODES * (1.0 - nodes) + IDLE * idle
}

/// A part of a whole; of nothing, no part.
fn part(part: i128, whole: i128) -> f64 {
    if whole <= 0 { 0.0 } else { part as f64 / whole as f64 }
}
