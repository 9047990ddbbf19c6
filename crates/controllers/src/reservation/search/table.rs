//! The nodes by kind, and sets of them as counts.

use std::hash::BuildHasher;
use std::ops::Range;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::goal::{Amount, Goal, merit_of};
use crate::reservation::score::{Candidate, Problem};

/// Multiplied by this, numbers that are near each other lie far apart.
const SCATTER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Nodes of the same kind together.
#[derive(Clone, Debug)]
pub(super) struct Table<A> {
    /// What is wanted.
    pub(super) goal: Goal<A>,
    /// What is inside in any case: the number of nodes, and their sums.
    nodes: usize,
    base: Vec<A>,
    /// Their places.
    fixed: Vec<usize>,
    /// All other places, those of a kind together and in order.
    places: Vec<usize>,
    /// Per kind, where its places are among them.
    kinds: Vec<Range<usize>>,
    /// Per kind, worth in each dimension and then merit in each dimension.
    rows: Vec<A>,
}

/// How many nodes of each kind, and what that comes to.
#[derive(Clone, Debug)]
pub(super) struct Choice<A> {
    pub(super) counts: Vec<u32>,
    /// How many nodes, the fixed ones included.
    pub(super) nodes: usize,
    pub(super) sums: Vec<A>,
    pub(super) value: f64,
}

impl<A> Choice<A> {
    /// How many nodes it has of some kinds.
    pub(super) fn counts_of(&self, kinds: &[usize]) -> Vec<u32> {
        let count = |&kind: &usize| self.counts.get(kind).copied().unwrap_or(0);
        kinds.iter().map(count).collect()
    }
}

impl<A: Amount> Table<A> {
    /// Groups the nodes of a problem.
    pub(super) fn of(problem: &Problem, goal: Goal<A>) -> Self {
        let width = 2 * problem.target.len();
        let fixed = problem.fixed_places();
        let mut table = Self {
            goal,
            nodes: fixed.len(),
            base: vec![A::default(); width],
            places: Vec::with_capacity(problem.candidates.len()),
            kinds: Vec::new(),
            rows: Vec::new(),
            fixed,
        };
        let mut row = vec![A::default(); width];
        let mut members: Vec<(usize, usize)> = Vec::with_capacity(problem.candidates.len());
        // By hash: kinds are compared, and of two that share one the second is not found again, which costs time only.
        let mut seen: FxHashMap<u64, usize> = FxHashMap::default();
        let mut fixed = table.fixed.iter().peekable();
        let mut kinds = 0;
        for (place, node) in problem.candidates.iter().enumerate() {
            write_row(node, &mut row);
            if fixed.next_if_eq(&&place).is_some() {
                add(&mut table.base, &row, 1);
                continue;
            }
            let hash = FxBuildHasher.hash_one(&row);
            let known = seen
                .get(&hash)
                .copied()
                .filter(|&kind| table.row(kind) == row.as_slice());
            let kind = known.unwrap_or(kinds);
            if known.is_none() {
                table.rows.extend_from_slice(&row);
                seen.entry(hash).or_insert(kind);
                kinds += 1;
            }
            members.push((kind, place));
        }
        // Stable, so that the places of a kind stay in order.
        members.sort_by_key(|(kind, _)| *kind);
        for kind in members.chunk_by(|one, other| one.0 == other.0) {
            let begin = table.places.len();
            table.places.extend(kind.iter().map(|(_, place)| *place));
            table.kinds.push(begin..table.places.len());
        }
        table
    }

    /// The problem that is left when only some kinds may change from a choice.
    pub(super) fn part(&self, kinds: &[usize], choice: &Choice<A>) -> Self {
        let mut part = Self {
            goal: self.goal.clone(),
            nodes: choice.nodes,
            base: choice.sums.clone(),
            fixed: Vec::new(),
            places: Vec::new(),
            kinds: Vec::with_capacity(kinds.len()),
            rows: Vec::with_capacity(kinds.len() * self.base.len()),
        };
        for (&kind, count) in kinds.iter().zip(choice.counts_of(kinds)) {
            let places = self.kinds.get(kind).cloned().unwrap_or_default();
            let begin = part.places.len();
            part.places
                .extend_from_slice(self.places.get(places).unwrap_or_default());
            part.kinds.push(begin..part.places.len());
            part.rows.extend_from_slice(self.row(kind));
            part.nodes -= count as usize;
            take(&mut part.base, self.row(kind), count);
        }
        part
    }

