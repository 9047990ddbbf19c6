//! First guesses: nodes in the order of what they bring for what they cover, until it is enough.
//!
//! Near a set the score is nearly linear: every node has a gain, and covers a part of what is missing. A guess takes
//! the nodes with the best gain per cover. What covering a unit is worth in each dimension is found by turns, so that
//! the dimensions that are hard to reach decide; and the next guess is made near the one before.

use super::goal::{Amount, Goal};
use super::table::{Choice, Table, add};

/// How many guesses are made.
const ROUNDS: usize = 6;
/// Of more kinds than this about so many are looked at, until the prices are known.
const SAMPLE: usize = 512;
/// How many guesses are made with these prices.
const AFTER_SAMPLE: usize = 2;
/// How often two dimensions exchange price before the next two do.
const EXCHANGES: usize = 2;
/// Of the kinds that bring something beyond what is needed, so many are tried.
const BEYOND: usize = 256;
/// A kind of many nodes is tried in so many parts.
const PARTS: u32 = 8;
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

/// What one unit brings and costs near a choice, per dimension.
struct Prices {
    merit: Vec<f64>,
    worth: Vec<f64>,
    node: f64,
}

impl Prices {
    fn near<A: Amount>(goal: &Goal<A>, about: &[f64]) -> Self {
        let (sums, merits) = about.split_at(goal.target.len());
        let dimensions = goal.target.iter().zip(&goal.over).zip(sums.iter().zip(merits));
        let (merit, worth) = dimensions
            .map(|((target, over), (sum, merit))| {
                let sum = sum.max(target.real()).max(1.0);
                (goal.share / sum, goal.share * merit / sum / sum + over)
            })
            .unzip();
        Self {
            merit,
            worth,
            node: goal.node,
        }
    }

    /// What a node brings.
    fn gain<A: Amount>(&self, row: &[A]) -> f64 {
        let (_, merit) = row.split_at(self.merit.len());
        let brings = self.merit.iter().zip(merit).map(|(price, merit)| price * merit.real());
        brings.sum::<f64>() - self.cost(row)
    }

    /// What a node costs.
    fn cost<A: Amount>(&self, row: &[A]) -> f64 {
        let costs = self.worth.iter().zip(row).map(|(price, worth)| price * worth.real());
        costs.sum::<f64>() + self.node
    }
}

/// What has to be covered: the dimensions that the fixed nodes leave open, and the number of nodes, if one is asked
/// for.
struct Needs {
    /// How much is missing, per dimension; the number of nodes comes last.
    missing: Vec<f64>,
    /// What covering a unit is worth.
    prices: Vec<f64>,
    /// The dimensions in the order of how large a part of all nodes they need: the others often follow.
    turns: Vec<usize>,
}

impl Needs {
    fn of<A: Amount>(table: &Table<A>) -> Self {
        let (none, all) = (table.none(), table.all());
        let dimensions = table.goal.target.len();
        let nodes = table.goal.count.map_or(0, |count| count.saturating_sub(none.nodes));
        let open = table.goal.target.iter().zip(&none.sums);
        let missing = open.map(|(&target, &have)| (target - have).real().max(0.0));
        let missing: Vec<f64> = missing.chain([nodes as f64]).collect();
        let there = amounts(&all.sums, dimensions, all.nodes as f64);
        let parts = missing
            .iter()
            .zip(there)
            .map(|(missing, there)| missing / there.max(1.0));
        let mut turns: Vec<(f64, usize)> = parts.zip(0..).filter(|turn| turn.0 > 0.0).collect();
        turns.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        Self {
            prices: vec![0.0; missing.len()],
            missing,
            turns: turns.into_iter().map(|(_, dimension)| dimension).collect(),
        }
    }

    /// What a node covers is worth so much.
    fn cover<A: Amount>(&self, row: &[A]) -> f64 {
        let amounts = amounts(row, self.missing.len() - 1, 1.0);
        let needs = self.prices.iter().zip(&self.missing);
        let worths = needs
            .zip(amounts)
            .map(|((price, missing), amount)| price * amount.min(*missing));
        worths.sum()
    }

