//! What every queue deserves and may have at most, worked out anew.

mod capacity;
mod proportion;

use super::books::Books;
use crate::amounts::{Amounts, Dim, Written, step};
use crate::quantity::Nano;
use crate::{Rules, World};

/// The sharing of the cluster under one rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// The plugin whose rule it is.
    pub plugin: &'static str,
    /// Limits and shares of the queues above count too.
    pub tree: bool,
    /// Up to this many levels above, what a queue there deserves counts too.
    pub level: i64,
    /// By queue: what it deserves; none: the rule does not deal with it.
    pub deserved: Vec<Option<Amounts>>,
    /// By queue: what it may have at most, with what is kept for others left free.
    pub most: Vec<Limit>,
    /// How far two correct ways of rounding may be apart, in steps.
    pub slack: Nano,
}

/// A limit: what the queue itself says, and what is left when others' guarantees and locked nodes are kept for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limit {
    /// Only dimensions that are limited.
    pub own: Written,
    /// What is left after what is kept for others.
    pub left: Amounts,
}

impl Limit {
    /// The smaller of both.
    pub(crate) fn least(&self, dim: Dim) -> Nano {
        let left = self.left.get(dim);
        self.own.get(&dim).map_or(left, |own| left.min(*own))
    }
}

impl Shares {
    /// What a queue deserves in one dimension.
    pub(crate) fn due(&self, queue: usize, dim: Dim) -> Nano {
        self.deserved[queue].as_ref().map_or(0, |due| due.get(dim))
    }

    /// How far another correct way of rounding may be from that: nothing where there was nothing to round.
    pub(crate) fn doubt(&self, queue: usize, dim: Dim) -> Nano {
        if self.due(queue, dim) % step(dim) == 0 {
            0
        } else {
            self.slack * step(dim)
        }
    }
}

/// The sharing under every rule that the configuration has.
pub(crate) fn shares(books: &Books<'_>, rules: &Rules) -> Vec<Shares> {
    let mut all = Vec::new();
    let locked = locked(books.world, rules);
    if rules.proportion() {
        all.push(proportion::shares(books, &locked));
    }
    if let Some(rule) = rules.capacity() {
        all.push(capacity::shares(books, rule, &locked));
    }
    all
}

/// By queue: what the nodes offer of which it is the deepest holder.
fn locked(world: &World, rules: &Rules) -> Vec<Amounts> {
    let mut locked = vec![Amounts::default(); world.queues.len()];
    if rules.locks() {
        for (node, holders) in world.deepest_holders() {
            if let Some(&holder) = holders.first() {
                locked[holder].add(&world.nodes[node].offers);
            }
        }
    }
    locked
}

/// What is kept for a queue: its guarantee or, where that is more, the nodes that are locked.
fn kept(world: &World, guarantee: &Written, locked: &Amounts) -> Written {
    let amount = |dim: Dim| guarantee.get(&dim).copied().unwrap_or(0).max(locked.get(dim));
    (0..world.dims.len()).map(|dim| (dim, amount(dim))).collect()
}

/// Limits where queues do not form a tree: what is kept for everybody else is kept free. Nodes that are locked for a queue
/// above are for those below it too.
fn flat_limits(world: &World, total: &Amounts, locked: &[Amounts]) -> Vec<Limit> {
    let kept = |queue: usize| kept(world, &world.queues[queue].guarantee, &locked[queue]);
    let mut promised = Amounts::default();
    for queue in 0..world.queues.len() {
        for (dim, amount) in kept(queue) {
            promised.grow(dim, amount);
        }
    }
    let limit = |queue: usize| {
        let mut own = kept(queue);
        for &above in world.chain(queue).iter().skip(1) {
            for (dim, amount) in kept(above) {
                let guarantee = world.queues[above].guarantee.get(&dim).copied().unwrap_or(0);
                *own.entry(dim).or_default() += amount - guarantee;
            }
        }
        Limit {
            own: world.queues[queue].capability.clone(),
            left: left_over(world, total, &promised, &own),
        }
    };
    (0..world.queues.len()).map(limit).collect()
}

/// `total` without what is promised to others; never negative.
fn left_over(world: &World, total: &Amounts, promised: &Amounts, own: &Written) -> Amounts {
    let mut left = Amounts::default();
    for dim in 0..world.dims.len() {
        let free = total.get(dim).saturating_sub(promised.get(dim)).max(0);
        left.set(dim, free.saturating_add(own.get(&dim).copied().unwrap_or(0)));
    }
    left
}
