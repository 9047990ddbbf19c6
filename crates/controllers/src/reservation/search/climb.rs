//! Improves a choice by one node more, one less, or one for another, as long as that helps.

use super::table::{Amount, Choice, TIE, Table, add, take};

/// As many changes are tried at most.
const STEPS: usize = 200_000;

impl<A: Amount> Choice<A> {
    /// One node of a kind more or less; the value is left as it was.
    pub(super) fn change(&mut self, table: &Table<A>, kind: usize, more: bool) {
        let Some(count) = self.counts.get_mut(kind) else {
            return;
        };
        if more {
            *count += 1;
            self.nodes += 1;
            add(&mut self.sums, table.row(kind));
        } else {
            *count = count.saturating_sub(1);
            self.nodes = self.nodes.saturating_sub(1);
            take(&mut self.sums, table.row(kind));
        }
    }
}

/// The choice that no single change improves, or where the steps ended.
pub(super) fn improve<A: Amount>(table: &Table<A>, mut choice: Choice<A>) -> Choice<A> {
    let mut steps = STEPS;
    while let Some(better) = once(table, &choice, &mut steps) {
        choice = better;
    }
    choice
}

/// The best of all single changes, if it helps.
fn once<A: Amount>(table: &Table<A>, choice: &Choice<A>, steps: &mut usize) -> Option<Choice<A>> {
    let mut best = (choice.value + TIE, None);
    let room = |kind: usize| choice.counts.get(kind).is_some_and(|&count| count < table.limit(kind));
    let held = |kind: usize| choice.counts.get(kind).is_some_and(|&count| count > 0);
    let gone = std::iter::once(None).chain((0..table.len()).filter(|&kind| held(kind)).map(Some));
    let mut sums = choice.sums.clone();
    for out in gone {
        let come = std::iter::once(None).chain((0..table.len()).filter(|&kind| room(kind)).map(Some));
        for come in come.filter(|come| *come != out) {
            *steps = steps.checked_sub(1)?;
            sums.copy_from_slice(&choice.sums);
            for &kind in out.iter() {
                take(&mut sums, table.row(kind));
            }
            for &kind in come.iter() {
                add(&mut sums, table.row(kind));
            }
            let nodes = choice.nodes + usize::from(come.is_some()) - usize::from(out.is_some());
            if table.goal.reached(nodes, &sums) {
                let value = table.goal.value(nodes, &sums);
                if value > best.0 {
                    best = (value, Some((out, come)));
                }
            }
        }
    }
    let (out, come) = best.1?;
    let mut better = choice.clone();
    for &kind in out.iter() {
        better.change(table, kind, false);
    }
    for &kind in come.iter() {
        better.change(table, kind, true);
    }
    better.value = table.goal.value(better.nodes, &better.sums);
    Some(better)
}
