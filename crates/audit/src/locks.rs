//! R3: a node is held by one queue and those above it. What a child holds, a parent that reserves holds too.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::queue_state::Queues;
use crate::read::{at, meta};
use crate::world::locks;
use crate::{Finding, Invariant, Objects};

/// Which nodes each queue held at the last look, by its uid.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockWatch {
    known: BTreeMap<String, BTreeSet<String>>,
}

impl LockWatch {
    /// A queue that gets a node gets one that no unrelated queue has. Who moves a queue can make two holders strangers;
    /// that is nobody's fault until it is at rest.
    pub(crate) fn observe(&mut self, objects: &Objects, findings: &mut Vec<Finding>) {
        if self.known.is_empty() && objects.queues.iter().all(|queue| locks(queue).is_empty()) {
            return;
        }
        let held = Held::read(objects);
        let mut now = BTreeMap::new();
        for queue in &objects.queues {
            let (name, locks) = (meta(queue, "name"), locks(queue));
            let before = self.known.get(meta(queue, "uid"));
            for node in locks
                .iter()
                .filter(|node| before.is_none_or(|before| !before.contains(*node)))
            {
                findings.extend(held.strangers(queue, name, node));
            }
            now.insert(meta(queue, "uid").to_owned(), locks);
        }
        self.known = now;
    }
}

/// At rest nobody shares a node with a stranger, and children hold nothing that their parents lack.
pub(crate) fn settled(objects: &Objects, findings: &mut Vec<Finding>) {
    let held = Held::read(objects);
    for queue in &objects.queues {
        let name = meta(queue, "name");
        let nodes = locks(queue);
        for node in &nodes {
            findings.extend(held.strangers(queue, name, node));
        }
        for above in held.queues.line(name).into_iter().skip(1) {
            let Some(parent) = held.queues.get(above) else { continue };
            let reserves = !at(parent, &["status", "reservation"]).is_null();
            let theirs = locks(parent);
            if let Some(node) = nodes.difference(&theirs).next().filter(|_| reserves) {
                let message = format!("holds the node {node}, which queue {above} above it does not hold");
                findings.push(Finding::new(Invariant::ExclusiveLocks, "Queue", queue, message));
            }
        }
    }
}

/// Who holds what.
struct Held<'a> {
    queues: Queues<'a>,
    by_node: BTreeMap<String, Vec<&'a str>>,
}

impl<'a> Held<'a> {
    fn read(objects: &'a Objects) -> Self {
        let mut by_node: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for queue in &objects.queues {
            for node in locks(queue) {
                by_node.entry(node).or_default().push(meta(queue, "name"));
            }
        }
        Self {
            queues: Queues::read(objects),
            by_node,
        }
    }

    /// Holders of a node that are neither above a queue nor below it.
    fn strangers(&self, queue: &Value, name: &str, node: &str) -> Option<Finding> {
        let others = self.by_node.get(node)?.iter().filter(|other| **other != name);
        let mut others =
            others.filter(|other| !self.queues.line(name).contains(other) && !self.queues.line(other).contains(&name));
        let other = others.next()?;
        let message = format!("holds the node {node}, and so does queue {other}, which is neither above it nor below");
        Some(Finding::new(Invariant::ExclusiveLocks, "Queue", queue, message))
    }
}
