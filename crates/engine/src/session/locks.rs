//! Locks: nodes that are kept for a queue. Every node is of one estate: that of the deepest queue that it is locked for, or
//! the free one. Estates part the nodes, and a queue uses those on its own way up, and the free one.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::State;
use crate::ledger::{Status, Touch};
use crate::model::{ClassId, Id, NodeId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::resources::Columns;

/// The nodes of one holder. They stand side by side in the order of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Estate {
    /// The holder; none: nobody.
    pub queue: QueueId,
    /// The first one's rank …
    pub from: usize,
    /// … and the rank after the last one's.
    pub to: usize,
}

/// Estates that a pod may use, the best first.
pub(crate) type Reach = SmallVec<[u32; 4]>;

/// Who holds what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locks {
    /// Locks count: the plugin is configured.
    pub on: bool,
    /// By a node's name: the queues that list it.
    lists: FxHashMap<Arc<str>, SmallVec<[QueueId; 2]>>,
    /// The tree of queues changed: another holder may be the deepest.
    pub tree_stale: bool,
    /// Nodes changed hands.
    pub moved: bool,
    /// What held nodes offer may have changed.
    pub worth_stale: bool,
    /// The estates, the free one first, then by the holder's name. One and no more: nothing is locked.
    estates: Vec<Estate>,
    /// By queue: its estate, 0 if it has none.
    by_queue: Vec<u32>,
    /// By queue: what the nodes of its estate offer …
    own: Columns,
    /// … and those of all estates below it, with its own.
    below: Columns,
}

impl State {
    /// The deepest queue that lists a node; of unrelated ones the first by name.
    pub(super) fn find_holder(&self, node: &str) -> Option<QueueId> {
        let queues = &self.model.queues;
        let lists = self.locks.lists.get(node)?.iter().copied();
        lists.min_by(|&a, &b| {
            let depth = queues[b].chain.len().cmp(&queues[a].chain.len());
            let depth = if mutant!(ObeyTopHolder) { depth.reverse() } else { depth };
            depth.then_with(|| queues.name(a).cmp(queues.name(b)))
        })
    }

    /// Notes which nodes are locked for a queue; true when that changed. The list is sorted.
    pub(super) fn set_locks(&mut self, queue: QueueId, locks: Vec<Arc<str>>) -> bool {
        if self.model.queues[queue].locks == locks {
            return false;
        }
        let before = std::mem::replace(&mut self.model.queues[queue].locks, locks.clone());
        let is_in = |list: &[Arc<str>], name: &Arc<str>| list.binary_search(name).is_ok();
        for name in before.iter().filter(|name| !is_in(&locks, name)) {
            if let Some(list) = self.locks.lists.get_mut(name) {
                list.retain(|holder| *holder != queue);
                if list.is_empty() {
                    self.locks.lists.remove(name);
                }
            }
            self.hand_over(name);
        }
        for name in locks.iter().filter(|name| !is_in(&before, name)) {
            self.locks.lists.entry(name.clone()).or_default().push(queue);
            self.hand_over(name);
        }
        self.end_foreign_holds();
        true
    }

    /// Works out anew who holds a node.
    fn hand_over(&mut self, name: &Arc<str>) {
        let Some(node) = self.model.nodes.find(name) else {
            return;
        };
        let holder = self.find_holder(name);
        if self.model.nodes[node].present && self.model.nodes[node].holder != holder {
            self.model.nodes[node].holder = holder;
            self.locks.moved = true;
            self.locks.worth_stale = true;
            self.ledger.journal.touch(node, Touch::Facts);
        }
    }

    /// Switches locks on or off, with the plugin.
    pub(crate) fn honour_locks(&mut self, on: bool) {
        if std::mem::replace(&mut self.locks.on, on) != on {
            self.locks.moved = true;
            self.locks.worth_stale = true;
            self.end_foreign_holds();
        }
    }

    /// Room that is kept for a pod on a node that is locked for others now is kept no more.
    fn end_foreign_holds(&mut self) {
        let is_foreign = |&task: &TaskId| {
            let (record, node) = (&self.model.tasks[task], self.ledger.node(task));
            self.ledger.status(task) == Status::Pipelined && node.is_some() && record.job.is_some() && {
                let right = self.right_of(record.class, self.model.jobs[record.job].queue);
                self.locked_against(record.class, right, node).is_some()
            }
        };
        let held = self.holds.iter().map(|hold| hold.task);
        let foreign: Vec<TaskId> = held.filter(is_foreign).collect();
        for task in foreign {
            self.holds.retain(|hold| hold.task != task);
            self.model.tasks[task].nominated = None;
            self.unassume(task);
        }
    }

    /// Brings what follows from locks up to date when a cycle begins.
    pub(super) fn settle_locks(&mut self) {
        if std::mem::take(&mut self.locks.tree_stale) {
            // Another holder may be the deepest now, where there are several, and other queues above it.
            let shared = self.locks.lists.iter().filter(|(_, holders)| holders.len() > 1);
            let mut shared: Vec<Arc<str>> = shared.map(|(name, _)| name.clone()).collect();
            shared.sort_unstable();
            for name in &shared {
                self.hand_over(name);
            }
            self.end_foreign_holds();
            self.locks.worth_stale = true;
            self.locks.moved |= !self.locks.lists.is_empty();
        }
        if std::mem::take(&mut self.locks.worth_stale) {
            self.weigh_estates();
        }
    }

