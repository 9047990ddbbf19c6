//! I5: only what a queue has beyond its due can be taken from it, and only by one that lacks its own. I4: guarantees.

use std::collections::BTreeMap;

use super::super::books::{Books, Evicted};
use super::super::deserved::Shares;
use super::{flag, found};
use crate::amounts::{Amounts, Dim, PODS};
use crate::quantity::Nano;
use crate::{Finding, Invariant, Rules};

pub(super) fn check(books: &Books<'_>, rules: &Rules, rule: &Shares, findings: &mut Vec<Finding>) {
    let mut gone: BTreeMap<usize, Amounts> = BTreeMap::new();
    let mut bundles: BTreeMap<(Option<usize>, Option<usize>), Amounts> = BTreeMap::new();
    for evicted in &books.evicted {
        let pod = &books.world.pods[evicted.pod];
        let (Some(&victim), Some(taker)) = (books.payers(evicted.pod).first(), taker(books, evicted)) else {
            continue;
        };
        let speaks = rules.has(rule.plugin, flag(evicted.entry.purpose));
        if victim != taker && speaks && evicted.entry.purpose.places() {
            // A gang that goes as a whole is judged as a whole.
            let before = gone.get(&victim).cloned().unwrap_or_default();
            let bundle = (books.group[evicted.pod], evicted.beneficiary);
            let before = if evicted.entry.purpose.by_gangs() {
                bundles.entry(bundle).or_insert(before)
            } else {
                &before
            };
            beyond_due(books, rule, evicted, victim, before, findings);
        }
        let payers = books.payers(evicted.pod).iter();
        for &queue in payers.take(if rule.tree { usize::MAX } else { 1 }) {
            gone.entry(queue).or_default().take(&pod.shape.request);
        }
    }
    guarantees(books, rules, rule, findings);
    takers(books, rules, rule, findings);
}

/// The queue that gets the room.
fn taker(books: &Books<'_>, evicted: &Evicted<'_>) -> Option<usize> {
    books.queue[evicted.beneficiary?]
}

/// The dimensions that the node lacks for what is placed on it, of those that the beneficiary asks for; all of those if
/// something else is lacking (a port, a place). None if it gets no place there, or asks for nothing.
fn short(books: &Books<'_>, evicted: &Evicted<'_>) -> Option<Vec<Dim>> {
    let world = books.world;
    let group = evicted.beneficiary?;
    let by_gangs = evicted.entry.purpose.by_gangs();
    let mut asked = Amounts::default();
    for placed in books
        .placements_of(group)
        .filter(|placed| by_gangs || Some(placed.node) == evicted.node)
    {
        asked.take(&world.pods[placed.pod].shape.request);
    }
    let mut placed_here = Amounts::default();
    for placed in books.placed.iter().filter(|placed| Some(placed.node) == evicted.node) {
        placed_here.take(&world.pods[placed.pod].shape.request);
    }
    let lacks = |dim: Dim| {
        let idle = |node: usize| world.nodes[node].offers.get(dim) - books.taken[node].get(dim);
        let idle = evicted.node.map_or(0, idle);
        by_gangs || placed_here.get(dim) > idle
    };
    // Places for pods are not shared out.
    let dims: Vec<Dim> = asked.iter().map(|(dim, _)| dim).filter(|&dim| dim != PODS).collect();
    let short: Vec<Dim> = dims.iter().copied().filter(|&dim| lacks(dim)).collect();
    (!dims.is_empty()).then_some(if short.is_empty() { dims } else { short })
}

