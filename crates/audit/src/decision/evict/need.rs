//! I5: what a gang leaves is of use to the one it leaves for. Were the gang to stay, something would not go: a pod of the
//! beneficiary would not fit where it gets its place, or a queue that both are in would have too much.

use std::collections::BTreeMap;

use super::super::books::{Books, Evicted};
use super::super::deserved::Shares;
use super::found;
use crate::amounts::{Amounts, Dim, PODS};
use crate::quantity::Nano;
use crate::world::Stand;
use crate::{Finding, Invariant, Rules};

/// What goes from one group for another.
struct Bundle<'a> {
    beneficiary: usize,
    pods: Vec<&'a Evicted<'a>>,
}

pub(super) fn check(books: &Books<'_>, rules: &Rules, shares: &[Shares], findings: &mut Vec<Finding>) {
    let mut bundles: BTreeMap<(Option<usize>, usize), Bundle<'_>> = BTreeMap::new();
    for evicted in books.evicted.iter().filter(|one| one.entry.purpose.by_gangs()) {
        if let Some(beneficiary) = evicted.beneficiary.filter(|_| evicted.entry.purpose.places()) {
            let bundle = bundles.entry((books.group[evicted.pod], beneficiary));
            let new = || Bundle {
                beneficiary,
                pods: Vec::new(),
            };
            bundle.or_insert_with(new).pods.push(evicted);
        }
    }
    for bundle in bundles.values() {
        let (Some(one), false) = (bundle.pods.first(), is_needed(books, rules, shares, bundle)) else {
            continue;
        };
        let why = "its beneficiary would get all its places if its group stayed".to_owned();
        findings.push(found(books, Invariant::PermittedEvictions, one, why));
    }
}

fn is_needed(books: &Books<'_>, rules: &Rules, shares: &[Shares], bundle: &Bundle<'_>) -> bool {
    // Who minds whom is not weighed here: it is enough that somebody does.
    let minds = |pod: usize| {
        let shape = &books.world.pods[pod].shape;
        !shape.ports.is_empty() || !shape.apart.is_empty() || !shape.together.is_empty()
    };
    let guests = books.placements_of(bundle.beneficiary).map(|placed| placed.pod);
    let mut all = guests.chain(bundle.pods.iter().map(|evicted| evicted.pod));
    all.any(minds)
        || bundle
            .pods
            .iter()
            .any(|evicted| evicted.node.is_some_and(|node| lacks_room(books, bundle, node)))
        || shares
            .iter()
            .filter(|rule| rules.has(rule.plugin, "enabledAllocatable"))
            .any(|rule| lacks_leave(books, rule, bundle))
}

/// Whether a node would have too little for all that is to be on it, if the bundle stayed.
fn lacks_room(books: &Books<'_>, bundle: &Bundle<'_>, node: usize) -> bool {
    let world = books.world;
    let mut sum = books.stays[node].clone();
    // Nobody knows whether others who go were told so before or after.
    let stays = |one: &&Evicted<'_>| one.node == Some(node) && !goes_besides(bundle, one);
    for evicted in books.evicted.iter().filter(stays) {
        sum.take(&world.pods[evicted.pod].shape.request);
    }
    for placed in books.placed.iter().filter(|placed| placed.node == node) {
        sum.take(&world.pods[placed.pod].shape.request);
    }
    let name = &world.nodes[node].name;
    for (at, pod) in world.pods.iter().enumerate() {
        let waits = pod.stand == Stand::Waits && pod.nominated.as_ref() == Some(name);
        if waits && !books.placed.iter().any(|placed| placed.pod == at) {
            sum.take(&pod.shape.request);
        }
    }
    let held = held(books, bundle, Some(node));
    let short = |(dim, _): (Dim, Nano)| {
        (dim != PODS || world.nodes[node].limits_pods) && sum.get(dim) > world.nodes[node].offers.get(dim)
    };
    held.iter().any(short)
}

/// Whether a queue that both are in would have more than it may, if the bundle stayed.
fn lacks_leave(books: &Books<'_>, rule: &Shares, bundle: &Bundle<'_>) -> bool {
    let levels = if rule.tree { usize::MAX } else { 1 };
    let Some(taker) = books.queue[bundle.beneficiary] else {
        return false;
    };
    let Some(first) = bundle.pods.first() else { return false };
    let above: Vec<usize> = books.chains[taker].iter().copied().take(levels).collect();
    let mut shared = books.payers(first.pod).iter().take(levels);
    shared.any(|queue| {
        if !above.contains(queue) {
            return false;
        }
        let mut sum = Amounts::default();
        let below = |one: &usize| one == queue || (rule.tree && books.chains[*one].contains(queue));
        for one in (0..books.world.queues.len()).filter(below) {
            sum.add(&books.own_had[one]);
            sum.add(&books.own_gains[one]);
            sum.add(&books.own_hopes[one]);
        }
        for evicted in books.evicted.iter().filter(|one| goes_besides(bundle, one)) {
            if books.payers(evicted.pod).iter().take(levels).any(|one| one == queue) {
                for &(dim, amount) in &books.world.pods[evicted.pod].shape.request {
                    sum.grow(dim, -amount);
                }
            }
        }
        let most = |dim: Dim| match rule.plugin {
            // By weight a queue gets no more than its due.
            "proportion" => rule.most[*queue].least(dim).min(rule.due(*queue, dim)),
            _ => rule.most[*queue].least(dim),
        };
        held(books, bundle, None)
            .iter()
            .any(|(dim, _)| dim != PODS && sum.get(dim) > most(dim))
    })
}

/// Whether a pod goes for the bundle's beneficiary, and is not of the bundle.
fn goes_besides(bundle: &Bundle<'_>, evicted: &Evicted<'_>) -> bool {
    let mine = bundle.pods.iter().any(|one| one.pod == evicted.pod);
    evicted.beneficiary == Some(bundle.beneficiary) && !mine
}

/// What a bundle holds, on one node or in all.
fn held(books: &Books<'_>, bundle: &Bundle<'_>, node: Option<usize>) -> Amounts {
    let mut held = Amounts::default();
    for evicted in bundle
        .pods
        .iter()
        .filter(|one| node.is_none_or(|node| one.node == Some(node)))
    {
        held.take(&books.world.pods[evicted.pod].shape.request);
    }
    held
}