    fn weigh_estates(&mut self) {
        let State { model, locks, .. } = self;
        for columns in [&mut locks.own, &mut locks.below] {
            columns.reserve(model.queues.slots(), model.dims.count());
            columns.fill(0);
        }
        for node in model.nodes.ids().filter(|_| locks.on && !locks.lists.is_empty()) {
            if let (true, Some(holder)) = (model.nodes[node].present, model.nodes[node].holder) {
                let offer = &model.nodes[node].allocatable;
                locks.own.add(holder.index(), offer);
                for above in &model.queues[holder].chain {
                    locks.below.add(above.index(), offer);
                }
            }
        }
    }

    /// Puts nodes into the order of their estates; inside each they stay in the order given.
    pub(super) fn part(&mut self, by_rank: &mut [NodeId]) {
        let State { model, locks, .. } = self;
        let holder = |node: NodeId| model.nodes[node].holder.filter(|_| locks.on);
        let mut holders: Vec<QueueId> = by_rank.iter().filter_map(|&node| holder(node)).collect();
        holders.sort_unstable();
        holders.dedup();
        holders.sort_by(|&a, &b| model.queues.name(a).cmp(model.queues.name(b)));
        locks.by_queue.clear();
        locks.by_queue.resize(model.queues.slots(), 0);
        for (at, queue) in (1..).zip(&holders) {
            locks.by_queue[queue.index()] = at;
        }
        let estate = |node: NodeId| holder(node).map_or(0, |holder| locks.by_queue[holder.index()]);
        let estates: Vec<u32> = by_rank.iter().map(|&node| estate(node)).collect();
        let mut sizes = vec![0; holders.len() + 1];
        for (&node, &estate) in by_rank.iter().zip(&estates) {
            model.nodes[node].estate = estate;
            sizes[estate as usize] += 1;
        }
        let mut next = 0;
        let with_free = std::iter::once(QueueId::NONE).chain(holders);
        locks.estates = with_free
            .zip(&sizes)
            .map(|(queue, size)| {
                let from = next;
                next += size;
                Estate { queue, from, to: next }
            })
            .collect();
        if locks.estates.len() > 1 {
            let mut places: Vec<usize> = locks.estates.iter().map(|estate| estate.from).collect();
            let before = by_rank.to_vec();
            for (&node, estate) in before.iter().zip(estates) {
                let place = &mut places[estate as usize];
                by_rank[*place] = node;
                *place += 1;
            }
        }
    }

    /// The estates, the free one first; of a node's estate `node.estate` is the index.
    pub(crate) fn estates(&self) -> &[Estate] {
        &self.locks.estates
    }

    /// Whether any node is locked for anybody.
    pub(crate) fn is_parted(&self) -> bool {
        self.locks.estates.len() > 1
    }

    /// The queue by which a pod of a class in a queue has a right to locked nodes: the nearest one on its way up that has
    /// any. All pods with the same one may use the same nodes.
    pub(crate) fn right_of(&self, class: ClassId, queue: QueueId) -> QueueId {
        if !self.locks.on || self.locks.lists.is_empty() || self.goes_everywhere(class) {
            return QueueId::NONE;
        }
        let holds = |queue: &&QueueId| !self.model.queues[**queue].locks.is_empty();
        self.model
            .chain(queue)
            .iter()
            .find(holds)
            .copied()
            .unwrap_or(QueueId::NONE)
    }

    fn goes_everywhere(&self, class: ClassId) -> bool {
        self.model.classes[class].key.constraints.everywhere
    }

    /// The queue that a node is locked for, if that keeps pods of a class with such a right away.
    pub(crate) fn locked_against(&self, class: ClassId, right: QueueId, node: NodeId) -> Option<QueueId> {
        let holder = self.model.nodes[node]
            .holder
            .filter(|_| self.locks.on && !mutant!(IgnoreLocks))?;
        (!self.model.chain(right).contains(&holder) && !self.goes_everywhere(class)).then_some(holder)
    }

    /// The estates that pods of a class with such a right may use, the best first; none: all, and none is better.
    pub(crate) fn reach(&self, class: ClassId, right: QueueId) -> Option<Reach> {
        if !self.is_parted() || self.goes_everywhere(class) || mutant!(IgnoreLocks) {
            return None;
        }
        let estate = |queue: &QueueId| self.locks.by_queue.get(queue.index()).copied().unwrap_or(0);
        let own = self.model.chain(right).iter().map(estate).filter(|&estate| estate > 0);
        Some(own.chain([0]).collect())
    }

    /// What the nodes that are locked for a queue offer, by queue: those of which it is the deepest holder, …
    pub(crate) fn locked_own(&self) -> &Columns {
        &self.locks.own
    }

    /// … and with those of all queues below it.
    pub(crate) fn locked_below(&self) -> &Columns {
        &self.locks.below
    }
}