fn beyond_due(
    books: &Books<'_>,
    rule: &Shares,
    evicted: &Evicted<'_>,
    victim: usize,
    gone: &Amounts,
    findings: &mut Vec<Finding>,
) {
    let world = books.world;
    // The most that the queue can have had when this pod was chosen.
    let mut had = Amounts::default();
    let below = |queue: &usize| *queue == victim || (rule.tree && books.chains[*queue].contains(&victim));
    for queue in (0..world.queues.len()).filter(below) {
        had.add(&books.own_had[queue]);
        had.add(&books.own_gains[queue]);
        had.add(&books.own_hopes[queue]);
    }
    let have = |dim: Dim| had.get(dim) - gone.get(dim);
    let Some(short) = short(books, evicted) else { return };
    let above = |dim: &Dim| have(*dim) > rule.due(victim, *dim) - rule.doubt(victim, *dim);
    if !short.iter().any(above) {
        let queue = &world.queues[victim].name;
        let numbers: Vec<String> = short
            .iter()
            .map(|&dim| {
                format!(
                    "{} of {}",
                    world.show(dim, have(dim)),
                    world.show(dim, rule.due(victim, dim))
                )
            })
            .collect();
        let why = format!("its queue {queue} has no more than it deserves: {}", numbers.join(", "));
        findings.push(found(books, Invariant::PermittedEvictions, evicted, why));
    }
}

/// No queue loses, to another, what is guaranteed to it.
fn guarantees(books: &Books<'_>, rules: &Rules, rule: &Shares, findings: &mut Vec<Finding>) {
    let world = books.world;
    let mut lost: BTreeMap<usize, Amounts> = BTreeMap::new();
    for evicted in &books.evicted {
        let pod = &world.pods[evicted.pod];
        let purpose = evicted.entry.purpose;
        let Some(taker) = taker(books, evicted).filter(|_| rules.has(rule.plugin, flag(purpose))) else {
            continue;
        };
        let payers = books.payers(evicted.pod).iter();
        let strangers = payers.filter(|queue| !books.chains[taker].contains(queue));
        for &queue in strangers.take(if rule.tree { usize::MAX } else { 1 }) {
            lost.entry(queue).or_default().take(&pod.shape.request);
        }
    }
    for (queue, lost) in lost {
        let after = if rule.tree {
            books.after(queue)
        } else {
            books.own_after(queue)
        };
        let record = &world.queues[queue];
        for (&dim, &kept) in record.guarantee.iter().filter(|(dim, _)| lost.get(**dim) > 0) {
            if after.get(dim) < kept {
                let message = format!(
                    "has {} after evictions; {} is guaranteed",
                    world.show(dim, after.get(dim)),
                    world.show(dim, kept)
                );
                findings.push(Finding::on(
                    Invariant::GuaranteeKept,
                    format!("Queue {}", record.name),
                    message,
                ));
            }
        }
    }
}

/// A queue that reclaims stays within its own due with what it asks for, in some dimension that it asks for.
fn takers(books: &Books<'_>, rules: &Rules, rule: &Shares, findings: &mut Vec<Finding>) {
    let world = books.world;
    let mut judged: BTreeMap<usize, &Evicted<'_>> = BTreeMap::new();
    for evicted in books
        .evicted
        .iter()
        .filter(|evicted| evicted.entry.purpose.is_reclaim())
    {
        if let Some(group) = evicted.beneficiary {
            judged.entry(group).or_insert(evicted);
        }
    }
    for (group, evicted) in judged {
        let Some(queue) = books.queue[group].filter(|_| rules.has(rule.plugin, "enablePreemptive") && rule.level == 0)
        else {
            continue;
        };
        let mut asks = Amounts::default();
        for placed in books.placements_of(group).filter(|placed| !placed.now) {
            asks.take(&world.pods[placed.pod].shape.request);
        }
        let before = |dim: Dim| books.own_had[queue].get(dim) - books.own_losses[queue].get(dim);
        let fits = |dim: Dim, more: Nano| {
            before(dim).saturating_add(more) <= rule.due(queue, dim).saturating_add(rule.doubt(queue, dim))
        };
        let mut dims = asks.iter().filter(|(dim, _)| *dim != PODS).peekable();
        if dims.peek().is_some() && !dims.any(|(dim, more)| fits(dim, more)) {
            let name = &world.queues[queue].name;
            let why = format!("its beneficiary's queue {name} has all that it deserves");
            findings.push(found(books, Invariant::PermittedEvictions, evicted, why));
        }
    }
}
