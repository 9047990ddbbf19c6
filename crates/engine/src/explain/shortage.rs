//! Why no node takes a pod: counted once for all pods that want the same, and kept up to date through the ledger's
//! journal, so that a cycle in which little changed explains little.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::reason::{Code, Reason};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::facts::quantity;
use crate::model::{ClassId, Id, NodeId, QueueId, TaskId};
use crate::plugin::{Blocker, Fit, Hooks, Site, Want};
use crate::resources::DimId;
use crate::session::State;

/// More shapes than that are counted anew in each cycle.
const COUNTS_MAX: usize = 1024;

/// Why no node takes a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shortage {
    /// Number of nodes by what speaks against them; each node counts once.
    nodes: BTreeMap<String, usize>,
    /// The resource that most nodes lack: its name, what a pod needs, the most that a node has.
    worst: Option<(Arc<str>, i64, i64)>,
    /// The queues for which nodes are locked that would have room.
    locked: Vec<Arc<str>>,
}

impl Shortage {
    pub(crate) fn reason(&self) -> Reason {
        let mut reason = match &self.worst {
            _ if !self.locked.is_empty() => {
                let reason = Reason::new(Code::NodeLocked);
                match &self.locked[..] {
                    [queue] => reason.queue(&**queue),
                    _ => reason,
                }
            }
            Some((name, need, have)) => {
                Reason::new(Code::NotEnoughResources).amounts(&**name, quantity(name, *need), quantity(name, *have))
            }
            None => Reason::new(Code::NoFittingNode),
        };
        for (why, &count) in &self.nodes {
            reason = reason.nodes(why.as_str(), count);
        }
        reason
    }
}

/// All shortages: those found in this cycle, and the counts behind them.
#[derive(Default)]
pub(crate) struct Shortages {
    /// Of pods that are not tied to others, whatever nodes they have a right to.
    counts: FxHashMap<Want, Box<Lacks>>,
    found: FxHashMap<Want, Arc<Shortage>>,
}

impl Shortages {
    /// Forgets everything, after the configuration changed.
    pub(crate) fn clear(&mut self) {
        *self = Shortages::default();
    }

    /// A cycle begins: nothing is found short yet.
    pub(crate) fn open(&mut self, freed: &FxHashSet<ClassId>) {
        self.found.clear();
        if self.counts.len() > COUNTS_MAX {
            self.counts.clear();
        }
        if !freed.is_empty() {
            self.counts.retain(|want, _| !freed.contains(&want.shape.class));
        }
    }

    /// Nothing is short so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// What was found last in this cycle.
    pub(crate) fn get(&self, want: Want) -> Option<&Arc<Shortage>> {
        self.found.get(&want)
    }

    /// Notes that no node takes this pod. The counts are as things stand now: with the pods of its job that were placed before
    /// it, and whoever else came first.
    pub(crate) fn note(&mut self, state: &State, hooks: &Hooks, task: TaskId, want: Want) -> Arc<Shortage> {
        let shortage = if want.is_plain() {
            let lacks = self.counts.entry(Want::plain(want.shape.anywhere()));
            let lacks = lacks.or_insert_with(|| Box::new(Lacks::of(state, want)));
            lacks.sync(state, hooks, want);
            lacks.tell(state, want)
        } else {
            let mut lacks = Lacks::of(state, want);
            lacks.judge_all(state, hooks, task, want);
            lacks.tell(state, want)
        };
        self.found.insert(want, shortage.clone());
        shortage
    }
}

/// What speaks against a node for itself, room and locks aside.
fn blocker(state: &State, hooks: &Hooks, want: Want, node: NodeId, minds_guests: bool) -> Option<Blocker> {
    let guests = || hooks.guest_blocker(state, want.shape, node, Fit::Future);
    hooks
        .unfit(state, want.shape, node)
        .or_else(|| if minds_guests { guests() } else { None })
}

/// What speaks against a node.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Lack {
    /// Nothing.
    #[default]
    Nothing,
    /// Too little of the resource that stands here in the class's list.
    Room(u8),
    /// It does not admit the class.
    Blocked(Blocker),
}

/// The most of a resource that a node has, and which node that is.
#[derive(Clone, Copy, Debug)]
struct Most {
    amount: i64,
    node: NodeId,
    /// That node has less now: another one may have the most.
    stale: bool,
}

const NOBODY: Most = Most {
    amount: i64::MIN,
    node: NodeId::NONE,
    stale: false,
};

