//! The best choice of all, by trying all of them but those that cannot win.

use super::goal::{Amount, TIE};
use super::table::{Choice, Table, add};

/// As many choices are tried at most: 17 nodes that are all different.
pub(super) const LIMIT: usize = 1 << 17;

/// The best choice, if any is enough.
pub(super) fn best<A: Amount>(table: &Table<A>) -> Option<Choice<A>> {
    let mut search = Search::new(table);
    let base = table.none();
    let mut stack = base.sums.repeat(table.len() + 1);
    search.descend(0, base.nodes, &mut stack);
    search.best
}

/// What the kinds from some place on can still bring.
#[derive(Clone)]
struct Rest<A> {
    /// The worth of all of them.
    worth: Vec<A>,
    /// The best merit of a unit of worth, per dimension.
    ratio: Vec<f64>,
    /// How many nodes there are.
    nodes: usize,
}

struct Search<'a, A> {
    table: &'a Table<A>,
    rests: Vec<Rest<A>>,
    counts: Vec<u32>,
    best: Option<Choice<A>>,
    /// The highest value seen, which the best choice can miss by a tie.
    highest: f64,
}

impl<'a, A: Amount> Search<'a, A> {
    fn new(table: &'a Table<A>) -> Self {
        let dimensions = table.goal.target.len();
        let mut rest = Rest {
            worth: vec![A::default(); dimensions],
            ratio: vec![0.0; dimensions],
            nodes: 0,
        };
        let mut rests = vec![rest.clone()];
        for kind in (0..table.len()).rev() {
            let (worth, merit) = table.row(kind).split_at(dimensions);
            add(&mut rest.worth, worth, table.limit(kind));
            rest.nodes += table.limit(kind) as usize;
            for ((ratio, worth), merit) in rest.ratio.iter_mut().zip(worth).zip(merit) {
                *ratio = ratio.max(merit.real() / worth.real().max(1.0));
            }
            rests.push(rest.clone());
        }
        rests.reverse();
        Self {
            table,
            rests,
            counts: vec![0; table.len()],
            best: None,
            highest: f64::NEG_INFINITY,
        }
    }

    /// Tries all counts of the kinds from `kind` on; the sums so far are the first row of `stack`.
    fn descend(&mut self, kind: usize, nodes: usize, stack: &mut [A]) {
        let table = self.table;
        let width = 2 * table.goal.target.len();
        let Some((sums, deeper)) = stack.split_at_mut_checked(width) else {
            return;
        };
        if !self.hopeful(kind, nodes, sums) {
            return;
        }
        if kind == table.len() {
            self.offer(nodes, sums);
            return;
        }
        for count in 0..=table.limit(kind) {
            if let Some(next) = deeper.get_mut(..width) {
                next.copy_from_slice(sums);
                add(next, table.row(kind), count);
            }
            if let Some(slot) = self.counts.get_mut(kind) {
                *slot = count;
            }
            self.descend(kind + 1, nodes + count as usize, deeper);
        }
    }

    /// Whether a choice that begins like this can be enough and can win.
    fn hopeful(&self, kind: usize, nodes: usize, sums: &[A]) -> bool {
        let Some(rest) = self.rests.get(kind) else {
            return false;
        };
        let goal = &self.table.goal;
        let (worth, merit) = sums.split_at(goal.target.len());
        let numbers = goal
            .count
            .is_none_or(|count| nodes <= count && count <= nodes + rest.nodes);
        let mut amounts = goal.target.iter().zip(worth).zip(&rest.worth);
        if !numbers || amounts.any(|((&target, &worth), &rest)| worth + rest < target) {
            return false;
        }
        // More nodes never cost less, and no ratio rises above the best of its parts.
        let mut bound = -goal.node * nodes.max(goal.count.unwrap_or(0)) as f64;
        let dimensions = goal
            .target
            .iter()
            .zip(&goal.over)
            .zip(worth.iter().zip(merit))
            .zip(&rest.ratio);
        for (((&target, over), (&worth, merit)), ratio) in dimensions {
            let excess = (worth - target).real().max(0.0);
            bound += goal.share * (merit.real() / worth.real().max(1.0)).max(*ratio) - over * excess;
        }
        bound >= self.highest - TIE
    }

    fn offer(&mut self, nodes: usize, sums: &[A]) {
        let value = self.table.goal.value(nodes, sums);
        if !self.table.goal.reached(nodes, sums) || value < self.highest - TIE {
            return;
        }
        let choice = Choice {
            counts: self.counts.clone(),
            nodes,
            sums: sums.to_vec(),
            value,
        };
        let wins = |best: &Choice<A>| value > self.highest + TIE || self.table.comes_first(&choice, best);
        if self.best.as_ref().is_none_or(wins) {
            self.best = Some(choice);
        }
        self.highest = self.highest.max(value);
    }
}
