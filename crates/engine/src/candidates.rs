//! For each shape of pods, the best node at any time.
//!
//! A tournament tree over all nodes in tie-breaking order holds, at each leaf, how good the node is for the shape; the
//! root holds the best. The ledger's journal says which nodes changed, so a tree catches up on those alone: a placement
//! costs one leaf, and so does its rollback.
//!
//! Nodes that are locked for a queue stand side by side in that order (an estate), so one tree serves all queues: each looks
//! at the stretches of leaves that it may use.
//!
//! A pod that is tied to others, or for which nodes have to be compared, needs more: the leaves of its shape's tree are
//! the sites that all nodes together then judge and rank.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{ClassId, Id, NodeId, TaskId};
use crate::mutants::mutant;
use crate::plugin::{Fit, Hooks, Shape, Site};
use crate::session::{Estate, State};

/// Scores have this many steps per point, so that they are integers in the tree.
const SCORE_STEPS: f64 = 4_294_967_296.0;
const SCORE_LIMIT: i64 = (1 << 60) - 1;

/// A leaf's worth: 0 = cannot take the pod; else the fit in the top bits, then the score.
fn worth(fit: Fit, score: f64) -> u64 {
    let score = ((score * SCORE_STEPS) as i64).clamp(-SCORE_LIMIT, SCORE_LIMIT) + SCORE_LIMIT;
    let level = if fit == Fit::Idle { 2 } else { 1 };
    (level << 62) | score as u64
}

/// How many leaves all trees together may have: half a gigabyte.
const LEAVES_MAX: usize = 1 << 25;

fn trees_max(state: &State) -> usize {
    (LEAVES_MAX / state.by_rank.len().next_power_of_two()).max(64)
}

fn fit_of(worth: u64) -> Fit {
    if worth >> 62 == 2 { Fit::Idle } else { Fit::Future }
}

fn score_of(worth: u64) -> f64 {
    let steps = (worth & ((1 << 62) - 1)).cast_signed() - SCORE_LIMIT;
    steps as f64 / SCORE_STEPS
}

/// The trees of all shapes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    trees: FxHashMap<Shape, Box<Tree>>,
    /// Kept for its room.
    sites: Vec<Site>,
}

impl Candidates {
    /// Forgets everything, after the configuration changed.
    pub(crate) fn clear(&mut self) {
        self.trees.clear();
    }

    /// Forgets some classes.
    pub(crate) fn forget(&mut self, classes: &FxHashSet<ClassId>) {
        if !classes.is_empty() {
            self.trees.retain(|shape, _| !classes.contains(&shape.class));
        }
    }

    /// The tree of a shape, up to date; it is the same for all queues.
    fn tree(&mut self, state: &State, hooks: &Hooks, shape: Shape) -> &mut Tree {
        let shape = shape.anywhere();
        // A cluster in which every pod has a shape of its own must not fill the memory: then trees are built again.
        if !self.trees.contains_key(&shape) && self.trees.len() >= trees_max(state) {
            self.trees.clear();
        }
        let tree = self.trees.entry(shape).or_default();
        tree.sync(state, hooks, shape);
        tree
    }

    /// How many pods of this shape find room at most, now or in future, if no other pods come.
    pub(crate) fn slots(&mut self, state: &State, hooks: &Hooks, shape: Shape) -> u64 {
        let reach = state.reach(shape.class, shape.right);
        let slots = self.tree(state, hooks, shape).count_slots(state, shape);
        match reach {
            None => slots.totals.iter().sum(),
            Some(reach) => reach.iter().map(|&estate| slots.totals[estate as usize]).sum(),
        }
    }

    /// The best node for a pod: idle room before future room, then one that is locked for its queue (or else for the next
    /// one above), then the score, then the order of nodes.
    pub(crate) fn best(&mut self, state: &State, hooks: &Hooks, task: TaskId) -> Option<(NodeId, Fit)> {
        let shape = hooks.shape(state, task);
        if hooks.is_wide(state, task, shape) {
            return self.best_of_all(state, hooks, task, shape);
        }
        let reach = state.reach(shape.class, shape.right);
        let tree = self.tree(state, hooks, shape);
        let (rank, worth) = match reach {
            None => tree.best()?,
            Some(reach) => tree.best_within(state.estates(), &reach)?,
        };
        Some((state.by_rank[rank], fit_of(worth)))
    }

