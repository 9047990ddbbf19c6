//! Makes a small set the best of its neighbours: no node more, less or exchanged for any other improves it.
//!
//! For sets of a few nodes the guesses are at their weakest, and trying all changes is cheap.

use super::goal::{Amount, TIE};
use super::table::{Choice, Table, add, take};

/// As many changes are tried at most; a round of them that does not fit is not begun.
const STEPS: usize = 25_000;

/// The choice that no single change improves, or where the steps end.
pub(super) fn improve<A: Amount>(table: &Table<A>, mut choice: Choice<A>) -> Choice<A> {
    let mut steps = STEPS;
    while let Some((gone, come)) = best_change(table, &choice, &mut steps) {
        let mut counts = std::mem::take(&mut choice.counts);
        if let Some(count) = gone.and_then(|kind| counts.get_mut(kind)) {
            *count -= 1;
        }
        if let Some(count) = come.and_then(|kind| counts.get_mut(kind)) {
            *count += 1;
        }
        choice = table.choice(counts);
    }
    choice
}

/// One node of a kind leaves, and one of another comes; of these the best, if it helps.
fn best_change<A: Amount>(
    table: &Table<A>,
    choice: &Choice<A>,
    steps: &mut usize,
) -> Option<(Option<usize>, Option<usize>)> {
    let count = |kind: usize| choice.counts.get(kind).copied().unwrap_or(0);
    let held = (0..table.len()).filter(|&kind| count(kind) > 0).map(Some);
    let held: Vec<Option<usize>> = held.chain([None]).collect();
    let open = (0..table.len())
        .filter(|&kind| count(kind) < table.limit(kind))
        .map(Some);
    let open: Vec<Option<usize>> = open.chain([None]).collect();
    *steps = steps.checked_sub(held.len().saturating_mul(open.len()))?;
    let mut best = None;
    let mut highest = choice.value + TIE;
    let (mut less, mut next) = (choice.sums.clone(), choice.sums.clone());
    for &gone in &held {
        less.copy_from_slice(&choice.sums);
        if let Some(kind) = gone {
            take(&mut less, table.row(kind), 1);
        }
        for &come in &open {
            next.copy_from_slice(&less);
            if let Some(kind) = come {
                add(&mut next, table.row(kind), 1);
            }
            let nodes = choice.nodes + usize::from(come.is_some()) - usize::from(gone.is_some());
            if table.goal.reached(nodes, &next) {
                let value = table.goal.value(nodes, &next);
                if value > highest {
                    (highest, best) = (value, Some((gone, come)));
                }
            }
        }
    }
    best
}
