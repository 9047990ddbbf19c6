//! What queues have on the nodes that are locked for them.

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::is_own;
use crate::ledger::Status;
use crate::model::{NodeId, QueueId, TaskId};
use crate::resources::{Amounts, DimId};
use crate::session::State;

/// What a queue lacks on its locked nodes.
#[derive(Clone, Debug)]
pub(crate) struct ReservationShortage {
    /// The queue's locked nodes.
    pub nodes: FxHashSet<NodeId>,
    /// How much more must become free there, by resource; only what is missing.
    pub missing: SmallVec<[(DimId, i64); 4]>,
}

/// One queue's locked nodes, kept up to date through the ledger's journal.
#[derive(Clone, Debug, Default)]
struct LockedCapacity {
    /// By node: what is free there or used by the queue, once the pods that leave are gone.
    by_node: FxHashMap<NodeId, Amounts>,
    /// The sum over the nodes.
    total: FxHashMap<DimId, i64>,
    /// The state's `eased` when no pods were found that could go; nothing on the nodes has changed since.
    unmovable_at: Option<u64>,
}

/// The locked nodes of all queues for which pods of others are evicted.
#[derive(Clone, Debug, Default)]
pub(super) struct ReservedCapacity {
    /// These queues, in the order in which they are served.
    served: Vec<QueueId>,
    by_queue: FxHashMap<QueueId, LockedCapacity>,
    /// The state's order of nodes and the place in the journal up to which the sums are right.
    order_version: u64,
    read: u64,
}

/// What is free on a node or used by a queue, once the pods that leave are gone.
fn usable(state: &State, queue: QueueId, node: NodeId) -> Amounts {
    let stays = |task: &&TaskId| !matches!(state.ledger.status(**task), Status::Releasing | Status::Pipelined);
    let tasks = state.ledger.tasks_on(node).iter().filter(stays);
    let foreign = tasks.filter(|&&task| !is_own(state, queue, task)).flat_map(|&task| {
        let request = state.model.classes.request(state.model.tasks[task].class);
        request.iter().map(|(dim, amount)| (dim, -amount))
    });
    Amounts::from_pairs(state.model.nodes[node].allocatable.iter().chain(foreign))
}

impl LockedCapacity {
    fn put(&mut self, node: NodeId, usable: Amounts) {
        let before = self.by_node.insert(node, usable.clone()).unwrap_or_default();
        let less = before.iter().map(|(dim, amount)| (dim, -amount));
        for (dim, amount) in usable.iter().chain(less) {
            *self.total.entry(dim).or_default() += amount;
        }
        self.unmovable_at = None;
    }
}

impl ReservedCapacity {
    /// Serves these queues from now on.
    pub(super) fn serve(&mut self, queues: &[QueueId]) {
        if queues.is_empty() {
            *self = ReservedCapacity::default();
        } else {
            self.served.clear();
            self.served.extend_from_slice(queues);
        }
    }

    /// Returns what a queue lacks; none if it lacks nothing, or if it is known that no pod can go for it.
    pub(super) fn shortage(&mut self, state: &State, queue: QueueId) -> Option<ReservationShortage> {
        self.catch_up(state);
        let capacity = self.by_queue.get(&queue)?;
        let target = &state.model.queues[queue].target;
        let missing: SmallVec<[(DimId, i64); 4]> = target
            .iter()
            .map(|(dim, target)| (dim, target - capacity.total.get(&dim).copied().unwrap_or(0)))
            .filter(|&(_, missing)| missing > 0)
            .collect();
        if missing.is_empty() || capacity.unmovable_at == Some(state.eased) {
            return None;
        }
        Some(ReservationShortage {
            nodes: capacity.by_node.keys().copied().collect(),
            missing,
        })
    }

    /// Notes that no pod can go for a queue, until something changes.
    pub(super) fn note_unmovable(&mut self, state: &State, queue: QueueId) {
        if let Some(capacity) = self.by_queue.get_mut(&queue) {
            capacity.unmovable_at = Some(state.eased);
        }
    }

    /// Brings the sums up to date.
    fn catch_up(&mut self, state: &State) {
        let journal = &state.ledger.journal;
        let known = self.served.iter().all(|queue| self.by_queue.contains_key(queue));
        let fresh = self.order_version == state.order_version && known && self.served.len() == self.by_queue.len();
        match if fresh { journal.since(self.read) } else { None } {
            Some(touched) => {
                for (node, _) in touched {
                    self.recount_node(state, node);
                }
            }
            None => self.recount_all(state),
        }
        self.order_version = state.order_version;
        self.read = journal.end();
    }

    fn recount_node(&mut self, state: &State, node: NodeId) {
        let Some(holder) = state.model.nodes[node].holder else {
            return;
        };
        for queue in state.model.chain(holder) {
            if let Some(capacity) = self.by_queue.get_mut(queue)
                && capacity.by_node.contains_key(&node)
            {
                capacity.put(node, usable(state, *queue, node));
            }
        }
    }

    fn recount_all(&mut self, state: &State) {
        let served = self.served.iter();
        self.by_queue = served.map(|&queue| (queue, LockedCapacity::default())).collect();
        for estate in state.estates().iter().filter(|estate| estate.queue.is_some()) {
            for queue in state.model.chain(estate.queue) {
                let Some(capacity) = self.by_queue.get_mut(queue) else {
                    continue;
                };
                let locks = &state.model.queues[*queue].locks;
                // The queue whose estate it is lists all of it.
                let is_listed = |node: &&NodeId| {
                    *queue == estate.queue || locks.binary_search(state.model.nodes.name(**node)).is_ok()
                };
                let nodes = &state.nodes_in_order()[estate.from..estate.to];
                capacity.by_node.reserve(nodes.len());
                for &node in nodes.iter().filter(is_listed) {
                    capacity.put(node, usable(state, *queue, node));
                }
            }
        }
    }
}