/// What speaks against the nodes of an estate, counted.
#[derive(Clone, Default)]
struct Tally {
    /// Nodes against which nothing speaks.
    open: usize,
    lacking: Vec<usize>,
    blocked: BTreeMap<Blocker, usize>,
    most: Vec<Most>,
}

impl Tally {
    fn of(dims: usize) -> Self {
        Tally {
            lacking: vec![0; dims],
            most: vec![NOBODY; dims],
            ..Tally::default()
        }
    }

    fn count(&mut self, lack: Lack, enter: bool) {
        let count = match lack {
            Lack::Nothing => &mut self.open,
            Lack::Room(at) => &mut self.lacking[usize::from(at)],
            Lack::Blocked(blocker) => self.blocked.entry(blocker).or_default(),
        };
        *count = if enter { *count + 1 } else { count.saturating_sub(1) };
    }
}

/// What was told to those with some right to locked nodes.
#[derive(Default)]
struct Told {
    shortage: Arc<Shortage>,
    /// Nothing was counted since.
    fresh: bool,
}

/// A reason does not name more holders of nodes than this.
const HOLDERS_MAX: usize = 4;

/// What speaks against each node, counted.
struct Lacks {
    order_version: u64,
    read: u64,
    /// What a pod asks for, by name.
    request: Vec<(DimId, i64)>,
    /// None: not counted.
    by_node: Vec<Option<Lack>>,
    /// By estate.
    tallies: Vec<Tally>,
    told: FxHashMap<QueueId, Told>,
}

impl Lacks {
    fn of(state: &State, want: Want) -> Self {
        let mut request: Vec<(DimId, i64)> = state.model.classes.request(want.shape.class).iter().collect();
        request.sort_by(|a, b| state.model.dims.name(a.0).cmp(state.model.dims.name(b.0)));
        // A pod that asks for more kinds of things than that is judged by the first.
        request.truncate(usize::from(u8::MAX));
        Lacks {
            order_version: 0,
            read: 0,
            request,
            by_node: Vec::new(),
            tallies: Vec::new(),
            told: FxHashMap::default(),
        }
    }

    fn sync(&mut self, state: &State, hooks: &Hooks, want: Want) {
        if self.order_version == state.order_version && self.read == state.ledger.journal.end() {
            return;
        }
        for told in self.told.values_mut() {
            told.fresh = false;
        }
        let minds_guests = hooks.minds_guests(state, want.shape);
        let journal = &state.ledger.journal;
        let fresh = self.order_version == state.order_version;
        let touched = if fresh { journal.since(self.read) } else { None };
        if let Some(touched) = touched {
            for (node, facts_changed) in touched.filter(|&(node, _)| state.model.nodes[node].present) {
                let blocker = match self.by_node[node.index()] {
                    _ if facts_changed || minds_guests => blocker(state, hooks, want, node, minds_guests),
                    Some(Lack::Blocked(blocker)) => Some(blocker),
                    _ => None,
                };
                self.judge(state, node, blocker);
            }
        } else {
            self.begin(state);
            for &node in state.nodes_in_order() {
                self.judge(state, node, blocker(state, hooks, want, node, minds_guests));
            }
        }
        self.order_version = state.order_version;
        self.read = journal.end();
        for estate in 0..self.tallies.len() {
            for at in 0..self.request.len() {
                if self.tallies[estate].most[at].stale {
                    self.look_for_most(state, estate, at);
                }
            }
        }
    }

    fn begin(&mut self, state: &State) {
        self.by_node.clear();
        self.by_node.resize(state.model.nodes.slots(), None);
        self.tallies = vec![Tally::of(self.request.len()); state.estates().len().max(1)];
    }

    /// Counts all nodes for a pod that is tied to others.
    fn judge_all(&mut self, state: &State, hooks: &Hooks, task: TaskId, want: Want) {
        let minds_guests = hooks.minds_guests(state, want.shape);
        let site = |&node: &NodeId| Site {
            node,
            fit: Fit::Idle,
            blocker: blocker(state, hooks, want, node, minds_guests),
            score: 0.0,
        };
        let mut sites: Vec<Site> = state.nodes_in_order().iter().map(site).collect();
        hooks.judge(state, task, &mut sites);
        self.begin(state);
        for site in sites {
            self.judge(state, site.node, site.blocker);
        }
    }

    fn free(state: &State, node: NodeId, dim: DimId) -> i64 {
        let future = state.ledger.future().get(node.index(), dim);
        future.min(state.ledger.idle_of(node, dim))
    }

