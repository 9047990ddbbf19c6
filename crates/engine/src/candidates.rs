//! For each class of pods, the best node at any time.
//!
//! A tournament tree over all nodes in tie-breaking order holds, at each leaf, how good the node is for the class; the
//! root holds the best. The ledger's journal says which nodes changed, so a tree catches up on those alone: a placement
//! costs one leaf, and so does its rollback.

use crate::model::{ClassId, Id, NodeId};
use crate::plugin::Hooks;
use crate::session::State;

/// How well a pod fits on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// When what is being released there is gone.
    Future,
    /// Now.
    Idle,
}

/// Scores have this many steps per point, so that they are integers in the tree.
const SCORE_STEPS: f64 = 4_294_967_296.0;
const SCORE_LIMIT: i64 = (1 << 60) - 1;

/// A leaf's worth: 0 = cannot take the pod; else the fit in the top bits, then the score.
fn worth(fit: Fit, score: f64) -> u64 {
    let score = ((score * SCORE_STEPS) as i64).clamp(-SCORE_LIMIT, SCORE_LIMIT) + SCORE_LIMIT;
    let level = if fit == Fit::Idle { 2 } else { 1 };
    (level << 62) | score as u64
}

/// The trees of all classes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    trees: Vec<Option<Box<Tree>>>,
}

impl Candidates {
    /// Forgets everything, after the configuration changed.
    pub(crate) fn clear(&mut self) {
        self.trees.clear();
    }

    /// Forgets one class.
    pub(crate) fn forget(&mut self, class: ClassId) {
        if let Some(tree) = self.trees.get_mut(class.index()) {
            *tree = None;
        }
    }

    /// The tree of a class, up to date.
    fn tree(&mut self, state: &State, hooks: &Hooks, class: ClassId) -> Option<&mut Tree> {
        if self.trees.len() < state.model.classes.slots() {
            self.trees.resize_with(state.model.classes.slots(), || None);
        }
        let tree = self.trees.get_mut(class.index())?.get_or_insert_with(Box::default);
        tree.sync(state, hooks, class);
        Some(tree)
    }

    /// How many pods of this class find room, now or in future, if no other pods come.
    pub(crate) fn slots(&mut self, state: &State, hooks: &Hooks, class: ClassId) -> u64 {
        self.tree(state, hooks, class)
            .map_or(0, |tree| tree.count_slots(state, class))
    }

    /// The best node for a pod of this class: idle room before future room, then the score, then the order of nodes.
    pub(crate) fn best(&mut self, state: &State, hooks: &Hooks, class: ClassId) -> Option<(NodeId, Fit)> {
        let tree = self.tree(state, hooks, class)?;
        let (rank, worth) = tree.best()?;
        let fit = if worth >> 62 == 2 { Fit::Idle } else { Fit::Future };
        Some((state.by_rank[rank], fit))
    }
}

/// How many pods of a class the nodes have room for, each node for itself. Kept only for classes that are asked about.
#[derive(Clone, Debug, Default)]
struct Slots {
    /// As in [`Tree`].
    order_version: u64,
    read: u64,
    by_node: Vec<u32>,
    total: u64,
}

#[derive(Clone, Debug, Default)]
struct Tree {
    /// The node order that the leaves follow; 0: never built.
    order_version: u64,
    /// How far the journal has been read.
    read: u64,
    /// Number of leaves, a power of two.
    width: usize,
    /// `worths[width + rank]` is a leaf, `worths[i]` the larger of its two children.
    worths: Vec<u64>,
    /// By node: the class's constraints allow it. Changes only with the node's facts.
    admits: Vec<bool>,
    slots: Slots,
}