    /// Finds the prices at which just enough nodes are worth having: along each dimension alone, and from one dimension
    /// to another, for dimensions that the same nodes cover have many prices that are nearly right. `values` are what
    /// the kinds bring, and then bring and cover.
    fn settle<A: Amount>(&mut self, table: &Table<A>, values: &mut [f64], offers: &mut Vec<(f64, f64)>) {
        for (row, value) in table.rows().zip(values.iter_mut()) {
            let covers = amounts(row, self.missing.len() - 1, 1.0).zip(&self.prices);
            *value += covers.map(|(amount, price)| amount * price).sum::<f64>();
        }
        let turns = self.turns.clone();
        for (place, &one) in turns.iter().enumerate() {
            self.search(table, (one, None), values, offers);
            for &other in turns.iter().take(place) {
                for _ in 0..EXCHANGES {
                    self.search(table, (one, Some(other)), values, offers);
                    self.search(table, (other, None), values, offers);
                    self.search(table, (one, None), values, offers);
                }
            }
        }
    }

    /// Moves the price of one dimension, and that of another against it, to where just enough nodes are worth having.
    fn search<A: Amount>(
        &mut self,
        table: &Table<A>,
        (one, other): (usize, Option<usize>),
        values: &mut [f64],
        offers: &mut Vec<(f64, f64)>,
    ) {
        let dimensions = self.missing.len() - 1;
        let unit = |place: usize| 1.0 / self.missing.get(place).copied().unwrap_or(1.0);
        let (rise, fall) = (unit(one), other.map_or(0.0, unit));
        let slope = |row: &[A]| {
            let amount = |place: usize| {
                row.get(place)
                    .filter(|_| place < dimensions)
                    .map_or(1.0, |worth| worth.real())
            };
            rise * amount(one) - other.map_or(0.0, |other| fall * amount(other))
        };
        // Both missing amounts are one in their unit.
        let mut missing = if other.is_some() { 0.0 } else { 1.0 };
        offers.clear();
        for ((row, value), kind) in table.rows().zip(values.iter()).zip(0..) {
            let slope = slope(row);
            if slope != 0.0 {
                let covers = slope.abs() * f64::from(table.limit(kind));
                offers.push((value / slope, covers));
                missing += if slope < 0.0 { covers } else { 0.0 };
            }
        }
        let price = |place: usize| self.prices.get(place).copied().unwrap_or(0.0);
        let most = other.map_or(f64::INFINITY, |other| price(other) / fall);
        let step = (-last_taken(offers, missing)).clamp(-price(one) / rise, most);
        for (row, value) in table.rows().zip(values.iter_mut()) {
            *value += step * slope(row);
        }
        for (place, change) in [(Some(one), step * rise), (other, -step * fall)] {
            if let Some(price) = place.and_then(|place| self.prices.get_mut(place)) {
                *price = (*price + change).max(0.0);
            }
        }
    }
}

/// The worth in each dimension, and then the number of nodes: what can be covered.
fn amounts<A: Amount>(sums: &[A], dimensions: usize, nodes: f64) -> impl Iterator<Item = f64> {
    let worths = sums.iter().take(dimensions).map(|worth| worth.real());
    worths.chain([nodes])
}

/// Takes offers (value per unit, units), the best first, until so much is covered; the value of the last one.
fn last_taken(offers: &mut [(f64, f64)], mut missing: f64) -> f64 {
    let better = |one: &(f64, f64), other: &(f64, f64)| other.0.total_cmp(&one.0);
    let mut left = offers;
    while left.len() > SMALL {
        let half = left.len() / 2;
        left.select_nth_unstable_by(half, better);
        let (good, poor) = left.split_at_mut(half);
        let covered: f64 = good.iter().map(|offer| offer.1).sum();
        if covered >= missing {
            left = good;
        } else {
            missing -= covered;
            left = poor;
        }
    }
    left.sort_unstable_by(better);
    let mut last = 0.0;
    for &(value, covers) in left.iter() {
        last = value;
        missing -= covers;
        if missing <= 0.0 {
            break;
        }
    }
    last
}

/// The best of some guesses; `None` only if no set is enough.
pub(super) fn best<A: Amount>(table: &Table<A>) -> Option<Seed<A>> {
    let mut guesses = Guesses::new(table, Needs::of(table));
    let Some((sample, part)) = table.sample(SAMPLE) else {
        (0..ROUNDS).for_each(|_| guesses.next(true));
        return guesses.seed();
    };
    let mut rehearsal = Guesses::new(&sample, Needs::of(&sample));
    (0..ROUNDS).for_each(|_| rehearsal.next(true));
    // In a part of the nodes a unit brings more in the same proportion for all kinds: only the sums are turned back.
    guesses.needs.prices = rehearsal.needs.prices;
    guesses.about = rehearsal.about.iter().map(|sum| sum / part).collect();
    (0..AFTER_SAMPLE).for_each(|_| guesses.next(false));
    guesses.seed()
}