    /// Counts a node by the first thing that speaks against it.
    fn judge(&mut self, state: &State, node: NodeId, blocker: Option<Blocker>) {
        let mut lack = blocker.map_or(Lack::Nothing, Lack::Blocked);
        let tally = &mut self.tallies[state.model.nodes[node].estate as usize];
        for (at, &(dim, need)) in self.request.iter().enumerate() {
            let free = if blocker.is_some() {
                i64::MIN
            } else {
                Self::free(state, node, dim)
            };
            let most = &mut tally.most[at];
            if free > most.amount {
                *most = Most {
                    amount: free,
                    node,
                    stale: false,
                };
            } else if most.node == node {
                most.stale |= free < most.amount;
            }
            if lack == Lack::Nothing && need > free {
                lack = Lack::Room(at as u8);
            }
        }
        if let Some(before) = self.by_node[node.index()].replace(lack) {
            tally.count(before, false);
        }
        tally.count(lack, true);
    }

    fn look_for_most(&mut self, state: &State, estate: usize, at: usize) {
        let dim = self.request[at].0;
        let nodes = state.nodes_in_order();
        let nodes = state.estates().get(estate).map_or(nodes, |of| &nodes[of.from..of.to]);
        let open = nodes
            .iter()
            .filter(|node| !matches!(self.by_node[node.index()], Some(Lack::Blocked(_))));
        let most = open
            .map(|&node| (Self::free(state, node, dim), node))
            .max_by_key(|&(free, _)| free);
        self.tallies[estate].most[at] = most.map_or(NOBODY, |(amount, node)| Most {
            amount,
            node,
            stale: false,
        });
    }

    /// The counts in words, for those with some right to locked nodes; the same object as last time if they are the same.
    fn tell(&mut self, state: &State, want: Want) -> Arc<Shortage> {
        let mut told = self.told.remove(&want.shape.right).unwrap_or_default();
        if !std::mem::replace(&mut told.fresh, true) {
            let shortage = self.shortage(state, want);
            if *told.shortage != shortage {
                told.shortage = Arc::new(shortage);
            }
        }
        let shortage = told.shortage.clone();
        self.told.insert(want.shape.right, told);
        shortage
    }

    fn shortage(&self, state: &State, want: Want) -> Shortage {
        let reach = state.reach(want.shape.class, want.shape.right);
        let is_near = |estate: usize| {
            let is_it = |&near: &u32| near as usize == estate;
            reach.as_ref().is_none_or(|reach| reach.iter().any(is_it))
        };
        let (near, far): (Vec<usize>, Vec<usize>) = (0..self.tallies.len()).partition(|&estate| is_near(estate));
        let mut shortage = Shortage::default();
        for tally in &self.tallies {
            for (blocker, &count) in tally.blocked.iter().filter(|&(_, &count)| count > 0) {
                *shortage.nodes.entry(blocker.words().to_owned()).or_default() += count;
            }
        }
        self.add_locked(state, &far, &mut shortage);
        let lacking = |at: usize| -> usize { near.iter().map(|&estate| self.tallies[estate].lacking[at]).sum() };
        let worst = (0..self.request.len()).map(lacking).max().unwrap_or(0);
        for (at, &(dim, need)) in self.request.iter().enumerate().filter(|&(at, _)| lacking(at) > 0) {
            let name = state.model.dims.name(dim);
            shortage.nodes.insert(format!("not enough {name}"), lacking(at));
            if lacking(at) == worst && shortage.worst.is_none() {
                let most = near.iter().map(|&estate| self.tallies[estate].most[at].amount).max();
                shortage.worst = Some((name.clone(), need, most.unwrap_or(0).max(0)));
            }
        }
        shortage
    }

    /// Counts the nodes that are locked for others and have nothing else against the pod but perhaps their room.
    fn add_locked(&self, state: &State, far: &[usize], shortage: &mut Shortage) {
        let mut named = 0;
        for &estate in far {
            let tally = &self.tallies[estate];
            let Some(holder) = state.estates().get(estate) else {
                continue;
            };
            let holder = state.model.queues.name(holder.queue);
            let count = tally.open + tally.lacking.iter().sum::<usize>();
            if count == 0 {
                continue;
            }
            named += 1;
            let words = if named > HOLDERS_MAX {
                "locked for other queues".to_owned()
            } else {
                format!("locked for queue {holder:?}")
            };
            *shortage.nodes.entry(words).or_default() += count;
            if tally.open > 0 {
                shortage.locked.push(holder.clone());
            }
        }
    }
}