    /// The same for a pod for which nodes have to be looked at together.
    fn best_of_all(&mut self, state: &State, hooks: &Hooks, task: TaskId, shape: Shape) -> Option<(NodeId, Fit)> {
        let mut sites = std::mem::take(&mut self.sites);
        sites.clear();
        let reach = state.reach(shape.class, shape.right);
        let place = |node: NodeId| {
            let estate = state.model.nodes[node].estate;
            reach
                .as_ref()
                .map_or(Some(0), |reach| reach.iter().position(|&known| known == estate))
        };
        let leaves = self.tree(state, hooks, shape).leaves().iter();
        let open = leaves
            .zip(&*state.by_rank)
            .filter(|&(&worth, &node)| worth > 0 && place(node).is_some());
        sites.extend(open.map(|(&worth, &node)| Site {
            node,
            fit: fit_of(worth),
            blocker: None,
            score: score_of(worth),
        }));
        hooks.judge(state, task, &mut sites);
        sites.retain(|site| site.blocker.is_none());
        let fit = sites.iter().map(|site| site.fit).max();
        sites.retain(|site| Some(site.fit) == fit);
        let nearest = sites.iter().filter_map(|site| place(site.node)).min();
        sites.retain(|site| place(site.node) == nearest);
        if sites.len() > 1 {
            hooks.rank(state, task, &mut sites);
        }
        let mut best: Option<(u64, NodeId, Fit)> = None;
        for site in &sites {
            let worth = worth(site.fit, site.score);
            if best.is_none_or(|(known, ..)| worth > known) {
                best = Some((worth, site.node, site.fit));
            }
        }
        self.sites = sites;
        best.map(|(_, node, fit)| (node, fit))
    }
}

