//! First guesses: nodes in the order of what they bring for what they cover, until it is enough.
//!
//! Near a set, the score is nearly linear: every node has a gain, and covers a part of what is needed. A guess takes
//! the nodes with the best gain per cover. The next guess is made near the one before, and a dimension that came out
//! too large counts less.

use super::goal::Amount;
use super::table::{Choice, Table, add};

/// How many guesses are made.
const ROUNDS: usize = 7;
/// So few kinds are put in order at once.
const SMALL: usize = 16;
/// As many kinds are looked at again after the guess.
const NEAR: usize = 256;

/// A good set to begin from.
pub(super) struct Seed<A> {
    pub(super) choice: Choice<A>,
    /// The kinds of which a node more or less changes little, in order.
    pub(super) near: Vec<usize>,
}

/// What one unit counts, per dimension.
struct Prices {
    merit: Vec<f64>,
    worth: Vec<f64>,
    cover: Vec<f64>,
    /// More than is missing covers nothing.
    missing: Vec<f64>,
    node: f64,
    /// What a node covers by being one.
    one: f64,
}

impl Prices {
    fn of<A: Amount>(table: &Table<A>, weights: &[f64], about: &Choice<A>, none: &Choice<A>) -> Self {
        let goal = &table.goal;
        let mut prices = Self {
            merit: Vec::new(),
            worth: Vec::new(),
            cover: Vec::new(),
            missing: Vec::new(),
            node: goal.node,
            one: if goal.count.is_some() { 1.0 } else { 0.0 },
        };
        let (sums, merits) = about.sums.split_at(goal.target.len());
        let dimensions = goal.target.iter().zip(&none.sums).zip(sums.iter().zip(merits));
        for (((&target, &have), (sum, merit)), (over, weight)) in dimensions.zip(goal.over.iter().zip(weights)) {
            let sum = sum.real().max(target.real()).max(1.0);
            let missing = (target - have).real().max(0.0);
            prices.merit.push(goal.share / sum);
            prices.worth.push(goal.share * merit.real() / sum / sum + over);
            prices.cover.push(if missing > 0.0 { weight / missing } else { 0.0 });
            prices.missing.push(missing);
        }
        prices
    }

    /// What a node brings, and what it covers.
    fn rate<A: Amount>(&self, row: &[A]) -> (f64, f64) {
        let (worth, merit) = row.split_at(self.merit.len());
        let (mut gain, mut cover) = (-self.node, self.one);
        let amounts = worth.iter().zip(merit).zip(self.merit.iter().zip(&self.worth));
        for (((worth, merit), (bring, cost)), (unit, missing)) in amounts.zip(self.cover.iter().zip(&self.missing)) {
            let worth = worth.real();
            gain += bring * merit.real() - cost * worth;
            cover += unit * worth.min(*missing);
        }
        (gain, cover)
    }
}

/// The best of some guesses; `None` only if no set is enough.
pub(super) fn best<A: Amount>(table: &Table<A>) -> Option<Seed<A>> {
    let none = table.none();
    let mut weights = vec![1.0; table.goal.target.len()];
    let mut order = Vec::with_capacity(table.len());
    let mut about = none.clone();
    let mut best: Option<(Choice<A>, Prices, f64)> = None;
    for _ in 0..ROUNDS {
        let prices = Prices::of(table, &weights, &about, &none);
        order.clear();
        order.extend(table.rows().enumerate().map(|(kind, row)| {
            let (gain, cover) = prices.rate(row);
            let density = if cover > 0.0 { gain / cover } else { f64::NEG_INFINITY };
            (density, kind)
        }));
        let (choice, last) = fill(table, &mut order, none.clone());
        for ((weight, &target), &sum) in weights.iter_mut().zip(&table.goal.target).zip(&choice.sums) {
            *weight *= (target.real() / sum.real().max(1.0)).max(0.05);
        }
        about = choice.clone();
        let reached = table.goal.reached(choice.nodes, &choice.sums);
        if reached && best.as_ref().is_none_or(|(best, _, _)| choice.value > best.value) {
            best = Some((choice, prices, last));
        }
    }
    best.map(|(choice, prices, last)| Seed {
        near: near(table, &prices, last),
        choice,
    })
}

/// The kinds that matter least, whether inside or not: those about as dense as the last one taken.
fn near<A: Amount>(table: &Table<A>, prices: &Prices, last: f64) -> Vec<usize> {
    let loss = |(kind, row)| {
        let (gain, cover) = prices.rate(row);
        ((gain - last * cover).abs(), kind)
    };
    let mut losses: Vec<(f64, usize)> = table.rows().enumerate().map(loss).collect();
    if losses.len() > NEAR {
        losses.select_nth_unstable_by(NEAR, |one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        losses.truncate(NEAR);
    }
    let mut kinds: Vec<usize> = losses.into_iter().map(|(_, kind)| kind).collect();
    kinds.sort_unstable();
    kinds
}

/// Takes the densest kinds until it is enough; says how dense the last one was.
fn fill<A: Amount>(table: &Table<A>, order: &mut [(f64, usize)], mut choice: Choice<A>) -> (Choice<A>, f64) {
    let denser = |one: &(f64, usize), other: &(f64, usize)| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1));
    let mut left = order;
    // The denser half is enough, and the rest is not needed; or it is taken whole.
    while left.len() > SMALL {
        let half = left.len() / 2;
        left.select_nth_unstable_by(half, denser);
        let (dense, thin) = left.split_at_mut(half);
        let mut sums = choice.sums.clone();
        let mut nodes = choice.nodes;
        for &(_, kind) in dense.iter() {
            add(&mut sums, table.row(kind), table.limit(kind));
            nodes += table.limit(kind) as usize;
        }
        if table.goal.covered(nodes, &sums) {
            left = dense;
        } else {
            (choice.sums, choice.nodes) = (sums, nodes);
            for &(_, kind) in dense.iter() {
                set(&mut choice, kind, table.limit(kind));
            }
            left = thin;
        }
    }
    left.sort_unstable_by(denser);
    let mut last = 0.0;
    for &(density, kind) in left.iter() {
        if table.goal.covered(choice.nodes, &choice.sums) {
            break;
        }
        last = density;
        let count = enough(table, &choice, kind);
        add(&mut choice.sums, table.row(kind), count);
        choice.nodes += count as usize;
        set(&mut choice, kind, count);
    }
    choice.value = table.goal.value(choice.nodes, &choice.sums);
    (choice, last)
}

fn set<A>(choice: &mut Choice<A>, kind: usize, count: u32) {
    if let Some(slot) = choice.counts.get_mut(kind) {
        *slot = count;
    }
}

/// The fewest nodes of a kind that are enough, or all of them.
fn enough<A: Amount>(table: &Table<A>, choice: &Choice<A>, kind: usize) -> u32 {
    let (mut low, mut high) = (1, table.limit(kind));
    while low < high {
        let middle = low.midpoint(high);
        let mut sums = choice.sums.clone();
        add(&mut sums, table.row(kind), middle);
        if table.goal.covered(choice.nodes + middle as usize, &sums) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    high
}
