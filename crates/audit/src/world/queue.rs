//! A queue.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Pod, World};
use crate::amounts::Written;
use crate::read::{at, leaving, list, meta, text};

/// A queue, as it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub name: String,
    pub parent: String,
    pub weight: i64,
    pub reclaimable: bool,
    pub deserved: Written,
    pub guarantee: Written,
    pub capability: Written,
    /// Nodes that are locked for it; none while it is being deleted.
    pub locks: BTreeSet<String>,
    /// What is to be reached on them.
    pub target: Written,
    /// Pods of others are evicted for that.
    pub evicts: bool,
}

impl Queue {
    pub(super) fn read(world: &mut World, object: &Value) -> Self {
        let name = meta(object, "name").to_owned();
        let parent = match text(object, &["spec", "parent"]) {
            "" => "root",
            parent => parent,
        };
        let weight = at(object, &["spec", "weight"]).as_i64().unwrap_or(1);
        Self {
            parent: if name == "root" {
                String::new()
            } else {
                parent.to_owned()
            },
            name,
            weight: weight.max(1),
            reclaimable: at(object, &["spec", "reclaimable"]).as_bool().unwrap_or(true),
            deserved: world.written(at(object, &["spec", "deserved"])),
            guarantee: world.written(at(object, &["spec", "guarantee", "resource"])),
            capability: world.written(at(object, &["spec", "capability"])),
            locks: locks(object),
            target: world.written(at(object, &["status", "reservation", "target"])),
            evicts: text(object, &["spec", "guarantee", "policy"]) == "Guaranteed",
        }
    }
}

/// The nodes that are locked for a queue, as it says.
pub(crate) fn locks(queue: &Value) -> BTreeSet<String> {
    let nodes = list(queue, &["status", "reservation", "nodes"]).iter();
    let nodes = nodes.filter(|_| !leaving(queue)).filter_map(Value::as_str);
    nodes.map(str::to_owned).collect()
}

impl World {
    /// The queue of a pod: that of its group or, if it names none, the one that it names itself.
    pub(crate) fn queue_of_pod(&self, pod: &Pod) -> Option<usize> {
        match &pod.group {
            Some(_) => self.queue_of(self.group_of(pod)?),
            None => self.queue_ids.get(pod.queue.as_ref()?).copied(),
        }
    }

    /// By node that is locked: the queues that hold it and have no holder below them. One, if all is well.
    pub(crate) fn deepest_holders(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, queue) in self.queues.iter().enumerate() {
            for node in queue.locks.iter().filter_map(|node| self.node_ids.get(node)) {
                all.entry(*node).or_default().push(at);
            }
        }
        for holders in all.values_mut() {
            let known = holders.clone();
            let above = |queue: usize| {
                known
                    .iter()
                    .any(|&other| other != queue && self.chain(other).contains(&queue))
            };
            holders.retain(|&queue| !above(queue));
        }
        all
    }

    /// A queue and all queues above that exist. A parent that does not exist counts as hanging below `root`; a cycle
    /// ends where it closes.
    pub(crate) fn chain(&self, queue: usize) -> Vec<usize> {
        let mut chain = vec![queue];
        let mut next = &self.queues[queue].parent;
        while !next.is_empty() {
            let Some(&above) = self.queue_ids.get(next) else {
                let root = self.queue_ids.get("root").filter(|root| !chain.contains(root));
                chain.extend(root);
                break;
            };
            if chain.contains(&above) {
                break;
            }
            chain.push(above);
            next = &self.queues[above].parent;
        }
        chain
    }

    /// Whether a queue hangs in the tree: every queue above exists, up to `root`, and none stands above itself.
    pub(crate) fn is_sound(&self, queue: usize) -> bool {
        let mut seen = vec![queue];
        let mut at = queue;
        while !self.queues[at].parent.is_empty() {
            match self.queue_ids.get(&self.queues[at].parent) {
                Some(&above) if !seen.contains(&above) => {
                    seen.push(above);
                    at = above;
                }
                Some(_) => return false,
                // Nobody has to write `root` down.
                None => return self.queues[at].parent == "root",
            }
        }
        true
    }

    /// The queues right below one.
    pub(crate) fn children(&self, parent: &str) -> impl Iterator<Item = usize> {
        self.queues
            .iter()
            .enumerate()
            .filter(move |(_, queue)| queue.parent == parent)
            .map(|(at, _)| at)
    }
}
