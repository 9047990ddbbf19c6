//! Nodes that vanish and come back under the same name while binds to them are in flight.
//!
//! A bind that was sent may still succeed after its node is gone. The engine forgets such places with the node; if the
//! new node were offered at once, their room would be given away a second time. So a node that comes back is withheld
//! from the engine until every bind to its former self is resolved: shown by the watch, rejected, or timed out.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_engine::Engine;
use basalt_engine::facts::NodeFacts;
use basalt_engine::plan::Bind;
use jiff::{SignedDuration, Timestamp};

/// A bind that the watch has not shown after this time did not happen.
const BIND_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

/// A bind whose node vanished.
#[derive(Debug)]
struct OrphanedBind {
    pod: Arc<str>,
    uid: Arc<str>,
    until: Timestamp,
}

/// Nodes that vanished with binds in flight, and the nodes that came back before those were resolved.
#[derive(Debug, Default)]
pub(crate) struct RecreatedNodes {
    orphaned: BTreeMap<Arc<str>, Vec<OrphanedBind>>,
    withheld: BTreeMap<Arc<str>, NodeFacts>,
}

impl RecreatedNodes {
    /// Takes note of the binds to a node that the engine is about to forget.
    pub(crate) fn node_deleted(&mut self, engine: &Engine, name: &str, now: Timestamp) {
        self.withheld.remove(name);
        let Some(node) = engine.node(name) else { return };
        let until = now.saturating_add(BIND_TIMEOUT).unwrap_or(Timestamp::MAX);
        let orphaned: Vec<OrphanedBind> = node
            .assumed_pods()
            .filter(|pod| !pod.is_node_observed())
            .map(|pod| OrphanedBind {
                pod: Arc::clone(pod.key()),
                uid: Arc::clone(pod.uid()),
                until,
            })
            .collect();
        if !orphaned.is_empty() {
            self.orphaned.entry(name.into()).or_default().extend(orphaned);
        }
    }

    /// Returns the facts of a node if the engine may know them now; otherwise they are withheld.
    pub(crate) fn node_applied(&mut self, facts: NodeFacts) -> Option<NodeFacts> {
        if self.orphaned.contains_key(&facts.name) {
            self.withheld.insert(Arc::clone(&facts.name), facts);
            return None;
        }
        Some(facts)
    }

    /// Takes note of a bind that was certainly not carried out.
    pub(crate) fn bind_rejected(&mut self, bind: &Bind) {
        if let Some(orphaned) = self.orphaned.get_mut(&bind.node) {
            orphaned.retain(|orphan| orphan.pod != bind.pod || orphan.uid != bind.uid);
        }
    }

    /// Forgets resolved binds, and returns the nodes that the engine may know now.
    pub(crate) fn release_nodes(&mut self, engine: &Engine, now: Timestamp) -> Vec<NodeFacts> {
        if self.orphaned.is_empty() {
            return Vec::new();
        }
        let is_unresolved = |orphan: &OrphanedBind| {
            let pod = engine.pod(&orphan.pod);
            now < orphan.until && pod.is_some_and(|pod| *pod.uid() == orphan.uid && !pod.is_node_observed())
        };
        self.orphaned.retain(|_, orphaned| {
            orphaned.retain(is_unresolved);
            !orphaned.is_empty()
        });
        let (withheld, released): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.withheld)
            .into_iter()
            .partition(|(name, _)| self.orphaned.contains_key(name));
        self.withheld = withheld;
        released.into_values().collect()
    }

    /// Returns when the next withheld node is released by time alone.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let waiting = self.withheld.keys().filter_map(|name| self.orphaned.get(name));
        waiting
            .filter_map(|orphaned| orphaned.iter().map(|orphan| orphan.until).max())
            .min()
    }
}

#[cfg(test)]
mod tests {
    use basalt_engine::facts::Event;

    use super::*;
    use crate::test_cluster;

    fn node(uid: &str) -> NodeFacts {
        NodeFacts {
            uid: uid.into(),
            ..test_cluster::node(4000)
        }
    }

    fn pod(node: Option<&str>) -> Event {
        Event::Pod(test_cluster::pod(0, node))
    }

    /// An engine that has just decided to bind the pod, and whose node was deleted and created again.
    fn decided() -> (Engine, RecreatedNodes, Bind) {
        let mut engine = test_cluster::engine(1, &[test_cluster::pod(0, None)]);
        let bind = engine.cycle(1, 0).binds().next().cloned().expect("a bind");
        let mut nodes = RecreatedNodes::default();
        nodes.node_deleted(&engine, "n", Timestamp::UNIX_EPOCH);
        engine.apply(&Event::NodeGone {
            name: "n".into(),
            uid: None,
        });
        assert!(
            nodes.node_applied(node("2")).is_none(),
            "not while the bind is in flight"
        );
        (engine, nodes, bind)
    }

    #[test]
    fn a_recreated_node_waits_for_the_binds_to_its_former_self() {
        let second = |second| Timestamp::from_second(second).expect("a small time");
        let (mut engine, mut nodes, _) = decided();
        assert!(nodes.release_nodes(&engine, second(1)).is_empty());
        engine.apply(&pod(Some("n")));
        assert_eq!(nodes.release_nodes(&engine, second(2)).len(), 1, "the bind is shown");
        assert!(nodes.node_applied(node("2")).is_some());

        let (engine, mut nodes, bind) = decided();
        nodes.bind_rejected(&bind);
        assert_eq!(
            nodes.release_nodes(&engine, second(1)).len(),
            1,
            "the bind was rejected"
        );

        let (engine, mut nodes, _) = decided();
        assert_eq!(nodes.next_due(), Some(second(30)));
        assert_eq!(nodes.release_nodes(&engine, second(31)).len(), 1, "the bind timed out");
    }
}
