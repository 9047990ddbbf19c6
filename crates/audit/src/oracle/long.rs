//! A long search for cases with many nodes: simulated annealing, again and again, as long as the caller allows.

use super::{Aim, Case, Found, Judge, Sums};

/// Moves between two questions to the caller.
const STRETCH: u32 = 4_096;
/// Temperatures of a run, from one that forgives almost everything to one that forgives nothing.
const HOT: f64 = 0.05;
const COLD: f64 = 1e-7;
/// Stretches of the first run; each further one is longer.
const FIRST_RUN: u32 = 16;
const LONGEST_RUN: u32 = 1_024;
/// What a missing whole of the target costs.
const SHORT: f64 = 2.0;

/// The best set that was found until `goes_on` says no; it is asked every few thousand moves. The same seed and the same
/// answers give the same set. None: not one set that suffices was seen.
pub fn long_search(case: &Case, seed: u64, mut goes_on: impl FnMut() -> bool) -> Option<Found> {
    let judge = Judge::new(case);
    let free: Vec<usize> = (0..case.places.len())
        .filter(|node| !case.fixed.contains(node))
        .collect();
    let mut dice = Dice(seed);
    let mut best: Option<Found> = None;
    let mut stretches = FIRST_RUN;
    for run in 0_u64.. {
        // Every other run begins with the best so far, and no longer hot.
        let from = best.as_ref().filter(|_| run % 2 == 1);
        let hot = if from.is_some() { HOT / 50.0 } else { HOT };
        let mut walk = Walk::begin(&judge, &free, from.map(|found| found.nodes.as_slice()), &mut dice);
        walk.note(&mut best);
        for stretch in 0..stretches {
            if !goes_on() {
                return best;
            }
            let done = f64::from(stretch) / f64::from(stretches);
            let heat = hot * (COLD / hot).powf(done);
            for _ in 0..STRETCH {
                walk.step(heat, &mut dice);
                walk.note(&mut best);
            }
        }
        stretches = LONGEST_RUN.min(stretches * 2);
    }
    best
}

/// Numbers that look random: the same from the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// Within 0 and 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A set on its way: what is in comes first in `order`.
struct Walk<'a> {
    judge: &'a Judge<'a>,
    order: Vec<usize>,
    inside: usize,
    sums: Sums,
    value: f64,
}

impl<'a> Walk<'a> {
    fn begin(judge: &'a Judge<'a>, free: &[usize], from: Option<&[usize]>, dice: &mut Dice) -> Self {
        let mut walk = Self {
            judge,
            order: free.to_vec(),
            inside: 0,
            sums: Sums::nothing(judge.case.dims()),
            value: 0.0,
        };
        let case = judge.case;
        for &node in &case.fixed {
            walk.sums.add(&case.places[node]);
        }
        for at in (1..walk.order.len()).rev() {
            walk.order.swap(at, dice.below(at + 1));
        }
        if let Some(nodes) = from {
            let (inside, outside): (Vec<_>, Vec<_>) = walk.order.iter().partition(|node| nodes.contains(node));
            walk.inside = inside.len();
            walk.order = [inside, outside].concat();
            for at in 0..walk.inside {
                walk.sums.add(&case.places[walk.order[at]]);
            }
        } else {
            while walk.inside < walk.order.len() && !walk.is_enough() {
                walk.sums.add(&case.places[walk.order[walk.inside]]);
                walk.inside += 1;
            }
        }
        walk.value = walk.worth();
        walk
    }

    fn is_enough(&self) -> bool {
        match &self.judge.case.aim {
            Aim::Amount(_) => self.judge.suffices(&self.sums),
            Aim::Count(count) => self.sums.count >= *count,
        }
    }

    /// The score, less what is missing.
    fn worth(&self) -> f64 {
        let score = self.judge.score(&self.sums);
        let Aim::Amount(target) = &self.judge.case.aim else {
            return score;
        };
        let short = self.sums.worth.iter().zip(target);
        let short: f64 = short
            .map(|(have, need)| super::ratio((need - have).max(0), (*need).max(1)))
            .sum();
        score - SHORT * short
    }

    /// One move: a node comes, goes, or is replaced by another.
    fn step(&mut self, heat: f64, dice: &mut Dice) {
        let outside = self.order.len() - self.inside;
        let kind = match self.judge.case.aim {
            Aim::Count(_) => 2,
            Aim::Amount(_) => dice.below(4),
        };
        let leaves = (kind != 0 && self.inside > 0).then(|| dice.below(self.inside));
        let comes = (kind != 1 && outside > 0).then(|| self.inside + dice.below(outside));
        if kind >= 2 && (leaves.is_none() || comes.is_none()) {
            return;
        }
        if kind == 1 && self.sums.count <= 1 {
            return;
        }
        let places = &self.judge.case.places;
        if let Some(at) = leaves {
            self.sums.remove(&places[self.order[at]]);
        }
        if let Some(at) = comes {
            self.sums.add(&places[self.order[at]]);
        }
        let value = self.worth();
        let gain = value - self.value;
        if gain < 0.0 && (gain / heat).exp() < dice.part() {
            if let Some(at) = leaves {
                self.sums.add(&places[self.order[at]]);
            }
            if let Some(at) = comes {
                self.sums.remove(&places[self.order[at]]);
            }
            return;
        }
        self.value = value;
        match (leaves, comes) {
            (Some(out), Some(into)) => self.order.swap(out, into),
            (Some(out), None) => {
                self.inside -= 1;
                self.order.swap(out, self.inside);
            }
            (None, Some(into)) => {
                self.order.swap(into, self.inside);
                self.inside += 1;
            }
            (None, None) => {}
        }
    }

    /// Keeps the set if it is the best so far.
    fn note(&self, best: &mut Option<Found>) {
        let better = best.as_ref().is_none_or(|best| self.value > best.score);
        if !better || self.sums.count == 0 || !self.judge.suffices(&self.sums) {
            return;
        }
        let mut nodes = self.judge.case.fixed.clone();
        nodes.extend(&self.order[..self.inside]);
        nodes.sort_unstable();
        *best = Some(Found {
            score: self.value,
            nodes,
        });
    }
}
