//! A queue.

use serde_json::Value;

use super::World;
use crate::amounts::Written;
use crate::read::{at, meta, text};

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
        }
    }
}

impl World {
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