/// How many pods of a class the nodes have room for, each node for itself. Kept only for classes that are asked about.
#[derive(Clone, Debug, Default)]
struct Slots {
    /// As in [`Tree`].
    order_version: u64,
    read: u64,
    by_node: Vec<u32>,
    /// By estate.
    totals: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Tree {
    /// The node order that the leaves follow.
    order_version: u64,
    order: Arc<Vec<NodeId>>,
    /// See [`State::nodes_version`]; 0: never built.
    nodes_version: u64,
    /// How far the journal has been read.
    read: u64,
    /// Number of leaves, a power of two.
    width: usize,
    /// `worths[width + rank]` is a leaf, `worths[i]` the larger of its two children.
    worths: Vec<u64>,
    /// By node: the shape's constraints allow it. Changes only with the node's facts.
    admits: Vec<bool>,
    /// What is on a node can speak against the shape.
    minds_guests: bool,
    /// See [`Hooks::score_version`].
    score_version: u64,
    /// Looked at last.
    images_version: u64,
    slots: Slots,
}

impl Tree {
    fn sync(&mut self, state: &State, hooks: &Hooks, shape: Shape) {
        let journal = &state.ledger.journal;
        let images = state.model.places.images_version;
        if self.order_version == state.order_version && self.read == journal.end() && self.images_version == images {
            return;
        }
        let mut fresh = self.nodes_version == state.nodes_version;
        if self.images_version != images || !fresh {
            self.images_version = images;
            let version = hooks.score_version(state, shape);
            fresh &= std::mem::replace(&mut self.score_version, version) == version;
        }
        if fresh && self.order_version != state.order_version {
            self.move_leaves(state);
        }
        let touched = if fresh { journal.since(self.read) } else { None };
        match touched {
            None => self.build(state, hooks, shape),
            Some(touched) => {
                let many = (journal.end() - self.read) as usize > self.width / 8;
                for (node, facts_changed) in touched {
                    if !state.model.nodes[node].present {
                        continue;
                    }
                    if facts_changed {
                        self.admits[node.index()] = hooks.unfit(state, shape, node).is_none();
                    }
                    let leaf = self.width + state.model.nodes[node].rank as usize;
                    let worth = self.weigh(state, hooks, shape, node);
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
        self.nodes_version = state.nodes_version;
        self.read = journal.end();
    }

    /// The same nodes stand in another order.
    fn move_leaves(&mut self, state: &State) {
        let before = self.leaves().to_vec();
        for (&node, worth) in self.order.iter().zip(before) {
            self.worths[self.width + state.model.nodes[node].rank as usize] = worth;
        }
        self.order = state.by_rank.clone();
        self.play_all();
    }

    fn build(&mut self, state: &State, hooks: &Hooks, shape: Shape) {
        self.width = state.by_rank.len().next_power_of_two();
        self.order = state.by_rank.clone();
        self.worths.clear();
        self.worths.resize(2 * self.width, 0);
        self.minds_guests = hooks.minds_guests(state, shape);
        self.admits.clear();
        self.admits.resize(state.model.nodes.slots(), false);
        for (rank, &node) in state.by_rank.iter().enumerate() {
            self.admits[node.index()] = hooks.unfit(state, shape, node).is_none();
            self.worths[self.width + rank] = self.weigh(state, hooks, shape, node);
        }
        self.play_all();
    }

    fn weigh(&self, state: &State, hooks: &Hooks, shape: Shape, node: NodeId) -> u64 {
        let request = state.model.classes.request(shape.class);
        if !self.admits[node.index()] || !state.ledger.future().fits(node.index(), request) {
            return 0;
        }
        let mut fit = if state.ledger.idle().fits(node.index(), request) || mutant!(TakeLeavingRoom) {
            Fit::Idle
        } else {
            Fit::Future
        };
        if self.minds_guests {
            if hooks.guest_blocker(state, shape, node, Fit::Future).is_some() {
                return 0;
            }
            if fit == Fit::Idle && hooks.guest_blocker(state, shape, node, Fit::Idle).is_some() {
                fit = Fit::Future;
            }
        }
        worth(fit, hooks.score(state, shape, node))
    }

    /// Brings the slots up to date; the tree is so already.
    fn count_slots(&mut self, state: &State, shape: Shape) -> &Slots {
        let journal = &state.ledger.journal;
        let request = state.model.classes.request(shape.class);
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
                slots.totals.clear();
                slots.totals.resize(state.estates().len().max(1), 0);
                for &node in state.nodes_in_order() {
                    let room = room(node);
                    slots.by_node[node.index()] = room;
                    slots.totals[state.model.nodes[node].estate as usize] += u64::from(room);
                }
            }
            Some(touched) => {
                for (node, _) in touched.filter(|&(node, _)| state.model.nodes[node].present) {
                    let room = room(node);
                    let before = std::mem::replace(&mut slots.by_node[node.index()], room);
                    let total = &mut slots.totals[state.model.nodes[node].estate as usize];
                    *total = *total - u64::from(before) + u64::from(room);
                }
            }
        }
        slots.order_version = state.order_version;
        slots.read = journal.end();
        slots
    }

    fn leaves(&self) -> &[u64] {
        &self.worths[self.width..]
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
        Some((self.first_of(1, best), best))
    }

    /// The best of some estates: of those with idle room the first, or else the first with future room.
    fn best_within(&self, estates: &[Estate], reach: &[u32]) -> Option<(usize, u64)> {
        let mut later = None;
        for estate in reach.iter().map(|&at| estates[at as usize]) {
            let Some(best) = self.best_between(estate.from, estate.to) else {
                continue;
            };
            if fit_of(best.1) == Fit::Idle {
                return Some(best);
            }
            later = later.or(Some(best));
        }
        later
    }

    /// The best leaf from one rank up to another: the first of the few subtrees that make up the stretch and have the best.
    fn best_between(&self, from: usize, to: usize) -> Option<(usize, u64)> {
        let (mut left, mut right) = (from + self.width, to + self.width);
        // Subtrees from the left come in order, those from the right in reverse.
        let (mut first, mut last) = ((0, 0), (0, 0));
        while left < right {
            if left % 2 == 1 {
                if self.worths[left] > first.1 {
                    first = (left, self.worths[left]);
                }
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                if self.worths[right] >= last.1 {
                    last = (right, self.worths[right]);
                }
            }
            left /= 2;
            right /= 2;
        }
        let (at, best) = if last.1 > first.1 { last } else { first };
        (best > 0).then(|| (self.first_of(at, best), best))
    }

    /// The first leaf of a subtree that has this worth.
    fn first_of(&self, mut at: usize, best: u64) -> usize {
        while at < self.width {
            at = if self.worths[2 * at] == best {
                2 * at
            } else {
                2 * at + 1
            };
        }
        at - self.width
    }
}
