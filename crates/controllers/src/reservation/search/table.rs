//! The problem as the search sees it: kinds of nodes, exact sums, and what a choice of counts is worth.

use std::collections::BTreeMap;
use std::ops::{Add, Mul, Sub};

use crate::reservation::score::{EXCESS, IDLE, NODES, Problem, USED};

/// Scores that differ by less are the same: more than arithmetic errs, less than any real difference.
pub(super) const TIE: f64 = 1e-13;

/// What a unit of use and a unit of idleness add to a node's merit: in the proportion of their weights, as integers.
const MERIT_USED: i64 = 7;
const MERIT_IDLE: i64 = 2;
/// A node's merit is at most this many times its worth.
pub(super) const MERIT_LIMIT: i128 = 9;
/// What one unit of merit counts in the score.
const MERIT: f64 = (USED + IDLE) / 9.0;

/// Whole numbers that are large enough for the sums of a problem.
pub(super) trait Amount:
    Copy + Ord + Default + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// The same number; within the range by the choice of the type.
    fn whole(amount: i128) -> Self;
    /// The nearest real number.
    fn real(self) -> f64;
}

impl Amount for i64 {
    fn whole(amount: i128) -> Self {
        Self::try_from(amount).unwrap_or(Self::MAX)
    }

    fn real(self) -> f64 {
        self as f64
    }
}

impl Amount for i128 {
    fn whole(amount: i128) -> Self {
        amount
    }

    fn real(self) -> f64 {
        self as f64
    }
}

/// What is wanted, and what it is worth.
#[derive(Clone, Debug)]
pub(super) struct Goal<A> {
    /// What to reach, per dimension.
    pub(super) target: Vec<A>,
    /// The exact number of nodes, where one is asked for.
    pub(super) count: Option<usize>,
    /// What a unit above the target costs, per dimension.
    pub(super) over: Vec<f64>,
    /// What a node costs.
    pub(super) node: f64,
    /// What merit divided by worth brings in one dimension.
    pub(super) share: f64,
}

impl<A: Amount> Goal<A> {
    /// The goal of a problem: its target, or a number of nodes.
    pub(super) fn of(problem: &Problem, count: Option<usize>) -> Self {
        let dimensions = problem.target.len();
        let wanted = |dimension| match count {
            None => i128::from(problem.target(dimension)),
            Some(_) => 0,
        };
        let over = |dimension| {
            let room = problem.total(dimension) - wanted(dimension);
            let costs = count.is_none() && room > 0;
            if costs {
                EXCESS / dimensions as f64 / room as f64
            } else {
                0.0
            }
        };
        Self {
            target: (0..dimensions).map(|dimension| A::whole(wanted(dimension))).collect(),
            count,
            over: (0..dimensions).map(over).collect(),
            node: NODES / problem.candidates.len().saturating_sub(1).max(1) as f64,
            share: MERIT / dimensions.max(1) as f64,
        }
    }

    /// Whether sums are enough.
    pub(super) fn reached(&self, nodes: usize, sums: &[A]) -> bool {
        self.count.is_none_or(|count| count == nodes) && self.target.iter().zip(sums).all(|(target, sum)| sum >= target)
    }

    /// The score of sums that are enough, but for a constant.
    pub(super) fn value(&self, nodes: usize, sums: &[A]) -> f64 {
        let (worth, merit) = sums.split_at(self.target.len());
        let mut value = -self.node * nodes as f64;
        let dimensions = self.target.iter().zip(&self.over).zip(worth.iter().zip(merit));
        for ((&target, over), (&worth, merit)) in dimensions {
            // Where nothing is worth anything there is no merit either, so that 0/1 stands for 0/0.
            value += self.share * merit.real() / worth.real().max(1.0) - over * (worth - target).real();
        }
        value
    }
}

/// Nodes of the same kind together.
pub(super) struct Table<A> {
    /// What is wanted.
    pub(super) goal: Goal<A>,
    /// The fixed nodes' sums.
    pub(super) base: Vec<A>,
    /// The fixed nodes' places.
    fixed: Vec<usize>,
    /// Per kind the places of its nodes, in order.
    kinds: Vec<Vec<usize>>,
    /// Per kind, worth in each dimension and then merit in each dimension.
    rows: Vec<A>,
}

/// How many nodes of each kind, and what that comes to.
#[derive(Clone, Debug)]
pub(super) struct Choice<A> {
    pub(super) counts: Vec<usize>,
    /// How many nodes, the fixed ones included.
    pub(super) nodes: usize,
    pub(super) sums: Vec<A>,
    pub(super) value: f64,
}

/// The places of the nodes that every set contains.
pub(super) fn fixed_places(problem: &Problem) -> Vec<usize> {
    let exists = |place: &usize| *place < problem.candidates.len();
    let mut places: Vec<usize> = problem.fixed.iter().copied().filter(exists).collect();
    places.sort_unstable();
    places.dedup();
    places
}

