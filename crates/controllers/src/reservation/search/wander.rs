//! Improves a choice by small changes that may be worse at first: a little less is accepted in the beginning, nothing
//! in the end, and the best choice on the way is kept.
//!
//! Which change is tried next comes from a fixed row of numbers, so that the same problem has the same answer.

use std::ops::Range;

use super::goal::{Amount, TIE};
use super::table::{Choice, Table};

/// How often one walks; only once where there are more nodes than this: among many, one matters less.
const WALKS: u64 = 3;
const MANY: usize = 2_000;
/// As many changes are tried on each walk.
const STEPS: usize = 20_000;
/// In so many stages less and less is accepted.
const STAGES: usize = 100;
/// What remains of it from one stage to the next.
const COOLING: f64 = 0.92;
/// From this stage on nothing worse is accepted.
const CALM: usize = 80;
/// As many changes tell how much is accepted in the beginning.
const SAMPLES: usize = 64;

/// A row of numbers that look random and are always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// The upper half of `roll` as a number below `limit`.
fn below(roll: u64, limit: usize) -> usize {
    (((roll >> 32) * limit as u64) >> 32) as usize
}

/// Kinds, and where each of them stands among them.
struct Members {
    list: Vec<usize>,
    at: Vec<usize>,
}

impl Members {
    fn of(kinds: usize, belongs: impl Fn(usize) -> bool) -> Self {
        let mut members = Self {
            list: Vec::new(),
            at: vec![usize::MAX; kinds],
        };
        for kind in (0..kinds).filter(|&kind| belongs(kind)) {
            members.update(kind, true);
        }
        members
    }

    /// One of them.
    fn any(&self, roll: u64) -> Option<usize> {
        self.list.get(below(roll, self.list.len())).copied()
    }

    fn update(&mut self, kind: usize, belongs: bool) {
        let Some(at) = self.at.get_mut(kind) else {
            return;
        };
        match (*at == usize::MAX, belongs) {
            (true, true) => {
                *at = self.list.len();
                self.list.push(kind);
            }
            (false, false) => {
                let place = std::mem::replace(at, usize::MAX);
                self.list.swap_remove(place);
                if let Some(moved) = self.list.get(place).and_then(|&moved| self.at.get_mut(moved)) {
                    *moved = place;
                }
            }
            _ => {}
        }
    }
}

/// At most so many kinds change in one step.
const WIDTH: usize = 4;

/// Kinds, and how many nodes of each come or leave.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    parts: [(usize, i64); WIDTH],
    len: usize,
}

impl Step {
    fn parts(&self) -> &[(usize, i64)] {
        self.parts.get(..self.len).unwrap_or_default()
    }

    /// One more change; not of a kind that changes already.
    fn push(&mut self, kind: usize, change: i64) -> Option<()> {
        if self.parts().iter().any(|(other, _)| *other == kind) {
            return None;
        }
        *self.parts.get_mut(self.len)? = (kind, change);
        self.len += 1;
        Some(())
    }
}

struct Walk<'a, A> {
    table: &'a Table<A>,
    now: Choice<A>,
    /// The sums after the step that is being tried.
    next: Vec<A>,
    /// Kinds that have nodes inside, and such that have nodes outside.
    inside: Members,
    outside: Members,
    dice: Dice,
}

/// The best choice near one that is enough, of several walks; `of` so many nodes.
pub(super) fn improve<A: Amount>(table: &Table<A>, of: usize, start: Choice<A>) -> Choice<A> {
    let mut best = start.clone();
    let walks = if of > MANY { 1 } else { WALKS };
    for walk in 0..walks {
        walk_from(table, start.clone(), walk, &mut best);
    }
    best
}

/// One walk.
fn walk_from<A: Amount>(table: &Table<A>, start: Choice<A>, number: u64, best: &mut Choice<A>) {
    let mut walk = Walk::new(table, start, number);
    let mut accepted = walk.usual_difference();
    for stage in 0..STAGES {
        for _ in 0..STEPS / STAGES {
            let Some((step, value)) = walk.try_any() else {
                continue;
            };
            if value > walk.now.value - accepted {
                walk.go(step, value);
                if value > best.value + TIE {
                    best.clone_from(&walk.now);
                }
            }
        }
        accepted = if stage + 1 < CALM { accepted * COOLING } else { 0.0 };
    }
}

