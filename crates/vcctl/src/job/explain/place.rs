//! Where queues stand in their tree, and what they hold.

use std::collections::BTreeMap;

use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::names;
use basalt_api::quantity::Quantity;
use serde_json::Value;

use crate::resources::amount;

/// More levels than any tree may have: where it is damaged, the way up ends.
const LEVELS: usize = 16;

/// All queues that could be read, by name.
pub(super) struct Places<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> Places<'a> {
    pub(super) fn of(queues: &'a [Value]) -> Self {
        Self(
            queues
                .iter()
                .map(|queue| (string_at(queue, "/metadata/name"), queue))
                .collect(),
        )
    }

    /// The names from the top down to a queue; the queue alone where the tree is not known.
    pub(super) fn path(&self, queue: &str) -> Vec<String> {
        let mut path = vec![queue.to_owned()];
        let mut at = queue;
        while let Some(parent) = self
            .parent(at)
            .filter(|parent| path.len() < LEVELS && !is_in(&path, parent))
        {
            path.push(parent.to_owned());
            at = parent;
        }
        path.reverse();
        path
    }

    fn parent(&self, queue: &str) -> Option<&'a str> {
        let queue = self.0.get(queue).filter(|_| queue != names::ROOT_QUEUE)?;
        Some(match string_at(queue, "/spec/parent") {
            "" => names::ROOT_QUEUE,
            parent => parent,
        })
    }

    /// Jobs that wait in a queue, by its status.
    pub(super) fn waiting(&self, queue: &str) -> Option<i64> {
        let queue = self.0.get(queue)?;
        Some(integer_or_zero(queue, "/status/pending").saturating_add(integer_or_zero(queue, "/status/inqueue")))
    }

    /// What a queue holds of a resource: each of its children that holds any, or the queue itself.
    pub(super) fn held(&self, queue: &str, resource: &str) -> Vec<(String, Quantity)> {
        let of =
            |name: &str| amount(&self.0.get(name)?["status"]["allocated"], resource).filter(|held| !held.is_zero());
        let children = self.0.keys().filter(|child| self.parent(child) == Some(queue));
        let held: Vec<(String, Quantity)> = children
            .filter_map(|child| Some(((*child).to_owned(), of(child)?)))
            .collect();
        if held.is_empty() {
            return of(queue).map(|held| (queue.to_owned(), held)).into_iter().collect();
        }
        held
    }
}

fn is_in(path: &[String], name: &str) -> bool {
    path.iter().any(|seen| seen == name)
}
