//! The tree of queues, and what is wrong with it. Only what is wrong waits.

use basalt_api::reason::Code;

use crate::model::{Id, QueueId, ROOT};
use crate::mutants::mutant;
use crate::resources::{Amounts, DimId};
use crate::session::State;

/// The tree, as this cycle sees it.
#[derive(Default)]
pub(super) struct Tree {
    /// None: queues stand side by side.
    root: Option<QueueId>,
    children: Vec<Vec<QueueId>>,
    /// By queue: why its jobs wait, and whose fault it is.
    damage: Vec<Option<(Code, QueueId)>>,
}

impl Tree {
    pub(super) fn of(state: &State, hierarchy: bool) -> Tree {
        let queues = &state.model.queues;
        let mut tree = Tree {
            root: queues.find(ROOT).filter(|_| hierarchy),
            children: vec![Vec::new(); queues.slots()],
            damage: vec![None; queues.slots()],
        };
        if !hierarchy {
            return tree;
        }
        for queue in queues.ids().filter(|&queue| queues[queue].present) {
            if let Some(parent) = queues[queue].parent {
                tree.children[parent.index()].push(queue);
            }
        }
        for siblings in &mut tree.children {
            let age = |&queue: &QueueId| (queues[queue].created_ms, queues.name(queue).clone());
            siblings.sort_by_cached_key(age);
        }
        tree.inspect(state);
        tree
    }

    /// The queue above all others.
    pub(super) fn root(&self) -> Option<QueueId> {
        self.root
    }

    pub(super) fn is_root(&self, queue: QueueId) -> bool {
        self.root == Some(queue)
    }

    /// The queues right below a queue, the oldest first.
    pub(super) fn children(&self, queue: QueueId) -> &[QueueId] {
        &self.children[queue.index()]
    }

    /// Whether there are queues below.
    pub(super) fn is_inner(&self, queue: QueueId) -> bool {
        !self.children.get(queue.index()).is_none_or(Vec::is_empty)
    }

    /// Why the jobs of a queue wait.
    pub(super) fn damage(&self, queue: QueueId) -> Option<(Code, QueueId)> {
        let damage = self.damage.get(queue.index())?.clone();
        damage.filter(|_| !mutant!(ServeInnerQueues))
    }

    fn inspect(&mut self, state: &State) {
        let model = &state.model;
        let mut too_much = vec![false; model.queues.slots()];
        for queue in model.queues.ids().filter(|&queue| !self.is_root(queue)) {
            for youngest in self.overcommitted(state, queue) {
                too_much[youngest.index()] = true;
            }
        }
        for queue in model.queues.ids() {
            let chain = model.chain(queue);
            let lost = |above: &&QueueId| !model.queues[**above].present && !self.is_root(**above);
            let missing = chain.iter().find(lost).copied();
            let endless = chain.last().is_none_or(|&last| !self.is_root(last));
            let over = chain.iter().find(|above| too_much[above.index()]);
            self.damage[queue.index()] = if endless || missing.is_some() {
                Some((Code::QueueTreeBroken, queue))
            } else if let Some(&over) = over {
                Some((Code::QueueOvercommitted, over))
            } else if self.is_inner(queue) || self.is_root(queue) {
                Some((Code::QueueNotLeaf, queue))
            } else {
                None
            };
        }
    }

    /// The youngest children of a queue, as many as have to wait until the rest together deserve, and are guaranteed,
    /// no more than it does itself. What it does not set is not exceeded.
    fn overcommitted(&self, state: &State, parent: QueueId) -> Vec<QueueId> {
        let queues = &state.model.queues;
        let parent_record = &queues[parent];
        let mut left: Vec<QueueId> = self.children(parent).to_vec();
        let mut waiting = Vec::new();
        let sums = |left: &[QueueId], of: fn(&crate::model::Queue) -> &Amounts, dim: DimId| {
            let amounts = left.iter().filter_map(|&child| of(&queues[child]).get(dim));
            amounts.fold(0, i64::saturating_add)
        };
        let kinds: [fn(&crate::model::Queue) -> &Amounts; 2] = [|queue| &queue.deserved, |queue| &queue.guarantee];
        for of in kinds {
            for (dim, most) in of(parent_record).iter() {
                while sums(&left, of, dim) > most {
                    let takes = |&child: &QueueId| of(&queues[child]).get(dim).unwrap_or(0) > 0;
                    let Some(at) = left.iter().rposition(takes) else { break };
                    waiting.push(left.remove(at));
                }
            }
        }
        waiting
    }
}