impl<'a, A: Amount> Walk<'a, A> {
    fn new(table: &'a Table<A>, now: Choice<A>, number: u64) -> Self {
        let count = |kind: usize| now.counts.get(kind).copied().unwrap_or(0);
        Self {
            inside: Members::of(table.len(), |kind| count(kind) > 0),
            outside: Members::of(table.len(), |kind| count(kind) < table.limit(kind)),
            next: now.sums.clone(),
            table,
            now,
            dice: Dice(0x9E37_79B9_7F4A_7C15 ^ number << 32),
        }
    }

    /// How much a change changes, about.
    fn usual_difference(&mut self) -> f64 {
        let now = self.now.value;
        let tried = (0..SAMPLES).filter_map(|_| self.try_any().map(|(_, value)| (value - now).abs()));
        let tried: Vec<f64> = tried.collect();
        tried.iter().sum::<f64>() / tried.len().max(1) as f64
    }

    /// Some change that leaves enough, with what it comes to.
    fn try_any(&mut self) -> Option<(Step, f64)> {
        let roll = self.dice.roll();
        // Mostly one for another; also one or two for one or two, one less, one more.
        let (gone, come) = match (self.table.goal.count.is_some(), roll & 7) {
            (false, 0) => (1, 0),
            (false, 1) => (0, 1),
            (false, 2) => (2, 1),
            (false, 3) => (1, 2),
            (_, 4) => (2, 2),
            _ => (1, 1),
        };
        let size = 1 << (roll >> 32).trailing_ones().min(12);
        let mut step = Step::default();
        for _ in 0..gone {
            let kind = self.inside.any(self.dice.roll())?;
            step.push(kind, -size.min(self.count(kind)))?;
        }
        for _ in 0..come {
            let kind = self.outside.any(self.dice.roll())?;
            step.push(kind, size.min(i64::from(self.table.limit(kind)) - self.count(kind)))?;
        }
        // What is not enough, which is often, needs no merit.
        let dimensions = self.table.goal.target.len();
        let nodes = self.sum_up(step, 0..dimensions);
        if !self.table.goal.reached(nodes, &self.next) {
            return None;
        }
        self.sum_up(step, dimensions..2 * dimensions);
        Some((step, self.table.goal.value(nodes, &self.next)))
    }

    fn count(&self, kind: usize) -> i64 {
        self.now.counts.get(kind).copied().map_or(0, i64::from)
    }

    /// Some of the sums after a step; returns the number of nodes.
    fn sum_up(&mut self, step: Step, which: Range<usize>) -> usize {
        let mut nodes = self.now.nodes.cast_signed() as i64;
        let sums = self.now.sums.get(which.clone()).unwrap_or_default();
        let next = self.next.get_mut(which.clone()).unwrap_or_default();
        next.copy_from_slice(sums);
        for &(kind, change) in step.parts() {
            nodes += change;
            let row = self.table.row(kind).get(which.clone()).unwrap_or_default();
            for (next, &amount) in next.iter_mut().zip(row) {
                *next = *next + amount * A::from(change);
            }
        }
        usize::try_from(nodes).unwrap_or(0)
    }

    fn go(&mut self, step: Step, value: f64) {
        self.now.nodes = self.sum_up(step, 0..self.now.sums.len());
        self.now.sums.copy_from_slice(&self.next);
        self.now.value = value;
        for &(kind, change) in step.parts() {
            let count = u32::try_from(self.count(kind) + change).unwrap_or(0);
            if let Some(slot) = self.now.counts.get_mut(kind) {
                *slot = count;
            }
            self.inside.update(kind, count > 0);
            self.outside.update(kind, count < self.table.limit(kind));
        }
    }
}
