//! I5: every eviction has a purpose, and takes only who may be taken. I4: none takes a queue below its guarantee. R2: what
//! goes for a reservation stands in its way.

mod gangs;
mod need;
mod queues;
mod reservation;

use std::collections::BTreeMap;

use super::Purpose;
use super::books::{Books, Evicted};
use super::deserved::Shares;
use crate::{Finding, Invariant, Rules};

pub(super) fn check(books: &Books<'_>, rules: &Rules, shares: &[Shares], findings: &mut Vec<Finding>) {
    if books.evicted.is_empty() {
        return;
    }
    for evicted in &books.evicted {
        purpose(books, rules, evicted, findings);
        permitted(books, rules, evicted, findings);
    }
    need::check(books, rules, shares, findings);
    budgets(books, rules, findings);
    gangs::check(books, rules, findings);
    reservation::check(books, rules, findings);
    for rule in shares {
        queues::check(books, rules, rule, findings);
    }
}

/// A finding about a pod that is evicted.
fn found(books: &Books<'_>, invariant: Invariant, evicted: &Evicted<'_>, why: String) -> Finding {
    let pod = &books.world.pods[evicted.pod];
    let message = format!(
        "is evicted ({:?} for {:?}): {why}",
        evicted.entry.purpose, evicted.entry.beneficiary
    );
    Finding::on(invariant, format!("Pod {}", pod.key), message)
}

/// An action of the cycle asked for it, and its beneficiary waits for the room: on the very node or, where whole gangs
/// go, wherever that turns out to be; and with it the beneficiary has what it needs to start.
fn purpose(books: &Books<'_>, rules: &Rules, evicted: &Evicted<'_>, findings: &mut Vec<Finding>) {
    let purpose = evicted.entry.purpose;
    if let Some(action) = purpose.action().filter(|action| rules.turn(action).is_none()) {
        let why = format!("no cycle of this configuration has the action {action}");
        findings.push(found(books, Invariant::PermittedEvictions, evicted, why));
    }
    if !purpose.places() {
        return;
    }
    let Some(group) = evicted.beneficiary else {
        findings.push(found(
            books,
            Invariant::PermittedEvictions,
            evicted,
            "nobody gets the room".to_owned(),
        ));
        return;
    };
    let victim = books.group[evicted.pod];
    let near = |node: usize| Some(node) == evicted.node || purpose.by_gangs();
    if !books
        .placements_of(group)
        .any(|placed| !placed.now && near(placed.node))
    {
        let where_to = if purpose.by_gangs() { "" } else { " on its node" };
        let why = format!("its beneficiary waits for no place{where_to} in the same decision");
        findings.push(found(books, Invariant::PermittedEvictions, evicted, why));
    }
    let record = &books.world.groups[group];
    let have = books.ready[group].all + books.bound[group].all + books.awaited[group].all;
    // A more important pod may take the place of another of its group, whatever the group has in all.
    let inside = victim == Some(group);
    if rules.has("gang", "enableJobPipelined") && !rules.holds_partial && !inside && have < record.min {
        let why = format!("its beneficiary has {have} pods then, and needs {}", record.min);
        findings.push(found(books, Invariant::PermittedEvictions, evicted, why));
    }
}

/// The victim itself may go.
fn permitted(books: &Books<'_>, rules: &Rules, evicted: &Evicted<'_>, findings: &mut Vec<Finding>) {
    let world = books.world;
    let (pod, purpose) = (&world.pods[evicted.pod], evicted.entry.purpose);
    let mut object = |why: &str| findings.push(found(books, Invariant::PermittedEvictions, evicted, why.to_owned()));
    if !pod.preemptable && purpose != Purpose::Shuffle {
        object("it says that it may not be evicted");
    }
    if pod.critical && rules.has("conformance", flag(purpose)) {
        object("it is one of the cluster's own");
    }
    let Some(victim) = books.group[evicted.pod] else {
        object("it belongs to no pod group");
        return;
    };
    // A group's own word counts for the actions on gangs; the plain ones go by the word of each pod.
    if purpose.by_gangs() && world.groups[victim].protected {
        object("its group says that it may not be evicted");
    }
    let Some(group) = evicted.beneficiary else { return };
    let (own, theirs) = (books.queue[victim], books.queue[group]);
    if own != theirs && own.is_some_and(|queue| !world.queues[queue].reclaimable) {
        object("its queue is not reclaimable");
    }
    if purpose.is_reclaim() && own == theirs {
        object("nothing can be reclaimed from the own queue");
    }
    let lower = if victim == group {
        // Inside a group, more important pods may replace others.
        let mine = books.placements_of(group).map(|placed| world.pods[placed.pod].priority);
        mine.max().is_some_and(|mine| pod.priority < mine)
    } else {
        world.priority(&world.groups[victim]) < world.priority(&world.groups[group])
    };
    let foreign = own != theirs && matches!(purpose, Purpose::Preempt | Purpose::GangPreempt);
    let ranked = victim == group || (purpose == Purpose::Preempt && rules.leads("priority", "enablePreemptable"));
    if !lower && (foreign || ranked || purpose == Purpose::GangPreempt) {
        object("it is not less important than its beneficiary");
    }
}

/// The flag that lets plugins speak about victims of this kind; the gang actions ask all of them.
fn flag(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Preempt => "enablePreemptable",
        Purpose::Reclaim => "enableReclaimable",
        Purpose::Shuffle => "enabledVictim",
        Purpose::GangPreempt | Purpose::GangReclaim | Purpose::Reservation => "",
    }
}

/// No more pods go than their budgets allow.
fn budgets(books: &Books<'_>, rules: &Rules, findings: &mut Vec<Finding>) {
    let world = books.world;
    let mut spent: BTreeMap<usize, i64> = BTreeMap::new();
    for evicted in books.evicted.iter().filter(|evicted| {
        evicted.entry.purpose == Purpose::Reservation || rules.has("pdb", flag(evicted.entry.purpose))
    }) {
        let pod = &world.pods[evicted.pod];
        for (at, budget) in world.budgets.iter().enumerate() {
            if budget.namespace == pod.namespace && budget.selector.selects(&pod.labels) {
                *spent.entry(at).or_default() += 1;
            }
        }
    }
    for (at, count) in spent {
        let budget = &world.budgets[at];
        if count > budget.allowed.max(0) {
            let message = format!("{count} of its pods are evicted, it allows {}", budget.allowed);
            findings.push(Finding::on(Invariant::PermittedEvictions, budget.key.clone(), message));
        }
    }
}
