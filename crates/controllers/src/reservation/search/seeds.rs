//! First guesses: nodes in the order of what they bring for what they cover, until it is enough.

use super::table::{Amount, Choice, Table};

/// How often a guess is made again, with what the last one came to.
const ROUNDS: usize = 4;

/// Good sets to begin from, each of them enough.
pub(super) fn of<A: Amount>(table: &Table<A>) -> Vec<Choice<A>> {
    let dimensions = table.goal.target.len();
    let mut needs: Vec<Vec<f64>> = vec![vec![1.0; dimensions]];
    if dimensions > 1 {
        let alone = |dimension: usize| {
            (0..dimensions)
                .map(|other| if other == dimension { 1.0 } else { 0.01 })
                .collect()
        };
        needs.extend((0..dimensions).map(alone));
    }
    let mut seeds = Vec::new();
    for need in needs {
        let mut about = table.choice(vec![0; table.len()]);
        for _ in 0..ROUNDS {
            let seed = fill(table, &need, &about);
            about = seed.clone();
            if table.goal.reached(seed.nodes, &seed.sums) {
                seeds.push(seed);
            }
        }
    }
    seeds
}

/// Takes nodes in the order of their density until it is enough.
fn fill<A: Amount>(table: &Table<A>, need: &[f64], about: &Choice<A>) -> Choice<A> {
    let mut order: Vec<(f64, usize)> = (0..table.len())
        .map(|kind| (density(table, need, about, kind), kind))
        .collect();
    order.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut choice = table.choice(vec![0; table.len()]);
    for (_, kind) in order {
        for _ in 0..table.limit(kind) {
            if table.goal.reached(choice.nodes, &choice.sums) {
                return table.choice(choice.counts);
            }
            choice.change(table, kind, true);
        }
    }
    table.choice(choice.counts)
}

/// What a node of a kind adds to the score per unit of need that it covers, near a choice.
fn density<A: Amount>(table: &Table<A>, need: &[f64], about: &Choice<A>, kind: usize) -> f64 {
    let goal = &table.goal;
    let dimensions = goal.target.len();
    let (worth, merit) = table.row(kind).split_at(dimensions);
    let (sums, merits) = about.sums.split_at(dimensions);
    let mut gain = -goal.node;
    let mut cover = 0.0;
    for dimension in 0..dimensions {
        let at = |amounts: &[A]| amounts.get(dimension).map_or(0.0, |amount| amount.real());
        let target = at(&goal.target).max(1.0);
        let sum = at(sums).max(target);
        let over = goal.over.get(dimension).copied().unwrap_or(0.0);
        gain += goal.share * (at(merit) - at(merits) / sum * at(worth)) / sum - over * at(worth);
        cover += need.get(dimension).copied().unwrap_or(0.0) * (at(worth) / target).min(1.0);
    }
    match goal.count {
        Some(_) => gain,
        None if cover > 0.0 => gain / cover,
        None => f64::NEG_INFINITY,
    }
}
