//! What is wanted, and what sums over a set are worth: the score as the search computes it, again and again.

use std::hash::Hash;
use std::ops::{Add, Mul, Sub};

use crate::reservation::score::{EXCESS, IDLE, NODES, Problem, USED};

/// Scores that differ by less are the same: more than arithmetic errs, less than any real difference.
pub(super) const TIE: f64 = 1e-13;

/// What a unit of use and a unit of idleness add to a node's merit: in the proportion of their weights, as integers.
const MERIT_USED: u32 = 7;
const MERIT_IDLE: u32 = 2;
/// What one unit of merit counts in the score.
const MERIT: f64 = (USED + IDLE) / (MERIT_USED + MERIT_IDLE) as f64;

/// Whole numbers that are large enough for the sums of a problem.
pub(super) trait Amount:
    Copy + Ord + Default + Hash + From<i64> + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    /// The nearest real number.
    fn real(self) -> f64;
}

impl Amount for i64 {
    fn real(self) -> f64 {
        self as f64
    }
}

impl Amount for i128 {
    fn real(self) -> f64 {
        self as f64
    }
}

/// Whether sums stay within `i64` where all nodes together are worth so much: merit is the largest number.
pub(super) fn fits(total: i128) -> bool {
    total < i128::from(i64::MAX) / i128::from(2 * (MERIT_USED + MERIT_IDLE))
}

/// What a node that is used and idle so much brings.
pub(super) fn merit_of<A: Amount>(used: i64, idle: i64) -> A {
    A::from(used) * A::from(i64::from(MERIT_USED)) + A::from(idle) * A::from(i64::from(MERIT_IDLE))
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
    pub(super) fn of(problem: &Problem, totals: &[i128], count: Option<usize>) -> Self {
        let dimensions = problem.target.len();
        let wanted = |dimension: usize| if count.is_some() { 0 } else { problem.target(dimension) };
        let over = |(dimension, total): (usize, &i128)| {
            let room = total - i128::from(wanted(dimension));
            let costs = count.is_none() && room > 0;
            if costs {
                EXCESS / dimensions as f64 / room as f64
            } else {
                0.0
            }
        };
        Self {
            target: (0..dimensions).map(|dimension| A::from(wanted(dimension))).collect(),
            count,
            over: totals.iter().enumerate().map(over).collect(),
            node: NODES / problem.candidates.len().saturating_sub(1).max(1) as f64,
            share: MERIT / dimensions.max(1) as f64,
        }
    }

    /// Whether sums are enough; more nodes than asked for are.
    pub(super) fn covered(&self, nodes: usize, sums: &[A]) -> bool {
        self.count.is_none_or(|count| count <= nodes) && self.target.iter().zip(sums).all(|(target, sum)| sum >= target)
    }

    /// Whether sums are what is wanted.
    pub(super) fn reached(&self, nodes: usize, sums: &[A]) -> bool {
        self.covered(nodes, sums) && self.count.is_none_or(|count| count == nodes)
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
