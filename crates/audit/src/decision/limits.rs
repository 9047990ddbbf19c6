//! I3: no bind takes a queue, or a queue above it, beyond its capability. I4: none takes what is guaranteed to others, or
//! locked for them.

use std::collections::BTreeSet;

use super::books::Books;
use super::deserved::Shares;
use crate::amounts::{Dim, PODS};
use crate::{Finding, Invariant, Rules};

pub(super) fn check(books: &Books<'_>, rules: &Rules, shares: &[Shares], findings: &mut Vec<Finding>) {
    for rule in shares {
        if !rules.has(rule.plugin, "enabledAllocatable") {
            continue;
        }
        for (queue, dim) in asked(books, rule) {
            judge(books, rule, queue, dim, findings);
        }
        if rule.tree {
            leaves(books, findings);
        }
    }
}

/// The queues that get pods, and the dimensions that those ask for.
fn asked(books: &Books<'_>, rule: &Shares) -> BTreeSet<(usize, Dim)> {
    let mut asked = BTreeSet::new();
    for placed in books.placed.iter().filter(|placed| placed.now) {
        let pod = &books.world.pods[placed.pod];
        let payers = books.payers(placed.pod);
        let payers = if rule.tree {
            payers
        } else {
            payers.get(..1).unwrap_or_default()
        };
        // A pod that asks for nothing takes nothing that is shared out.
        for &(dim, _) in pod.shape.request.iter().filter(|_| !pod.is_modest()) {
            asked.extend(payers.iter().map(|&queue| (queue, dim)));
        }
    }
    asked
}

fn judge(books: &Books<'_>, rule: &Shares, queue: usize, dim: Dim, findings: &mut Vec<Finding>) {
    let world = books.world;
    let record = &world.queues[queue];
    // In a flat world a queue's own pods count, not those of queues that name it as their parent.
    let have = if rule.tree {
        books.after(queue)
    } else {
        books.own_after(queue)
    };
    let (have, limit) = (have.get(dim), &rule.most[queue]);
    let mut found = |invariant, most, why: &str| {
        let message = format!(
            "has {} after binds, {why} {}",
            world.show(dim, have),
            world.show(dim, most)
        );
        findings.push(Finding::on(invariant, format!("Queue {}", record.name), message));
    };
    if let Some(&own) = limit.own.get(&dim)
        && have > own
    {
        found(Invariant::CapabilityKept, own, "its capability is");
    }
    let left = limit.left.get(dim);
    // Places for pods are not shared out: not every node counts them.
    if have > left && dim != PODS {
        found(Invariant::GuaranteeKept, left, "what is kept for others leaves");
    }
}

/// In a tree, work is in the leaves, and only a sound branch is served.
fn leaves(books: &Books<'_>, findings: &mut Vec<Finding>) {
    let world = books.world;
    let mut bad = BTreeSet::new();
    for placed in books.placed.iter().filter(|placed| placed.now) {
        if let Some(&queue) = books.payers(placed.pod).first() {
            let name = &world.queues[queue].name;
            if world.children(name).next().is_some() {
                bad.insert((queue, "gets pods bound and has queues below it"));
            }
            if !world.is_sound(queue) {
                bad.insert((
                    queue,
                    "gets pods bound and hangs in no tree: a queue above is missing, or above itself",
                ));
            }
        }
    }
    for (queue, message) in bad {
        let object = format!("Queue {}", world.queues[queue].name);
        findings.push(Finding::on(Invariant::CapabilityKept, object, message.to_owned()));
    }
}
