//! Improves a choice by small changes that may be worse at first: a little less is accepted in the beginning, nothing
//! in the end, and the best choice on the way is kept.
//!
//! Which change is tried next comes from a fixed row of numbers, so that the same problem has the same answer.

use super::goal::{Amount, TIE};
use super::table::{Choice, Table};

/// As many changes are tried.
const STEPS: usize = 100_000;
/// After so many changes less is accepted.
const STAGE: usize = 1_000;
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

/// So many nodes of one kind leave, so many of another come.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    gone: (usize, u32),
    come: (usize, u32),
    /// How many nodes there are then.
    nodes: usize,
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

/// The best choice near one that is enough.
pub(super) fn improve<A: Amount>(table: &Table<A>, start: Choice<A>) -> Choice<A> {
    let mut best = start.clone();
    let mut walk = Walk::new(table, start);
    let mut accepted = walk.usual_difference();
    let stages = STEPS / STAGE;
    for stage in 0..stages {
        if stage * 5 >= stages * 4 {
            accepted = 0.0;
        }
        for _ in 0..STAGE {
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
        accepted *= 0.92;
    }
    best
}

impl<'a, A: Amount> Walk<'a, A> {
    fn new(table: &'a Table<A>, now: Choice<A>) -> Self {
        let count = |kind: usize| now.counts.get(kind).copied().unwrap_or(0);
        Self {
            inside: Members::of(table.len(), |kind| count(kind) > 0),
            outside: Members::of(table.len(), |kind| count(kind) < table.limit(kind)),
            next: now.sums.clone(),
            table,
            now,
            dice: Dice(0x9E37_79B9_7F4A_7C15),
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
        let (one, other) = (self.dice.roll(), self.dice.roll());
        let exact = self.table.goal.count.is_some();
        // Of eight changes six are one for another, one is less, and one is more.
        let kinds = match one & 7 {
            0 if !exact => (self.inside.any(one), None),
            1 if !exact => (None, self.outside.any(other)),
            _ => (self.inside.any(one), self.outside.any(other)),
        };
        let step = self.step(kinds, 1 << (other as u32).trailing_ones().min(12))?;
        self.sum_up(step);
        let enough = self.table.goal.reached(step.nodes, &self.next);
        enough.then(|| (step, self.table.goal.value(step.nodes, &self.next)))
    }

    /// A step from one kind to another, of at most so many nodes.
    fn step(&self, (gone, come): (Option<usize>, Option<usize>), size: u32) -> Option<Step> {
        if gone == come {
            return None;
        }
        let count = |kind: usize| self.now.counts.get(kind).copied().unwrap_or(0);
        let gone = gone.map_or((0, 0), |kind| (kind, size.min(count(kind))));
        let come = come.map_or((0, 0), |kind| (kind, size.min(self.table.limit(kind) - count(kind))));
        let nodes = self.now.nodes + come.1 as usize - gone.1 as usize;
        Some(Step { gone, come, nodes })
    }

    fn sum_up(&mut self, step: Step) {
        let (less, more) = (i64::from(step.gone.1), i64::from(step.come.1));
        let rows = self.table.row(step.gone.0).iter().zip(self.table.row(step.come.0));
        for ((next, &now), (&gone, &come)) in self.next.iter_mut().zip(&self.now.sums).zip(rows) {
            *next = now + come * A::from(more) - gone * A::from(less);
        }
    }

    fn go(&mut self, step: Step, value: f64) {
        self.now.sums.copy_from_slice(&self.next);
        self.now.nodes = step.nodes;
        self.now.value = value;
        for (kind, less, more) in [(step.gone.0, step.gone.1, 0), (step.come.0, 0, step.come.1)] {
            if less + more > 0
                && let Some(count) = self.now.counts.get_mut(kind)
            {
                *count = *count + more - less;
                let (some, all) = (*count > 0, *count == self.table.limit(kind));
                self.inside.update(kind, some);
                self.outside.update(kind, !all);
            }
        }
    }
}
