//! Nodes that vanish and come back under the same name while binds to them are under way.
//!
//! A bind that was sent may still succeed after its node is gone. The engine forgets such places with the node; were the
//! new node offered at once, their room would be given away a second time. So a node that comes back is kept from the
//! engine until every bind to its former self is answered for: shown by the watch, refused, or given up.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_engine::Engine;
use basalt_engine::facts::NodeFacts;
use basalt_engine::ledger::Status;
use basalt_engine::plan::Bind;
use jiff::{SignedDuration, Timestamp};

/// After this time a bind that nobody has seen did not happen.
const GIVEN_UP: SignedDuration = SignedDuration::from_secs(30);

/// A bind whose node went away under it.
#[derive(Debug)]
struct Lost {
    pod: Arc<str>,
    uid: Arc<str>,
    until: Timestamp,
}

/// Nodes that are gone with binds under way, and those that came back too soon.
#[derive(Debug, Default)]
pub(super) struct Reborn {
    lost: BTreeMap<Arc<str>, Vec<Lost>>,
    waiting: BTreeMap<Arc<str>, NodeFacts>,
}

impl Reborn {
    /// A node is about to be forgotten: notes which binds to it are under way. To be called before the engine is told.
    pub(super) fn leaves(&mut self, engine: &Engine, name: &str, now: Timestamp) {
        self.waiting.remove(name);
        let state = engine.state();
        let Some(node) = state.model.nodes.find(name) else {
            return;
        };
        let until = now.saturating_add(GIVEN_UP).unwrap_or(Timestamp::MAX);
        let tasks = state.ledger.tasks_on(node).iter();
        let lost: Vec<Lost> = tasks
            .filter(|&&task| state.ledger.status(task) == Status::Allocated && !state.model.tasks[task].shown)
            .map(|&task| Lost {
                pod: Arc::clone(state.model.tasks.name(task)),
                uid: Arc::clone(&state.model.tasks[task].uid),
                until,
            })
            .collect();
        if !lost.is_empty() {
            self.lost.entry(name.into()).or_default().extend(lost);
        }
    }

    /// A node is there: gives its facts back if the engine may know them now.
    pub(super) fn comes(&mut self, facts: NodeFacts) -> Option<NodeFacts> {
        if self.lost.contains_key(&facts.name) {
            self.waiting.insert(Arc::clone(&facts.name), facts);
            return None;
        }
        Some(facts)
    }

    /// A bind was certainly not carried out.
    pub(super) fn refused(&mut self, bind: &Bind) {
        if let Some(lost) = self.lost.get_mut(&bind.node) {
            lost.retain(|lost| lost.pod != bind.pod || lost.uid != bind.uid);
        }
    }

    /// Lets go of what is answered for; returns the nodes that the engine may know now.
    pub(super) fn settle(&mut self, engine: &Engine, now: Timestamp) -> Vec<NodeFacts> {
        if self.lost.is_empty() {
            return Vec::new();
        }
        let model = &engine.state().model;
        let is_open = |lost: &Lost| {
            let task = model.tasks.find(&lost.pod).map(|task| &model.tasks[task]);
            now < lost.until && task.is_some_and(|task| task.uid == lost.uid && !task.shown)
        };
        self.lost.retain(|_, lost| {
            lost.retain(is_open);
            !lost.is_empty()
        });
        let (keep, free): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(name, _)| self.lost.contains_key(name));
        self.waiting = keep;
        free.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use basalt_engine::facts::Event;

    use super::super::scene;
    use super::*;

    fn node(uid: &str) -> NodeFacts {
        NodeFacts {
            uid: uid.into(),
            ..scene::node(4000)
        }
    }

    fn pod(node: Option<&str>) -> Event {
        Event::Pod(scene::pod(0, node))
    }

    /// An engine that has just decided to bind the pod, and whose node is gone and back.
    fn decided() -> (Engine, Reborn, Bind) {
        let mut engine = scene::engine(1, &[scene::pod(0, None)]);
        let bind = engine.cycle(1, 0).binds().next().cloned().expect("a bind");
        let mut reborn = Reborn::default();
        reborn.leaves(&engine, "n", Timestamp::UNIX_EPOCH);
        engine.apply(&Event::NodeGone {
            name: "n".into(),
            uid: None,
        });
        assert!(reborn.comes(node("2")).is_none(), "not while the bind is under way");
        (engine, reborn, bind)
    }

    #[test]
    fn a_node_that_comes_back_waits_for_the_binds_to_its_former_self() {
        let second = |second| Timestamp::from_second(second).expect("a small time");
        let (mut engine, mut reborn, _) = decided();
        assert!(reborn.settle(&engine, second(1)).is_empty());
        engine.apply(&pod(Some("n")));
        assert_eq!(reborn.settle(&engine, second(2)).len(), 1, "the bind is shown");
        assert!(reborn.comes(node("2")).is_some());

        let (engine, mut reborn, bind) = decided();
        reborn.refused(&bind);
        assert_eq!(reborn.settle(&engine, second(1)).len(), 1, "the bind was refused");

        let (engine, mut reborn, _) = decided();
        assert_eq!(reborn.settle(&engine, second(31)).len(), 1, "nobody waits for ever");
    }
}
