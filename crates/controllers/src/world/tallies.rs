//! Tallies of all queues, and which object counts where.

use std::collections::BTreeMap;

use crate::queue::tally::{Fact, Tally};
use basalt_api::NamespacedName;

/// An object that may count in a queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Thing {
    Job(NamespacedName),
    Group(NamespacedName),
    Pod(NamespacedName),
}

/// Tallies by the name of the queue, whether it exists or not: a queue that is made anew has what names it.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    of_queue: BTreeMap<String, Tally>,
    entered: BTreeMap<Thing, (String, Fact)>,
}

impl Tallies {
    /// `thing` now counts as `fact` in a queue, or nowhere; returns the queues whose tally changed.
    pub(super) fn enter(&mut self, thing: Thing, fact: Option<(String, Fact)>) -> Vec<String> {
        if self.entered.get(&thing) == fact.as_ref() {
            return Vec::new();
        }
        let mut changed = Vec::new();
        let before = match &fact {
            Some(fact) => self.entered.insert(thing, fact.clone()),
            None => self.entered.remove(&thing),
        };
        if let Some((queue, fact)) = before {
            if let Some(tally) = self.of_queue.get_mut(&queue) {
                tally.remove(fact);
                if *tally == Tally::default() {
                    self.of_queue.remove(&queue);
                }
            }
            changed.push(queue);
        }
        if let Some((queue, fact)) = fact {
            self.of_queue.entry(queue.clone()).or_default().add(fact);
            if !changed.contains(&queue) {
                changed.push(queue);
            }
        }
        changed
    }

    /// The tally of a queue.
    pub(super) fn of(&self, queue: &str) -> Tally {
        self.of_queue.get(queue).copied().unwrap_or_default()
    }
}
