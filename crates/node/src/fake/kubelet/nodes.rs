//! The nodes of the fake kubelet.

use super::{
    Action, FakeKubelet, HashSet, Millis, NEVER, Node, NodeFacts, Outcome, REPORT_PERIOD, Serving, Subject, Turn,
    Value, Want, json, status,
};
use basalt_api::names::FAKE_NODE;
use std::sync::Arc;

impl FakeKubelet {
    /// The row of a node, which is a new one of a node that does not exist if it was never heard of.
    pub(super) fn node_slot(&mut self, now: Millis, name: &str) -> usize {
        if let Some(&slot) = self.by_name.get(name) {
            return slot;
        }
        let name: Arc<str> = name.into();
        let slot = self.nodes.insert(Node {
            name: Arc::clone(&name),
            uid: "".into(),
            serving: Serving::Absent(self.orphans_go(now)),
            address: None,
            lacking: None,
            fresh: true,
            pods: HashSet::new(),
            turn: Turn::new(self.nodes_round),
        });
        self.by_name.insert(name, slot);
        slot
    }

    fn orphans_go(&self, now: Millis) -> Millis {
        self.rules.orphan_grace.map_or(NEVER, |grace| now.saturating_add(grace))
    }

    pub(super) fn node_applied(&mut self, now: Millis, facts: NodeFacts) {
        let slot = self.node_slot(now, &facts.name);
        let Some(node) = self.nodes.get_mut(slot) else { return };
        node.turn.listed = self.nodes_round;
        let before = std::mem::replace(
            &mut node.serving,
            if facts.fake { Serving::Fake } else { Serving::Foreign },
        );
        if let (None, Some(address)) = (node.address, facts.address) {
            node.address = Some(address);
            self.node_addresses.claim(address);
        }
        if *node.uid != *facts.uid {
            node.uid = facts.uid.as_str().into();
        }
        node.lacking = (facts.fake && !facts.complete()).then(|| Box::new(facts));
        node.fresh = true;
        let changed = node.serving != before;
        self.look(now, Subject::Node(slot));
        if changed {
            self.look_at_pods_of(now, slot);
        }
    }

    /// The pods of a served node go with it; those of somebody else's wait for the grace of orphans.
    pub(super) fn node_deleted(&mut self, now: Millis, name: &str) {
        let Some(&slot) = self.by_name.get(name) else { return };
        let orphans_go = self.orphans_go(now);
        let Some(node) = self.nodes.get_mut(slot) else { return };
        node.serving = match node.serving {
            Serving::Fake => Serving::Absent(now),
            Serving::Foreign => Serving::Absent(orphans_go),
            absent @ Serving::Absent(_) => absent,
        };
        node.lacking = None;
        if let Some(address) = node.address.take() {
            self.node_addresses.give(address);
        }
        self.look_at_pods_of(now, slot);
        self.forget_if_unused(slot);
    }

    pub(super) fn forget_if_unused(&mut self, slot: usize) {
        let unused = |n: &Node| matches!(n.serving, Serving::Absent(_)) && n.pods.is_empty();
        if self.nodes.get(slot).is_some_and(unused)
            && let Some(node) = self.nodes.try_remove(slot)
        {
            self.by_name.remove(&node.name);
        }
    }

    pub(super) fn nodes_listed(&mut self, now: Millis) {
        let round = self.nodes_round;
        let gone: Vec<Arc<str>> = self
            .nodes
            .iter()
            .filter(|(_, n)| n.turn.listed != round)
            .map(|(_, n)| Arc::clone(&n.name))
            .collect();
        for name in gone {
            self.node_deleted(now, &name);
        }
        if !self.nodes_listed {
            self.nodes_listed = true;
            self.look_at_all(now);
        }
    }

    pub(super) fn act_on_node(&mut self, now: Millis, slot: usize) -> Option<Action> {
        let Want::Do(_) = self.want(Subject::Node(slot), now) else {
            return None;
        };
        let node = self.nodes.get_mut(slot)?;
        let facts = node.lacking.as_deref()?;
        let address = *node.address.get_or_insert_with(|| self.node_addresses.take());
        node.turn.sent = true;
        node.fresh = false;
        Some(Action::PatchNode {
            name: Arc::clone(&node.name),
            registration: (!facts.registered()).then(|| registration(facts)),
            status: (!facts.status_complete()).then(|| status::node_status(facts, address, &self.rules.defaults, now)),
        })
    }

    pub(super) fn node_done(&mut self, now: Millis, name: &str, outcome: Outcome) {
        let Some(&slot) = self.by_name.get(name) else { return };
        let Some(node) = self.nodes.get_mut(slot) else { return };
        node.turn.sent = false;
        match outcome {
            Outcome::Failed => node.turn.retry(now),
            // If it is gone, its deletion is on its way to us.
            Outcome::Gone | Outcome::Done => {
                if !node.fresh {
                    node.lacking = None;
                }
                node.turn.attempts = 0;
                node.turn.hold = now.saturating_add(REPORT_PERIOD);
            }
        }
        self.look(now, Subject::Node(slot));
    }
}

/// The labels of a node that lacks some, and its taints if it has one too many.
fn registration(facts: &NodeFacts) -> Value {
    let labels: serde_json::Map<String, Value> = status::node_labels(&facts.name)
        .into_iter()
        .chain([(FAKE_NODE, "true".to_owned())])
        .map(|(k, v)| (k.to_owned(), json!(v)))
        .collect();
    let mut patch = json!({"metadata": {"labels": labels}});
    if let Some(untainted) = &facts.lost {
        patch["metadata"]["resourceVersion"] = json!(untainted.resource_version);
        patch["spec"]["taints"] = json!(untainted.taints);
    }
    patch
}
