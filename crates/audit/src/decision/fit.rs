//! I1: no node gets more than it offers, in any dimension; no host port is given twice.

use std::collections::BTreeMap;

use super::books::Books;
use crate::amounts::{Dim, PODS};
use crate::quantity::Nano;
use crate::world::Stand;
use crate::{Finding, Invariant};

pub(super) fn check(books: &Books<'_>, findings: &mut Vec<Finding>) {
    let mut now = BTreeMap::new();
    let mut later = BTreeMap::new();
    for placed in &books.placed {
        let request = &books.world.pods[placed.pod].shape.request;
        let sums: &mut BTreeMap<(usize, Dim), Nano> = &mut later;
        add(sums, placed.node, request);
        if placed.now {
            add(&mut now, placed.node, request);
        }
    }
    over(books, &now, true, findings);
    // What fails now need not be told again.
    later.retain(|key, sum| now.get(key) != Some(sum));
    over(books, &later, false, findings);
    ports(books, findings);
}

fn add(sums: &mut BTreeMap<(usize, Dim), Nano>, node: usize, request: &[(Dim, Nano)]) {
    for &(dim, amount) in request {
        let sum = sums.entry((node, dim)).or_default();
        *sum = sum.saturating_add(amount);
    }
}

/// Only dimensions that new pods ask for: a node that was over-committed before is not this decision's doing.
fn over(books: &Books<'_>, new: &BTreeMap<(usize, Dim), Nano>, now: bool, findings: &mut Vec<Finding>) {
    let world = books.world;
    for (&(node, dim), &more) in new {
        let record = &world.nodes[node];
        if dim == PODS && !record.limits_pods {
            continue;
        }
        let there = if now { &books.taken[node] } else { &books.stays[node] };
        let (sum, limit) = (there.get(dim).saturating_add(more), record.offers.get(dim));
        if sum > limit {
            let when = if now {
                ""
            } else {
                ", once evicted and leaving pods are gone"
            };
            let message = format!(
                "is given {} to a sum of {}; it offers {}{when}",
                world.show(dim, more),
                world.show(dim, sum),
                world.show(dim, limit)
            );
            findings.push(Finding::on(
                Invariant::NoOvercommit,
                format!("Node {}", record.name),
                message,
            ));
        }
    }
}

fn ports(books: &Books<'_>, findings: &mut Vec<Finding>) {
    let world = books.world;
    let wants = |pod: usize| &world.pods[pod].shape.ports;
    let judged: Vec<_> = books
        .placed
        .iter()
        .filter(|placed| !wants(placed.pod).is_empty())
        .collect();
    if judged.is_empty() {
        return;
    }
    // By node: whose ports, and whether they are there already when a bind takes place.
    let mut holders: BTreeMap<usize, Vec<(usize, bool)>> = BTreeMap::new();
    for (at, pod) in world.pods.iter().enumerate() {
        let node = pod.node.as_ref().and_then(|node| world.node_ids.get(node));
        if let Some(&node) = node.filter(|_| pod.takes_room() && !pod.shape.ports.is_empty()) {
            let stays = pod.stand != Stand::Leaving && !books.goes[at];
            holders.entry(node).or_default().push((at, stays));
        }
    }
    for placed in &judged {
        let here = holders.entry(placed.node).or_default();
        let clash = here.iter().find(|(other, stays)| {
            (placed.now || *stays)
                && wants(placed.pod)
                    .iter()
                    .any(|mine| wants(*other).iter().any(|theirs| collide(mine, theirs)))
        });
        if let Some((other, _)) = clash {
            let (pod, other) = (&world.pods[placed.pod], &world.pods[*other]);
            let node = &world.nodes[placed.node].name;
            let message = format!("gets the node {node}, where {} has one of its host ports", other.key);
            findings.push(Finding::on(
                Invariant::NoOvercommit,
                format!("Pod {}", pod.key),
                message,
            ));
        }
        here.push((placed.pod, true));
    }
}

fn collide(a: &(String, String, i64), b: &(String, String, i64)) -> bool {
    let any = |address: &str| address == "0.0.0.0";
    a.0 == b.0 && a.2 == b.2 && (a.1 == b.1 || any(&a.1) || any(&b.1))
}
