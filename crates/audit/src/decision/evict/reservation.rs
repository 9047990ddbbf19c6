//! R2: what is evicted for a reservation stands in its way: it is on a node that is locked for a queue with the policy
//! Guaranteed, or goes with the rest of its gang; it is not that queue's own; it may be moved; and the target is not
//! met without its going.

use std::collections::BTreeMap;

use super::super::Purpose;
use super::super::books::{Books, Evicted};
use super::found;
use crate::amounts::{Amounts, Dim};
use crate::quantity::Nano;
use crate::world::Stand;
use crate::{Finding, Invariant, Rules};

/// What goes together: all of a gang, or one pod.
type Bundle<'a> = Vec<&'a Evicted<'a>>;

pub(super) fn check(books: &Books<'_>, rules: &Rules, findings: &mut Vec<Finding>) {
    let evicted: Vec<&Evicted<'_>> = books
        .evicted
        .iter()
        .filter(|one| one.entry.purpose == Purpose::Reservation)
        .collect();
    if let Some(one) = evicted.first().filter(|_| !rules.locks()) {
        let why = "no node is locked under this configuration".to_owned();
        findings.push(found(books, Invariant::ReservationEvictions, one, why));
        return;
    }
    for one in &evicted {
        permitted(books, one, findings);
    }
    for bundle in bundles(books, &evicted) {
        let Some(first) = bundle.first() else { continue };
        if let Some(why) = objection(books, &evicted, &bundle) {
            findings.push(found(books, Invariant::ReservationEvictions, first, why));
        }
    }
}

/// It may be moved, whatever the configuration says of conformance.
fn permitted(books: &Books<'_>, evicted: &Evicted<'_>, findings: &mut Vec<Finding>) {
    let pod = &books.world.pods[evicted.pod];
    if pod.fixed {
        let why = "it is a daemon or a static pod, and would be back".to_owned();
        findings.push(found(books, Invariant::ReservationEvictions, evicted, why));
    }
    if pod.critical {
        findings.push(found(
            books,
            Invariant::ReservationEvictions,
            evicted,
            "it is one of the cluster's own".to_owned(),
        ));
    }
}

fn bundles<'a>(books: &Books<'_>, evicted: &[&'a Evicted<'a>]) -> Vec<Bundle<'a>> {
    let mut gangs: BTreeMap<usize, Bundle<'a>> = BTreeMap::new();
    let mut bundles = Vec::new();
    for &one in evicted {
        match books.group[one.pod] {
            Some(group) if goes_whole(books, group) => gangs.entry(group).or_default().push(one),
            _ => bundles.push(vec![one]),
        }
    }
    bundles.extend(gangs.into_values());
    bundles
}

/// No pod of a gang is left.
fn goes_whole(books: &Books<'_>, group: usize) -> bool {
    books.world.groups[group].min > 1 && books.ready[group].all - books.ended[group] == books.lost[group].all
}

/// Why a bundle should not go; none: it should.
fn objection(books: &Books<'_>, evicted: &[&Evicted<'_>], bundle: &Bundle<'_>) -> Option<String> {
    let world = books.world;
    let named = bundle
        .iter()
        .find_map(|one| world.queue_ids.get(&one.entry.beneficiary));
    let owners: Vec<usize> = match named {
        Some(&queue) => vec![queue],
        None => (0..world.queues.len()).collect(),
    };
    let on_its_nodes = |queue: usize| {
        let locks = &world.queues[queue].locks;
        bundle
            .iter()
            .any(|one| one.node.is_some_and(|node| locks.contains(&world.nodes[node].name)))
    };
    let clearing = |queue: &usize| world.queues[*queue].evicts && on_its_nodes(*queue);
    let owners: Vec<usize> = owners.into_iter().filter(clearing).collect();
    if owners.is_empty() {
        return Some("none of its nodes is locked for a queue that is guaranteed them".to_owned());
    }
    let own = |queue: &usize| bundle.iter().any(|one| books.payers(one.pod).contains(queue));
    let foreign: Vec<usize> = owners.into_iter().filter(|queue| !own(queue)).collect();
    if foreign.is_empty() {
        return Some("it is of the queue that its node is locked for, or of one below".to_owned());
    }
    let needed = |queue: &usize| is_needed(books, evicted, bundle, *queue);
    (!foreign.iter().any(needed)).then(|| "the target is reached while it stays".to_owned())
}

/// Whether a queue's target is missed in some dimension that the bundle takes on its nodes, when all others that go for it
/// have gone.
fn is_needed(books: &Books<'_>, evicted: &[&Evicted<'_>], bundle: &Bundle<'_>, queue: usize) -> bool {
    let world = books.world;
    let record = &world.queues[queue];
    let stays = |pod: usize| bundle.iter().any(|one| one.pod == pod);
    let goes = |pod: usize| {
        let mut evicted = evicted.iter();
        let for_it =
            evicted.any(|one| one.pod == pod && (named(books, one) == Some(queue) || named(books, one).is_none()));
        for_it && !stays(pod)
    };
    let mut have = Amounts::default();
    for node in record.locks.iter().filter_map(|node| world.node_ids.get(node)) {
        have.add(&world.nodes[*node].offers);
    }
    let mut taken = Amounts::default();
    for (at, pod) in world.pods.iter().enumerate() {
        let there = pod.node.as_ref().is_some_and(|node| record.locks.contains(node));
        let own = books.payers(at).contains(&queue);
        if there && pod.takes_room() && pod.stand != Stand::Leaving && !own && !goes(at) {
            for &(dim, amount) in &pod.shape.request {
                have.grow(dim, -amount);
            }
            if stays(at) {
                taken.take(&pod.shape.request);
            }
        }
    }
    let lacks = |(dim, target): (&Dim, &Nano)| have.get(*dim) < *target && taken.get(*dim) > 0;
    record.target.iter().any(lacks)
}

/// The queue that an eviction is for, if it says so.
fn named(books: &Books<'_>, evicted: &Evicted<'_>) -> Option<usize> {
    books.world.queue_ids.get(&evicted.entry.beneficiary).copied()
}
