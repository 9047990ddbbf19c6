//! Finds the best set of nodes for a queue.
//!
//! Nodes with the same numbers are one *kind*, and a set is a count per kind: a cluster of 10,000 nodes has few
//! kinds. Small problems are solved exactly, by trying all counts and leaving out what cannot win. For the others
//! good sets are guessed and then improved step by step. How much is tried is counted, never timed, so that the
//! same problem has the same answer everywhere.

mod climb;
mod exact;
mod seeds;
mod table;

use super::score::Problem;
use table::{Amount, Choice, Goal, Table};

/// The best set that reaches the target in every dimension, as sorted places; `None` if no set does.
///
/// A target of nothing is reached by the fixed nodes alone. Of sets with the same score the one with fewer nodes
/// wins, then the one whose names come first.
pub fn reach(problem: &Problem) -> Option<Vec<usize>> {
    if problem.target.iter().all(|&target| target <= 0) {
        return Some(table::fixed_places(problem));
    }
    solve(problem, None)
}

/// The best set of exactly `count` nodes by [`share_score`](super::share_score), as sorted places; `None` if there
/// is no such set.
pub fn pick(problem: &Problem, count: usize) -> Option<Vec<usize>> {
    solve(problem, Some(count))
}

fn solve(problem: &Problem, count: Option<usize>) -> Option<Vec<usize>> {
    // Sums of nine times the worth of all nodes are the largest numbers that occur.
    let largest = |dimension| problem.total(dimension).saturating_mul(table::MERIT_LIMIT);
    if (0..problem.target.len()).all(|dimension| largest(dimension) < i128::from(i64::MAX) / 2) {
        solve_with::<i64>(problem, count)
    } else {
        solve_with::<i128>(problem, count)
    }
}

fn solve_with<A: Amount>(problem: &Problem, count: Option<usize>) -> Option<Vec<usize>> {
    let goal = Goal::<A>::of(problem, count);
    let table = Table::<A>::of(problem, goal);
    if !table.solvable() {
        return None;
    }
    let found = if table.combinations() <= exact::LIMIT {
        exact::best(&table)
    } else {
        let seeds = seeds::of(&table);
        seeds
            .into_iter()
            .map(|seed| climb::improve(&table, seed))
            .reduce(|best, other| if table.better(&other, &best) { other } else { best })
    };
    found.map(|choice: Choice<A>| table.places(&choice.counts))
}