impl Tree {
    fn sync(&mut self, state: &State, hooks: &Hooks, class: ClassId) {
        let journal = &state.ledger.journal;
        if self.order_version == state.order_version && self.read == journal.end() {
            return;
        }
        let touched = if self.order_version == state.order_version {
            journal.since(self.read)
        } else {
            None
        };
        match touched {
            None => self.build(state, hooks, class),
            Some(touched) => {
                let many = (journal.end() - self.read) as usize > self.width / 8;
                for (node, facts_changed) in touched {
                    if !state.model.nodes[node].present {
                        continue;
                    }
                    if facts_changed {
                        self.admits[node.index()] = hooks.blocker(state, class, node).is_none();
                    }
                    let leaf = self.width + state.model.nodes[node].rank as usize;
                    let worth = self.weigh(state, hooks, class, node);
                    if many {
                        self.worths[leaf] = worth;
                    } else {
                        self.raise(leaf, worth);
                    }
                }
                if many {
                    self.play_all();
                }
            }
        }
        self.order_version = state.order_version;
        self.read = journal.end();
    }

    fn build(&mut self, state: &State, hooks: &Hooks, class: ClassId) {
        self.width = state.by_rank.len().next_power_of_two();
        self.worths.clear();
        self.worths.resize(2 * self.width, 0);
        self.admits.clear();
        self.admits.resize(state.model.nodes.slots(), false);
        for (rank, &node) in state.by_rank.iter().enumerate() {
            self.admits[node.index()] = hooks.blocker(state, class, node).is_none();
            self.worths[self.width + rank] = self.weigh(state, hooks, class, node);
        }
        self.play_all();
    }

    fn weigh(&self, state: &State, hooks: &Hooks, class: ClassId, node: NodeId) -> u64 {
        let request = state.model.classes.request(class);
        if !self.admits[node.index()] || !state.ledger.future().fits(node.index(), request) {
            return 0;
        }
        let fit = if state.ledger.idle().fits(node.index(), request) {
            Fit::Idle
        } else {
            Fit::Future
        };
        worth(fit, hooks.score(state, class, node))
    }

    /// Brings the slots up to date; the tree is so already.
    fn count_slots(&mut self, state: &State, class: ClassId) -> u64 {
        let journal = &state.ledger.journal;
        let request = state.model.classes.request(class);
        let Tree { admits, slots, .. } = self;
        let room = |node: NodeId| {
            let admitted = admits[node.index()];
            if admitted {
                state.ledger.future().times(node.index(), request)
            } else {
                0
            }
        };
        let fresh = slots.order_version == state.order_version;
        match if fresh { journal.since(slots.read) } else { None } {
            None => {
                slots.by_node.clear();
                slots.by_node.resize(state.model.nodes.slots(), 0);
                for &node in state.nodes_in_order() {
                    slots.by_node[node.index()] = room(node);
                }
                slots.total = slots.by_node.iter().map(|&count| u64::from(count)).sum();
            }
            Some(touched) => {
                for (node, _) in touched.filter(|&(node, _)| state.model.nodes[node].present) {
                    let before = std::mem::replace(&mut slots.by_node[node.index()], room(node));
                    slots.total = slots.total - u64::from(before) + u64::from(slots.by_node[node.index()]);
                }
            }
        }
        slots.order_version = state.order_version;
        slots.read = journal.end();
        slots.total
    }

    fn raise(&mut self, leaf: usize, worth: u64) {
        self.worths[leaf] = worth;
        let mut at = leaf / 2;
        while at > 0 {
            let best = self.worths[2 * at].max(self.worths[2 * at + 1]);
            if self.worths[at] == best {
                return;
            }
            self.worths[at] = best;
            at /= 2;
        }
    }

    fn play_all(&mut self) {
        for at in (1..self.width).rev() {
            self.worths[at] = self.worths[2 * at].max(self.worths[2 * at + 1]);
        }
    }

    fn best(&self) -> Option<(usize, u64)> {
        let best = *self.worths.get(1).filter(|&&worth| worth > 0)?;
        let mut at = 1;
        while at < self.width {
            at = if self.worths[2 * at] == best {
                2 * at
            } else {
                2 * at + 1
            };
        }
        Some((at - self.width, best))
    }
}