/// Guesses, each near the one before.
struct Guesses<'a, A> {
    table: &'a Table<A>,
    needs: Needs,
    /// The sums of the last guess.
    about: Vec<f64>,
    /// The best one, with what changing the number of nodes of each kind loses.
    best: Option<(Choice<A>, Vec<f64>)>,
    gains: Vec<f64>,
    values: Vec<f64>,
    offers: Vec<(f64, f64)>,
    order: Vec<(f64, usize)>,
}

impl<'a, A: Amount> Guesses<'a, A> {
    fn new(table: &'a Table<A>, needs: Needs) -> Self {
        Self {
            about: table.none().sums.iter().map(|sum| sum.real()).collect(),
            table,
            needs,
            best: None,
            gains: Vec::with_capacity(table.len()),
            values: Vec::new(),
            offers: Vec::with_capacity(table.len()),
            order: Vec::with_capacity(table.len()),
        }
    }

    /// One more guess, with new prices of what is missing or with those that are there.
    fn next(&mut self, settle: bool) {
        let table = self.table;
        let prices = Prices::near(&table.goal, &self.about);
        self.gains.clear();
        self.gains.extend(table.rows().map(|row| prices.gain(row)));
        if settle {
            self.values.clone_from(&self.gains);
            self.needs.settle(table, &mut self.values, &mut self.offers);
        }
        let needs = &self.needs;
        let rated = table.rows().zip(&self.gains).zip(0..);
        self.order.clear();
        self.order
            .extend(rated.map(|((row, gain), kind)| (density(*gain, needs.cover(row)), kind)));
        let (choice, last) = fill(table, &mut self.order, table.none());
        let choice = extend(table, &prices, &self.gains, choice);
        self.about = choice.sums.iter().map(|sum| sum.real()).collect();
        let reached = table.goal.reached(choice.nodes, &choice.sums);
        if reached && self.best.as_ref().is_none_or(|(best, _)| choice.value > best.value) {
            let rated = table.rows().zip(&self.gains);
            let losses = rated.map(|(row, gain)| (gain - last * needs.cover(row)).abs());
            self.best = Some((choice, losses.collect()));
        }
    }

    fn seed(self) -> Option<Seed<A>> {
        let (choice, losses) = self.best?;
        let near = near(losses);
        Some(Seed { choice, near })
    }
}

/// What is gained per cover; what covers nothing comes first or last.
fn density(gain: f64, cover: f64) -> f64 {
    if cover > 0.0 { gain / cover } else { gain * f64::MAX }
}

/// The kinds that matter least, whether inside or not.
fn near(losses: Vec<f64>) -> Vec<usize> {
    let mut losses: Vec<(f64, usize)> = losses.into_iter().zip(0..).collect();
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

/// Adds what brings more than it costs although it is not needed, as long as the score rises.
fn extend<A: Amount>(table: &Table<A>, prices: &Prices, gains: &[f64], start: Choice<A>) -> Choice<A> {
    if table.goal.count.is_some() {
        return start;
    }
    let open = |kind: usize| start.counts.get(kind).is_some_and(|&count| count < table.limit(kind));
    let rated = table.rows().zip(gains).enumerate();
    let useful = rated.filter(|&(kind, (_, gain))| *gain > 0.0 && open(kind));
    let mut order: Vec<(f64, usize)> = useful
        .map(|(kind, (row, gain))| (gain / prices.cost(row), kind))
        .collect();
    let better = |one: &(f64, usize), other: &(f64, usize)| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1));
    if order.len() > BEYOND {
        order.select_nth_unstable_by(BEYOND, better);
        order.truncate(BEYOND);
    }
    order.sort_unstable_by(better);
    let (mut best, mut choice) = (start.clone(), start);
    for (_, kind) in order {
        for _ in 0..PARTS {
            let there = choice.counts.get(kind).copied().unwrap_or(0);
            let count = table.limit(kind).div_ceil(PARTS).min(table.limit(kind) - there);
            add(&mut choice.sums, table.row(kind), count);
            choice.nodes += count as usize;
            set(&mut choice, kind, there + count);
            choice.value = table.goal.value(choice.nodes, &choice.sums);
            if choice.value > best.value {
                best.clone_from(&choice);
            }
        }
    }
    best
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
