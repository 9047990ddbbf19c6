//! Why no node takes a pod: counted once for all pods that want the same, and kept up to date through the ledger's
//! journal, so that a cycle in which little changed explains little.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::reason::{Code, Reason};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::facts::quantity;
use crate::model::{ClassId, Id, NodeId, TaskId};
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
}

impl Shortage {
    pub(crate) fn reason(&self) -> Reason {
        let mut reason = match &self.worst {
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
    /// Of pods that are not tied to others.
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
            let lacks = self.counts.entry(want);
            let lacks = lacks.or_insert_with(|| Box::new(Lacks::of(state, want)));
            lacks.sync(state, hooks, want);
            lacks.tell(state)
        } else {
            let mut lacks = Lacks::of(state, want);
            lacks.judge_all(state, hooks, task, want);
            lacks.tell(state)
        };
        self.found.insert(want, shortage.clone());
        shortage
    }
}

/// What speaks against a node for itself, room aside.
fn blocker(state: &State, hooks: &Hooks, want: Want, node: NodeId, minds_guests: bool) -> Option<Blocker> {
    let guests = || hooks.guest_blocker(state, want.shape, node, Fit::Future);
    hooks
        .blocker(state, want.shape, node)
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

/// What speaks against each node, counted.
struct Lacks {
    order_version: u64,
    read: u64,
    /// What a pod asks for, by name.
    request: Vec<(DimId, i64)>,
    by_node: Vec<Lack>,
    lacking: Vec<usize>,
    blocked: BTreeMap<Blocker, usize>,
    most: Vec<Most>,
    told: Arc<Shortage>,
    /// Nothing was counted since that was told.
    fresh: bool,
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
            lacking: vec![0; request.len()],
            most: vec![NOBODY; request.len()],
            request,
            by_node: Vec::new(),
            blocked: BTreeMap::new(),
            told: Arc::default(),
            fresh: false,
        }
    }

    fn sync(&mut self, state: &State, hooks: &Hooks, want: Want) {
        if self.order_version == state.order_version && self.read == state.ledger.journal.end() {
            return;
        }
        self.fresh = false;
        let minds_guests = hooks.minds_guests(state, want.shape);
        let journal = &state.ledger.journal;
        let fresh = self.order_version == state.order_version;
        let touched = if fresh { journal.since(self.read) } else { None };
        if let Some(touched) = touched {
            for (node, facts_changed) in touched.filter(|&(node, _)| state.model.nodes[node].present) {
                let blocker = match self.by_node[node.index()] {
                    _ if facts_changed || minds_guests => blocker(state, hooks, want, node, minds_guests),
                    Lack::Blocked(blocker) => Some(blocker),
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
        for at in 0..self.most.len() {
            if self.most[at].stale {
                self.look_for_most(state, at);
            }
        }
    }

    fn begin(&mut self, state: &State) {
        self.by_node.clear();
        self.by_node.resize(state.model.nodes.slots(), Lack::Nothing);
        self.lacking.fill(0);
        self.blocked.clear();
        self.most.fill(NOBODY);
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
        for (at, &(dim, need)) in self.request.iter().enumerate() {
            let free = if blocker.is_some() {
                i64::MIN
            } else {
                Self::free(state, node, dim)
            };
            let most = &mut self.most[at];
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
        let before = std::mem::replace(&mut self.by_node[node.index()], lack);
        self.tally(before, false);
        self.tally(lack, true);
    }

    fn tally(&mut self, lack: Lack, enter: bool) {
        let count = match lack {
            Lack::Nothing => return,
            Lack::Room(at) => &mut self.lacking[usize::from(at)],
            Lack::Blocked(blocker) => self.blocked.entry(blocker).or_default(),
        };
        *count = if enter { *count + 1 } else { count.saturating_sub(1) };
    }

    fn look_for_most(&mut self, state: &State, at: usize) {
        let dim = self.request[at].0;
        let open = state
            .nodes_in_order()
            .iter()
            .filter(|node| !matches!(self.by_node[node.index()], Lack::Blocked(_)));
        let most = open
            .map(|&node| (Self::free(state, node, dim), node))
            .max_by_key(|&(free, _)| free);
        self.most[at] = most.map_or(NOBODY, |(amount, node)| Most {
            amount,
            node,
            stale: false,
        });
    }

    /// The counts in words; the same object as last time if they are the same.
    fn tell(&mut self, state: &State) -> Arc<Shortage> {
        if std::mem::replace(&mut self.fresh, true) {
            return self.told.clone();
        }
        let mut shortage = Shortage::default();
        for (blocker, &count) in self.blocked.iter().filter(|&(_, &count)| count > 0) {
            shortage.nodes.insert(blocker.words().to_owned(), count);
        }
        for (at, &(dim, need)) in self.request.iter().enumerate().filter(|&(at, _)| self.lacking[at] > 0) {
            let name = state.model.dims.name(dim);
            shortage.nodes.insert(format!("not enough {name}"), self.lacking[at]);
            if self.lacking.iter().all(|&count| count <= self.lacking[at]) && shortage.worst.is_none() {
                shortage.worst = Some((name.clone(), need, self.most[at].amount.max(0)));
            }
        }
        if *self.told != shortage {
            self.told = Arc::new(shortage);
        }
        self.told.clone()
    }
}
