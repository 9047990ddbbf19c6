//! R1: nodes that are locked for a queue take pods of that queue and of those below it only.

use super::books::Books;
use crate::{Finding, Invariant, Rules};

pub(super) fn check(books: &Books<'_>, rules: &Rules, findings: &mut Vec<Finding>) {
    if !rules.locks() || books.placed.is_empty() {
        return;
    }
    let world = books.world;
    let holders = world.deepest_holders();
    for placed in &books.placed {
        let (pod, node) = (&world.pods[placed.pod], &world.nodes[placed.node]);
        let Some(holders) = holders.get(&placed.node).filter(|_| !pod.everywhere) else {
            continue;
        };
        let own = world.queue_of_pod(pod).map_or(&[][..], |queue| &books.chains[queue]);
        if !holders.iter().any(|holder| own.contains(holder)) {
            let name = |queue: &usize| world.queues[*queue].name.as_str();
            let message = format!(
                "gets the node {}, which is locked for queue {}; its own is {}",
                node.name,
                holders.iter().map(name).collect::<Vec<_>>().join(" and "),
                own.first().map_or("none", name)
            );
            findings.push(Finding::on(Invariant::LockedNodes, format!("Pod {}", pod.key), message));
        }
    }
}
