//! Nodes come, change and go.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::is_meant;
use crate::facts::NodeFacts;
use crate::model::{NodeId, TaskId};
use crate::session::State;

impl State {
    pub(super) fn intern_node(&mut self, name: &Arc<str>) -> NodeId {
        let node = self.model.nodes.intern(name);
        self.ledger.grow(&self.model);
        node
    }

    pub(super) fn upsert_node(&mut self, facts: &NodeFacts) {
        if facts.name.is_empty() {
            return;
        }
        let id = self.intern_node(&facts.name);
        let allocatable = self.model.dims.offers(&facts.allocatable).non_zero();
        self.ledger.grow(&self.model);
        let node = &mut self.model.nodes[id];
        node.uid.clone_from(&facts.uid);
        if node.present
            && node.allocatable == allocatable
            && node.labels == facts.labels
            && node.taints == facts.taints
            && node.images == facts.images
            && (node.unschedulable, node.not_ready) == (facts.unschedulable, facts.not_ready)
        {
            return;
        }
        self.order_stale |= !node.present;
        self.locks.worth_stale = true;
        let holder = self.find_holder(&facts.name);
        self.ledger.withdraw(&self.model, id);
        self.count_taints(id, false);
        let node = &mut self.model.nodes[id];
        node.present = true;
        node.holder = holder;
        node.allocatable = allocatable;
        node.labels.clone_from(&facts.labels);
        node.taints.clone_from(&facts.taints);
        node.unschedulable = facts.unschedulable;
        node.not_ready = facts.not_ready;
        self.set_images(id, &facts.images);
        self.count_taints(id, true);
        self.locate(id);
        self.ledger.offer(&self.model, id);
        self.ease();
    }

    pub(super) fn node_gone(&mut self, name: &str, uid: Option<&str>) {
        let Some(id) = self.model.nodes.find(name) else { return };
        let node = &self.model.nodes[id];
        if !node.present || !is_meant(uid, &node.uid) {
            return;
        }
        self.ledger.withdraw(&self.model, id);
        self.count_taints(id, false);
        self.set_images(id, &BTreeMap::new());
        self.model.nodes[id] = crate::model::Node::default();
        self.locate(id);
        self.ledger.offer(&self.model, id);
        // A place on a node that is gone is no place.
        let lost: Vec<TaskId> = self
            .ledger
            .tasks_on(id)
            .iter()
            .copied()
            .filter(|&task| self.is_under_way(task))
            .collect();
        for task in lost {
            self.unassume(task);
        }
        self.order_stale = true;
        self.locks.worth_stale = true;
        self.ease();
        self.free_node(id);
    }

    pub(super) fn free_node(&mut self, id: NodeId) {
        if id.is_some() && !self.model.nodes[id].present && self.ledger.tasks_on(id).is_empty() {
            self.model.nodes.release(id);
        }
    }
}
