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
    /// By queue: what it may have at most, with the guarantees of others kept free.
    pub most: Vec<Limit>,
    /// How far two correct ways of rounding may be apart, in steps.
    pub slack: Nano,
}

/// A limit: what the queue itself says, and what others' guarantees leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limit {
    /// Only dimensions that are limited.
    pub own: Written,
    /// What is left after others' guarantees.
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
    if rules.proportion() {
        all.push(proportion::shares(books));
    }
    if let Some(rule) = rules.capacity() {
        all.push(capacity::shares(books, rule));
    }
    all
}

/// Limits where queues do not form a tree: everybody else's guarantee is kept free.
fn flat_limits(world: &World, total: &Amounts) -> Vec<Limit> {
    let mut promised = Amounts::default();
    for queue in &world.queues {
        for (&dim, &amount) in &queue.guarantee {
            promised.grow(dim, amount);
        }
    }
    let limit = |queue: &crate::world::Queue| Limit {
        own: queue.capability.clone(),
        left: left_over(world, total, &promised, &queue.guarantee),
    };
    world.queues.iter().map(limit).collect()
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