impl<A: Amount> Table<A> {
    /// Groups the nodes of a problem.
    pub(super) fn of(problem: &Problem, goal: Goal<A>) -> Self {
        let dimensions = problem.target.len();
        let row = |place: usize| -> Vec<A> {
            let amounts = |dimension| problem.candidates.get(place).map(|node| node.amounts(dimension));
            let worths = (0..dimensions).map(|dimension| amounts(dimension).map_or(0, |have| i128::from(have.worth)));
            let merits = (0..dimensions).map(|dimension| {
                amounts(dimension).map_or(0, |have| {
                    i128::from(MERIT_USED) * i128::from(have.used) + i128::from(MERIT_IDLE) * i128::from(have.idle)
                })
            });
            worths.chain(merits).map(A::whole).collect()
        };
        let fixed = fixed_places(problem);
        let mut base = vec![A::default(); 2 * dimensions];
        for &place in &fixed {
            add(&mut base, &row(place));
        }
        let mut places: BTreeMap<Vec<A>, Vec<usize>> = BTreeMap::new();
        for place in (0..problem.candidates.len()).filter(|place| fixed.binary_search(place).is_err()) {
            places.entry(row(place)).or_default().push(place);
        }
        let mut kinds: Vec<(Vec<A>, Vec<usize>)> = places.into_iter().collect();
        kinds.sort_by(|(_, one), (_, other)| one.cmp(other));
        Self {
            goal,
            base,
            fixed,
            rows: kinds.iter().flat_map(|(row, _)| row.iter().copied()).collect(),
            kinds: kinds.into_iter().map(|(_, places)| places).collect(),
        }
    }

    /// How many kinds there are.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// How many nodes of a kind there are.
    pub(super) fn limit(&self, kind: usize) -> usize {
        self.kinds.get(kind).map_or(0, Vec::len)
    }

    /// What a node of a kind has.
    pub(super) fn row(&self, kind: usize) -> &[A] {
        let width = self.base.len();
        self.rows.get(kind * width..(kind + 1) * width).unwrap_or_default()
    }

    /// How many choices there are.
    pub(super) fn combinations(&self) -> usize {
        let choices = self.kinds.iter().map(|places| places.len() + 1);
        choices.fold(1, usize::saturating_mul)
    }

    /// Whether any set is enough.
    pub(super) fn solvable(&self) -> bool {
        let free: usize = self.kinds.iter().map(Vec::len).sum();
        if let Some(count) = self.goal.count {
            return (self.fixed.len()..=self.fixed.len() + free).contains(&count);
        }
        let all = self.choice((0..self.len()).map(|kind| self.limit(kind)).collect());
        self.goal.reached(all.nodes, &all.sums)
    }

    /// What counts come to.
    pub(super) fn choice(&self, counts: Vec<usize>) -> Choice<A> {
        let mut sums = self.base.clone();
        for (kind, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            let times = A::whole(count as i128);
            for (sum, &amount) in sums.iter_mut().zip(self.row(kind)) {
                *sum = *sum + amount * times;
            }
        }
        let nodes = self.fixed.len() + counts.iter().sum::<usize>();
        let value = self.goal.value(nodes, &sums);
        Choice {
            counts,
            nodes,
            sums,
            value,
        }
    }

    /// Whether one choice that is enough beats another: by score, then fewer nodes, then names.
    pub(super) fn better(&self, one: &Choice<A>, other: &Choice<A>) -> bool {
        if (one.value - other.value).abs() > TIE {
            return one.value > other.value;
        }
        self.comes_first(one, other)
    }

    /// Whether one of two choices of the same value goes before the other: fewer nodes, then names.
    pub(super) fn comes_first(&self, one: &Choice<A>, other: &Choice<A>) -> bool {
        let names = || self.places(&one.counts) < self.places(&other.counts);
        one.nodes < other.nodes || one.nodes == other.nodes && names()
    }

    /// The nodes of a choice: of each kind the first ones, and the fixed ones.
    pub(super) fn places(&self, counts: &[usize]) -> Vec<usize> {
        let chosen = self
            .kinds
            .iter()
            .zip(counts)
            .flat_map(|(places, &count)| places.iter().take(count));
        let mut places: Vec<usize> = chosen.chain(&self.fixed).copied().collect();
        places.sort_unstable();
        places
    }
}

/// Adds a row to sums.
pub(super) fn add<A: Amount>(sums: &mut [A], row: &[A]) {
    for (sum, &amount) in sums.iter_mut().zip(row) {
        *sum = *sum + amount;
    }
}

/// Takes a row from sums.
pub(super) fn take<A: Amount>(sums: &mut [A], row: &[A]) {
    for (sum, &amount) in sums.iter_mut().zip(row) {
        *sum = *sum - amount;
    }
}