    /// About so many kinds of more than twice as many, chosen evenly, with a goal that is smaller in proportion; and
    /// the proportion.
    pub(super) fn sample(&self, kinds: usize) -> Option<(Self, f64)> {
        let every = self.len() / kinds.max(1);
        if every < 2 {
            return None;
        }
        // Names repeat in rows of racks and zones: neighbours are not taken by a fixed distance.
        let chosen = |kind: &usize| (*kind as u64).wrapping_mul(SCATTER) >> 32 & 0xFFFF < 0x10000 / every as u64;
        let chosen: Vec<usize> = (0..self.len()).filter(chosen).collect();
        let mut sample = self.part(&chosen, &self.none());
        let part = sample.places.len() as f64 / self.places.len().max(1) as f64;
        let (all, there) = (self.all(), sample.all());
        for (place, target) in sample.goal.target.iter_mut().enumerate() {
            let total = |sums: &[A]| sums.get(place).map_or(0.0, |sum| sum.real());
            let free = |choice: &Choice<A>| (total(&choice.sums) - total(&self.base)).max(0.0);
            let part = free(&there) / free(&all).max(1.0);
            // Approximate, as the sample is.
            *target = A::from((target.real() * part) as i64);
        }
        for base in &mut sample.base {
            *base = A::from((base.real() * part) as i64);
        }
        sample.nodes = (sample.nodes as f64 * part) as usize;
        sample.goal.count = sample.goal.count.map(|count| (count as f64 * part) as usize);
        sample.goal.node /= part;
        sample.goal.over.iter_mut().for_each(|over| *over /= part);
        Some((sample, part))
    }

    /// A choice, changed to what was found for some kinds.
    pub(super) fn merged(&self, kinds: &[usize], choice: Choice<A>, found: &Choice<A>) -> Choice<A> {
        let mut counts = choice.counts;
        for (&kind, &count) in kinds.iter().zip(&found.counts) {
            if let Some(slot) = counts.get_mut(kind) {
                *slot = count;
            }
        }
        self.choice(counts)
    }

    /// How many kinds there are.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// How many nodes of a kind there are.
    pub(super) fn limit(&self, kind: usize) -> u32 {
        self.kinds.get(kind).map_or(0, |places| places.len() as u32)
    }

    /// What a node of a kind has.
    pub(super) fn row(&self, kind: usize) -> &[A] {
        let width = self.base.len();
        self.rows.get(kind * width..(kind + 1) * width).unwrap_or_default()
    }

    /// What all kinds have, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[A]> {
        self.rows.chunks_exact(self.base.len().max(1))
    }

    /// How many choices there are.
    pub(super) fn combinations(&self) -> usize {
        let choices = self.kinds.iter().map(|places| places.len() + 1);
        choices.fold(1, usize::saturating_mul)
    }

    /// Whether any set is enough.
    pub(super) fn solvable(&self) -> bool {
        let all = self.all();
        self.goal.covered(all.nodes, &all.sums) && self.goal.count.is_none_or(|count| self.nodes <= count)
    }

    /// The choice of no node but the fixed ones.
    pub(super) fn none(&self) -> Choice<A> {
        self.choice(vec![0; self.len()])
    }

    /// The choice of all nodes.
    pub(super) fn all(&self) -> Choice<A> {
        self.choice((0..self.len()).map(|kind| self.limit(kind)).collect())
    }

    /// What counts come to.
    pub(super) fn choice(&self, counts: Vec<u32>) -> Choice<A> {
        let mut sums = self.base.clone();
        let mut nodes = self.nodes;
        for (kind, &count) in counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            add(&mut sums, self.row(kind), count);
            nodes += count as usize;
        }
        let value = self.goal.value(nodes, &sums);
        Choice {
            counts,
            nodes,
            sums,
            value,
        }
    }

    /// Whether one of two choices of the same value goes before the other: fewer nodes, then names.
    pub(super) fn comes_first(&self, one: &Choice<A>, other: &Choice<A>) -> bool {
        let names = || self.places(&one.counts) < self.places(&other.counts);
        one.nodes < other.nodes || one.nodes == other.nodes && names()
    }

    /// The nodes of a choice: of each kind the first ones, and the fixed ones.
    pub(super) fn places(&self, counts: &[u32]) -> Vec<usize> {
        let chosen = self.kinds.iter().zip(counts).flat_map(|(places, &count)| {
            let places = self.places.get(places.clone()).unwrap_or_default();
            places.iter().take(count as usize)
        });
        let mut places: Vec<usize> = chosen.chain(&self.fixed).copied().collect();
        places.sort_unstable();
        places
    }
}

/// Writes what a node has: worth in each dimension, and then merit in each dimension.
fn write_row<A: Amount>(node: &Candidate, row: &mut [A]) {
    let (worths, merits) = row.split_at_mut(row.len() / 2);
    for (dimension, (worth, merit)) in worths.iter_mut().zip(merits).enumerate() {
        let amounts = node.amounts(dimension);
        *worth = A::from(amounts.worth);
        *merit = merit_of(amounts.used, amounts.idle);
    }
}

/// Adds some nodes of a kind to sums.
pub(super) fn add<A: Amount>(sums: &mut [A], row: &[A], count: u32) {
    let count = A::from(i64::from(count));
    for (sum, &amount) in sums.iter_mut().zip(row) {
        *sum = *sum + amount * count;
    }
}

/// Takes some nodes of a kind from sums.
pub(super) fn take<A: Amount>(sums: &mut [A], row: &[A], count: u32) {
    let count = A::from(i64::from(count));
    for (sum, &amount) in sums.iter_mut().zip(row) {
        *sum = *sum - amount * count;
    }
}
