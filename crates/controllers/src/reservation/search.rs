//! Finds the best set of nodes for a queue.
//!
//! Nodes with the same numbers are one *kind*, and a set is a count per kind: a cluster of 10,000 nodes has few
//! kinds. Small problems are solved [exactly](exact), by trying all counts and leaving out what cannot win. For the
//! others good sets are [guessed](seeds), and the best of them is [improved](wander) by small changes; a set of few nodes
//! is held against all its [neighbours](polish). How much is tried is counted, never timed, so that the same problem
//! has the same answer everywhere.

mod exact;
mod goal;
mod polish;
mod seeds;
mod table;
mod wander;

use super::score::Problem;
use goal::{Amount, Goal};
use table::Table;

/// The best set that reaches the target in every dimension, as sorted places; `None` if no set does.
///
/// A target of nothing is reached by the fixed nodes alone. Of sets with the same score the one with fewer nodes
/// wins, then the one whose names come first.
pub fn reach(problem: &Problem) -> Option<Vec<usize>> {
    if problem.target.iter().all(|&target| target <= 0) {
        return Some(problem.fixed_places());
    }
    solve(problem, None)
}

/// The best set of exactly `count` nodes by [`share_score`](super::share_score), as sorted places; `None` if there
/// is no such set.
pub fn pick(problem: &Problem, count: usize) -> Option<Vec<usize>> {
    solve(problem, Some(count))
}

fn solve(problem: &Problem, count: Option<usize>) -> Option<Vec<usize>> {
    let totals = problem.totals();
    if totals.iter().all(|&total| goal::fits(total)) {
        solve_with::<i64>(problem, &totals, count)
    } else {
        solve_with::<i128>(problem, &totals, count)
    }
}

fn solve_with<A: Amount>(problem: &Problem, totals: &[i128], count: Option<usize>) -> Option<Vec<usize>> {
    let table = Table::<A>::of(problem, Goal::of(problem, totals, count));
    if !table.solvable() {
        return None;
    }
    let found = if table.combinations() <= exact::LIMIT {
        exact::best(&table)
    } else {
        seeds::best(&table).map(|seed| {
            let near = table.part(&seed.near, &seed.choice);
            let start = near.choice(seed.choice.counts_of(&seed.near));
            let better = wander::improve(&near, problem.candidates.len(), start);
            polish::improve(&table, table.merged(&seed.near, seed.choice, &better))
        })
    };
    found.map(|choice| table.places(&choice.counts))
}
