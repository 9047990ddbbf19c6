//! By weight, as water fills vessels: what one cannot use goes to the others.

use super::{Limit, Shares, flat_limits};
use crate::World;
use crate::amounts::{Amounts, PODS};
use crate::decision::books::Books;
use crate::quantity::Nano;
use crate::world::Stand;

/// One queue that takes part.
struct Vessel {
    queue: usize,
    weight: Nano,
    wants: Amounts,
    due: Amounts,
    full: bool,
}

/// After this many rounds nobody waits for the last drop.
const ROUNDS_MAX: usize = 1_000;

pub(super) fn shares(books: &Books<'_>, locked: &[Amounts]) -> Shares {
    let world = books.world;
    let total = world.total();
    let most = flat_limits(world, &total, locked);
    let mut vessels = vessels(books);
    let mut left = total;
    for _ in 0..ROUNDS_MAX {
        let weights: Nano = vessels.iter().filter(|v| !v.full).map(|v| v.weight).sum();
        if weights == 0 || !fill_once(world, &mut vessels, &mut left, weights, &most) {
            break;
        }
    }
    let mut deserved = vec![None; world.queues.len()];
    let slack = 2 + vessels.len() as Nano;
    for vessel in vessels {
        deserved[vessel.queue] = Some(vessel.due);
    }
    Shares {
        plugin: "proportion",
        tree: false,
        level: 0,
        deserved,
        most,
        slack,
    }
}

/// Queues that have groups, and what these ask for: their pods that are placed and those that wait.
fn vessels(books: &Books<'_>) -> Vec<Vessel> {
    let world = books.world;
    let mut wants = vec![Amounts::default(); world.queues.len()];
    let mut active = vec![false; world.queues.len()];
    for &queue in books.queue.iter().flatten() {
        active[queue] = true;
    }
    for (at, pod) in world.pods.iter().enumerate() {
        let queue = books.payers(at).first();
        if let Some(&queue) = queue.filter(|_| matches!(pod.stand, Stand::Placed | Stand::Waits)) {
            wants[queue].take(&pod.shape.request);
        }
    }
    // A group whose pods are still to come asks for what it says that it needs.
    let mut has_pods = vec![false; world.groups.len()];
    for &group in books.group.iter().flatten() {
        has_pods[group] = true;
    }
    for (at, group) in world.groups.iter().enumerate() {
        if let Some(queue) = books.queue[at].filter(|_| !has_pods[at] && !group.completed) {
            for (&dim, &amount) in group.min_resources.iter().filter(|(dim, _)| **dim != PODS) {
                wants[queue].grow(dim, amount);
            }
        }
    }
    let vessel = |(queue, wants)| Vessel {
        queue,
        weight: Nano::from(world.queues[queue].weight),
        wants,
        due: Amounts::default(),
        full: false,
    };
    let taking_part = wants.into_iter().enumerate().filter(|(queue, _)| active[*queue]);
    taking_part.map(vessel).collect()
}

/// One round; false when nothing more flows.
fn fill_once(world: &World, vessels: &mut [Vessel], left: &mut Amounts, weights: Nano, most: &[Limit]) -> bool {
    let before = left.clone();
    let (mut taken, mut returned) = (Amounts::default(), Amounts::default());
    for vessel in vessels.iter_mut().filter(|vessel| !vessel.full) {
        let old = vessel.due.clone();
        for dim in 0..world.dims.len() {
            let part = before.get(dim).saturating_mul(vessel.weight) / weights;
            let guarantee = world.queues[vessel.queue].guarantee.get(&dim).copied().unwrap_or(0);
            let due = old
                .get(dim)
                .saturating_add(part)
                .min(most[vessel.queue].least(dim))
                .min(vessel.wants.get(dim))
                .max(guarantee);
            vessel.due.set(dim, due);
            let change = due - old.get(dim);
            if change > 0 {
                taken.grow(dim, change);
            } else {
                returned.grow(dim, -change);
            }
        }
        let satisfied = (0..world.dims.len()).all(|dim| vessel.wants.get(dim) <= vessel.due.get(dim));
        vessel.full = satisfied || vessel.due == old;
    }
    for dim in 0..world.dims.len() {
        let rest = before.get(dim) - taken.get(dim) + returned.get(dim);
        left.set(dim, rest.max(0));
    }
    *left != before && left.iter().next().is_some()
}
