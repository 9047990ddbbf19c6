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

use crate::model::{ClassId, Id, NodeId, QueueId, TaskId};
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
            Some(reach) => tree.best_within(&reach)?,
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
        let leaves = self.tree(state, hooks, shape).leaves();
        let open = leaves
            .zip(&*state.by_rank)
            .filter(|&(worth, &node)| worth > 0 && place(node).is_some());
        sites.extend(open.map(|(worth, &node)| Site {
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

/// The tree of one estate, as a stretch of all worths.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Where it begins.
    base: usize,
    /// Number of leaves, a power of two.
    width: usize,
    /// The rank of its first node, …
    from: usize,
    /// … and how many nodes it has.
    nodes: usize,
}

/// A tournament for each estate: the best node of any is at hand, however many there are.
#[derive(Clone, Debug, Default)]
struct Tree {
    /// The node order that the leaves follow.
    order_version: u64,
    order: Arc<Vec<NodeId>>,
    /// See [`State::nodes_version`]; 0: never built.
    nodes_version: u64,
    /// How far the journal has been read.
    read: u64,
    /// By estate, in the order of ranks.
    stretches: Vec<Stretch>,
    /// In a stretch `worths[base + width + n]` is the leaf of its n-th node, `worths[base + i]` the larger of its two children.
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
                let many = (journal.end() - self.read) as usize > self.order.len() / 8;
                for (node, facts_changed) in touched {
                    if !state.model.nodes[node].present {
                        continue;
                    }
                    if facts_changed {
                        self.admits[node.index()] = hooks.unfit(state, shape, node).is_none();
                    }
                    let worth = self.weigh(state, hooks, shape, node);
                    let (stretch, leaf) = self.leaf_of(state, node);
                    if many {
                        self.worths[stretch.base + leaf] = worth;
                    } else {
                        self.raise(stretch, leaf, worth);
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
        let before: Vec<u64> = self.leaves().collect();
        let order = std::mem::replace(&mut self.order, state.by_rank.clone());
        self.lay_out(state);
        for (&node, worth) in order.iter().zip(before) {
            let (stretch, leaf) = self.leaf_of(state, node);
            self.worths[stretch.base + leaf] = worth;
        }
        self.play_all();
    }

    /// Room for the trees of all estates, empty.
    fn lay_out(&mut self, state: &State) {
        self.stretches.clear();
        let all = [Estate {
            queue: QueueId::NONE,
            from: 0,
            to: state.by_rank.len(),
        }];
        let estates = if state.is_parted() { state.estates() } else { &all };
        let mut base = 0;
        for estate in estates {
            let nodes = estate.to - estate.from;
            let width = nodes.next_power_of_two();
            self.stretches.push(Stretch {
                base,
                width,
                from: estate.from,
                nodes,
            });
            base += 2 * width;
        }
        self.worths.clear();
        self.worths.resize(base, 0);
    }

    /// The stretch of a node, and its leaf there.
    fn leaf_of(&self, state: &State, node: NodeId) -> (Stretch, usize) {
        let record = &state.model.nodes[node];
        let stretch = self.stretches[if self.stretches.len() > 1 {
            record.estate as usize
        } else {
            0
        }];
        (stretch, stretch.width + record.rank as usize - stretch.from)
    }

    fn build(&mut self, state: &State, hooks: &Hooks, shape: Shape) {
        self.order = state.by_rank.clone();
        self.lay_out(state);
        self.minds_guests = hooks.minds_guests(state, shape);
        self.admits.clear();
        self.admits.resize(state.model.nodes.slots(), false);
        for &node in &*state.by_rank {
            self.admits[node.index()] = hooks.unfit(state, shape, node).is_none();
            let (stretch, leaf) = self.leaf_of(state, node);
            self.worths[stretch.base + leaf] = self.weigh(state, hooks, shape, node);
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

    /// All leaves, in the order of nodes.
    fn leaves(&self) -> impl Iterator<Item = u64> {
        let leaves = |stretch: &Stretch| {
            let first = stretch.base + stretch.width;
            self.worths[first..first + stretch.nodes].iter().copied()
        };
        self.stretches.iter().flat_map(leaves)
    }

    fn raise(&mut self, stretch: Stretch, leaf: usize, worth: u64) {
        let worths = &mut self.worths[stretch.base..stretch.base + 2 * stretch.width];
        worths[leaf] = worth;
        let mut at = leaf / 2;
        while at > 0 {
            let best = worths[2 * at].max(worths[2 * at + 1]);
            if worths[at] == best {
                return;
            }
            worths[at] = best;
            at /= 2;
        }
    }

    fn play_all(&mut self) {
        for stretch in &self.stretches {
            let worths = &mut self.worths[stretch.base..stretch.base + 2 * stretch.width];
            for at in (1..stretch.width).rev() {
                worths[at] = worths[2 * at].max(worths[2 * at + 1]);
            }
        }
    }

    /// The best of all: the first of those with the largest worth.
    fn best(&self) -> Option<(usize, u64)> {
        let top = |stretch: &&Stretch| self.worths[stretch.base + 1];
        let best = self.stretches.iter().map(|stretch| top(&stretch)).max()?;
        let stretch = self.stretches.iter().find(|stretch| top(stretch) == best)?;
        (best > 0).then(|| (self.first_of(*stretch, best), best))
    }

    /// The best of some estates: of those with idle room the first, or else the first with future room.
    fn best_within(&self, reach: &[u32]) -> Option<(usize, u64)> {
        let mut later = None;
        for stretch in reach.iter().map(|&at| self.stretches[at as usize]) {
            let best = self.worths[stretch.base + 1];
            if best == 0 {
                continue;
            }
            if fit_of(best) == Fit::Idle {
                return Some((self.first_of(stretch, best), best));
            }
            later = later.or(Some((stretch, best)));
        }
        later.map(|(stretch, best)| (self.first_of(stretch, best), best))
    }

    /// The rank of the first node of a stretch that has this worth.
    fn first_of(&self, stretch: Stretch, best: u64) -> usize {
        let worths = &self.worths[stretch.base..stretch.base + 2 * stretch.width];
        let mut at = 1;
        while at < stretch.width {
            at = if worths[2 * at] == best { 2 * at } else { 2 * at + 1 };
        }
        stretch.from + at - stretch.width
    }
}
