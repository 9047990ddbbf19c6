//! Queues come, change and go; the tree is linked anew when its shape changes.

use std::sync::Arc;

use super::{is_meant, put};
use crate::facts::QueueFacts;
use crate::model::{QueueId, ROOT};
use crate::session::State;

impl State {
    /// The slot of a queue name; a new one hangs below `root` until its facts say otherwise.
    pub(super) fn intern_queue(&mut self, name: &Arc<str>) -> QueueId {
        if let Some(id) = self.model.queues.find(name) {
            return id;
        }
        let id = self.model.queues.intern(name);
        self.set_parent(id, ROOT);
        id
    }

    pub(super) fn set_parent(&mut self, id: QueueId, parent: &str) {
        let is_root = **self.model.queues.name(id) == *ROOT;
        let parent = if parent.is_empty() { ROOT } else { parent };
        let parent = (!is_root).then(|| {
            let name: Arc<str> = Arc::from(parent);
            self.model
                .queues
                .find(parent)
                .unwrap_or_else(|| self.intern_queue(&name))
        });
        let old = self.model.queues[id].parent;
        if old != parent || self.model.queues[id].chain.is_empty() {
            if let Some(parent) = parent {
                self.model.queues[parent].mentions += 1;
            }
            self.model.queues[id].parent = parent;
            self.relink();
            if let Some(old) = old {
                self.model.queues[old].mentions -= 1;
                self.free_queue(old);
            }
        }
    }

    pub(super) fn relink(&mut self) {
        self.model.link_queues();
        self.locks.tree_stale = true;
        self.ledger.grow(&self.model);
        self.ledger.recount_queues(&self.model);
        self.ease();
    }

    pub(super) fn upsert_queue(&mut self, facts: &QueueFacts) {
        if facts.name.is_empty() {
            return;
        }
        let id = self.intern_queue(&facts.name);
        self.set_parent(id, &facts.parent);
        let [deserved, guarantee, capability] =
            [&facts.deserved, &facts.guarantee, &facts.capability].map(|resources| self.model.dims.limits(resources));
        let target = self.model.dims.limits(&facts.target);
        self.ledger.grow(&self.model);
        let queue = &mut self.model.queues[id];
        let mut changed = put(&mut queue.present, true);
        changed |= put(&mut queue.uid, facts.uid.clone());
        changed |= put(&mut queue.created_ms, facts.created_ms);
        changed |= put(&mut queue.weight, facts.weight);
        changed |= put(&mut queue.priority, facts.priority);
        changed |= put(&mut queue.reclaimable, facts.reclaimable);
        changed |= put(&mut queue.deserved, deserved);
        changed |= put(&mut queue.guarantee, guarantee);
        changed |= put(&mut queue.capability, capability);
        changed |= put(&mut queue.fifo, facts.fifo);
        changed |= put(&mut queue.hierarchy, facts.hierarchy.clone());
        changed |= put(&mut queue.target, target);
        changed |= put(&mut queue.evicts, facts.evicts);
        if put(&mut queue.node_groups, facts.node_groups.clone()) {
            self.order_stale = true;
            changed = true;
        }
        let mut locks = facts.locks.clone();
        locks.sort_unstable();
        locks.dedup();
        changed |= self.set_locks(id, locks);
        if changed {
            self.ease();
        }
    }

    pub(super) fn queue_gone(&mut self, name: &str, uid: Option<&str>) {
        let Some(id) = self.model.queues.find(name) else { return };
        if !is_meant(uid, &self.model.queues[id].uid) {
            return;
        }
        self.set_parent(id, ROOT);
        self.order_stale |= self.model.queues[id].node_groups.is_some();
        self.set_locks(id, Vec::new());
        let queue = &mut self.model.queues[id];
        let (parent, chain, mentions) = (queue.parent, std::mem::take(&mut queue.chain), queue.mentions);
        *queue = crate::model::Queue {
            parent,
            chain,
            mentions,
            ..Default::default()
        };
        self.free_queue(id);
        self.ease();
    }

    pub(super) fn free_queue(&mut self, id: QueueId) {
        let queue = &self.model.queues[id];
        if queue.present || queue.mentions > 0 {
            return;
        }
        let parent = queue.parent;
        self.model.queues.release(id);
        if let Some(parent) = parent {
            self.model.queues[parent].mentions -= 1;
            self.free_queue(parent);
        }
        self.relink();
    }
}
