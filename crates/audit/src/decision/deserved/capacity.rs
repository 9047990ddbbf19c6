//! By what queues say that they deserve, flat or as a tree.

use std::collections::BTreeMap;

use super::{Limit, Shares, flat_limits, kept, left_over};
use crate::World;
use crate::amounts::{Amounts, Dim};
use crate::decision::books::Books;
use crate::quantity::Nano;
use crate::rules::Capacity;

pub(super) fn shares(books: &Books<'_>, rule: Capacity, locked: &[Amounts]) -> Shares {
    let world = books.world;
    let total = world.total();
    let (deserved, most) = if rule.tree {
        tree(world, &total, rule, &below(world, locked))
    } else {
        let most = flat_limits(world, &total, locked);
        let all: Vec<usize> = (0..world.queues.len())
            .filter(|&queue| world.queues[queue].name != "root")
            .collect();
        let mut deserved = vec![None; world.queues.len()];
        for (queue, mut due) in dues(world, &all, &total, rule) {
            for dim in 0..world.dims.len() {
                let guarantee = world.queues[queue].guarantee.get(&dim).copied().unwrap_or(0);
                due.set(dim, due.get(dim).min(most[queue].least(dim)).max(guarantee));
            }
            deserved[queue] = Some(due);
        }
        (deserved, most)
    };
    Shares {
        plugin: "capacity",
        tree: rule.tree,
        level: rule.level,
        deserved,
        most,
        slack: 2,
    }
}

/// By queue: what is locked for it and for all queues below.
fn below(world: &World, locked: &[Amounts]) -> Vec<Amounts> {
    let mut below = vec![Amounts::default(); world.queues.len()];
    for (queue, amounts) in locked.iter().enumerate() {
        for above in world.chain(queue) {
            below[above].add(amounts);
        }
    }
    below
}

/// Top down: every queue's due and limit from those of the queue above.
fn tree(world: &World, total: &Amounts, rule: Capacity, locked: &[Amounts]) -> (Vec<Option<Amounts>>, Vec<Limit>) {
    let mut deserved = vec![None; world.queues.len()];
    let mut most = vec![Limit::default(); world.queues.len()];
    let root = Limit {
        own: BTreeMap::new(),
        left: total.clone(),
    };
    if let Some(&at) = world.queue_ids.get("root") {
        deserved[at] = Some(total.clone());
        most[at] = root.clone();
    }
    let mut todo = vec![("root".to_owned(), root, total.clone())];
    while let Some((parent, limit, due)) = todo.pop() {
        let children: Vec<usize> = world.children(&parent).collect();
        let mut promised = Amounts::default();
        for &child in &children {
            for (dim, amount) in kept(world, &world.queues[child].guarantee, &locked[child]) {
                promised.grow(dim, amount);
            }
        }
        let mut above = Amounts::default();
        for dim in 0..world.dims.len() {
            above.set(dim, limit.least(dim));
        }
        for (child, mut due) in dues(world, &children, &due, rule) {
            let queue = &world.queues[child];
            for (&dim, &amount) in &queue.guarantee {
                due.set(dim, due.get(dim).max(amount));
            }
            let limit = Limit {
                own: queue.capability.clone(),
                left: left_over(world, &above, &promised, &kept(world, &queue.guarantee, &locked[child])),
            };
            most[child] = limit.clone();
            deserved[child] = Some(due.clone());
            todo.push((queue.name.clone(), limit, due));
        }
    }
    (deserved, most)
}

/// What siblings deserve of what there is for all of them: what they say; where they say nothing, nothing, or by weight.
fn dues(world: &World, siblings: &[usize], whole: &Amounts, rule: Capacity) -> Vec<(usize, Amounts)> {
    let mut result = Vec::new();
    for &queue in siblings {
        let record = &world.queues[queue];
        let mut due = Amounts::default();
        for dim in 0..world.dims.len() {
            let amount = match record.deserved.get(&dim) {
                Some(&said) => said,
                None if rule.from_weight => by_weight(world, siblings, queue, whole, dim),
                None => 0,
            };
            due.set(dim, amount);
        }
        result.push((queue, due));
    }
    result
}

fn by_weight(world: &World, siblings: &[usize], queue: usize, whole: &Amounts, dim: Dim) -> Nano {
    let (mut said, mut weights): (Nano, Nano) = (0, 0);
    for &sibling in siblings {
        let record = &world.queues[sibling];
        match record.deserved.get(&dim) {
            Some(&amount) => said = said.saturating_add(amount),
            None => weights += Nano::from(record.weight),
        }
    }
    let record = &world.queues[queue];
    let free = whole.get(dim).saturating_sub(said).max(0);
    let part = free.saturating_mul(Nano::from(record.weight)) / weights.max(1);
    let part = part.max(record.guarantee.get(&dim).copied().unwrap_or(0));
    record.capability.get(&dim).map_or(part, |most| part.min(*most))
}
