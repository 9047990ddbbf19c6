//! What an action remembers of where room can be made: nodes that cannot help stay out until something happens on them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::model::{ClassId, Id, JobId, NodeId, QueueId, TaskId};
use crate::plugin::{Claim, Hooks, Means, Want, lock_preference};
use crate::resources::{Amounts, DimId};
use crate::session::State;

/// Claims of one kind have the same victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub means: Means,
    pub queue: QueueId,
    pub priority: i32,
    /// A job that has something already is a kind of its own: rules may look at what it has.
    pub job: JobId,
}

/// Whose pods may be taken, in widening steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stage {
    /// Only pods of the claimant's own job.
    pub own_job: bool,
    /// How far up the tree of queues: 0 = its own queue, 1 = those below the same parent, and so on.
    pub reach: u8,
    /// Only pods that leave their queue with at least what it deserves.
    pub spare: bool,
}

/// Scores have this many steps per point here.
const SCORE_STEPS: f64 = 1_048_576.0;

type Place = (Reverse<i64>, u32);

/// The nodes that may yet help, best first.
#[derive(Debug, Default)]
pub(super) struct Field {
    open: BTreeSet<Place>,
    /// By rank: where in `open` the node is, or was last.
    scores: Vec<i64>,
    /// How far the journal has been read.
    read: u64,
    built: bool,
}

/// A stretch of the journal in which a node was only tried, so that it is as it was.
#[derive(Clone, Copy, Debug, Default)]
struct Quiet {
    from: u64,
    to: u64,
}

/// The shape of a job's wish: its classes with how many pods of each, and how many it lacks; and the job, if its pods
/// are tied to others, for then its wish is its own.
pub(super) type Wish = (SmallVec<[(ClassId, u32); 2]>, u32, JobId);

/// What an action has learnt so far.
#[derive(Debug, Default)]
pub(super) struct Hunt {
    /// Queues are a tree to the rules.
    pub tree: bool,
    fields: FxHashMap<(Kind, Stage, Want), Field>,
    quiet: FxHashMap<NodeId, Quiet>,
    /// What could not be granted, as long as nothing was decided since.
    refused: FxHashSet<(Kind, Wish)>,
    deserved: FxHashMap<QueueId, Amounts>,
}

impl Hunt {
    pub(super) fn new(tree: bool) -> Self {
        Hunt {
            tree,
            ..Hunt::default()
        }
    }

    /// Whether the same was asked for before, in vain.
    pub(super) fn is_refused(&self, kind: Kind, wish: &Wish) -> bool {
        self.refused.contains(&(kind, wish.clone()))
    }

    pub(super) fn refuse(&mut self, kind: Kind, wish: Wish) {
        self.refused.insert((kind, wish));
    }

    /// Something was decided: what failed before may be possible now.
    pub(super) fn decided(&mut self) {
        self.refused.clear();
    }

    /// Evictions were taken back: nodes that failed because of them may help again.
    pub(super) fn taken_back(&mut self) {
        self.fields.clear();
    }

    /// What a queue deserves.
    pub(super) fn deserved(&mut self, state: &State, hooks: &Hooks, queue: QueueId) -> &Amounts {
        self.deserved
            .entry(queue)
            .or_insert_with(|| hooks.queue_report(state, queue).unwrap_or_default().deserved)
    }

    /// The best node that may yet help.
    pub(super) fn best(&mut self, state: &State, hooks: &Hooks, at: &(Kind, Stage, Want)) -> Option<NodeId> {
        let Hunt { fields, quiet, .. } = self;
        let field = fields.entry(*at).or_default();
        // Where others are taken from in the same queue, the best node counts; else any will do.
        let scored = at.0.means == Means::Preempt;
        field.sync(state, quiet, |node| {
            let preference = lock_preference(state, at.2.shape, node);
            if scored {
                hooks.score(state, at.2.shape, node) + preference
            } else {
                preference
            }
        });
        field
            .open
            .first()
            .map(|&(_, rank)| state.nodes_in_order()[rank as usize])
    }

    /// All nodes that may yet help, best first.
    pub(super) fn all(&mut self, state: &State, hooks: &Hooks, at: &(Kind, Stage, Want)) -> Vec<NodeId> {
        self.best(state, hooks, at);
        let open = self.fields.get(at).into_iter().flat_map(|field| &field.open);
        open.map(|&(_, rank)| state.nodes_in_order()[rank as usize]).collect()
    }

    /// This node cannot help.
    pub(super) fn close(&mut self, state: &State, at: &(Kind, Stage, Want), node: NodeId) {
        if let Some(field) = self.fields.get_mut(at) {
            field.remove(state.model.nodes[node].rank);
        }
    }

    /// The node was tried and left as it was, since it was last touched at `before`.
    pub(super) fn was_tried(&mut self, state: &State, node: NodeId, before: u64) {
        let to = state.ledger.journal.last_touch(node);
        let quiet = self.quiet.entry(node).or_default();
        if quiet.to != before {
            quiet.from = before;
        }
        quiet.to = to;
    }
}

impl Field {
    fn sync(&mut self, state: &State, quiet: &FxHashMap<NodeId, Quiet>, score: impl Fn(NodeId) -> f64) {
        let journal = &state.ledger.journal;
        let steps = |node: NodeId| (score(node) * SCORE_STEPS) as i64;
        match if self.built { journal.since(self.read) } else { None } {
            None => {
                self.scores = state.nodes_in_order().iter().map(|&node| steps(node)).collect();
                let places = self.scores.iter().zip(0..).map(|(&score, rank)| (Reverse(score), rank));
                self.open = places.collect();
                self.built = true;
            }
            Some(touched) => {
                for (node, _) in touched {
                    let unchanged = quiet
                        .get(&node)
                        .is_some_and(|quiet| quiet.to == journal.last_touch(node) && quiet.from <= self.read);
                    if unchanged || !state.model.nodes[node].present {
                        continue;
                    }
                    let rank = state.model.nodes[node].rank;
                    self.remove(rank);
                    let score = steps(node);
                    self.scores[rank as usize] = score;
                    self.open.insert((Reverse(score), rank));
                }
            }
        }
        self.read = journal.end();
    }

    fn remove(&mut self, rank: u32) {
        if let Some(&score) = self.scores.get(rank as usize) {
            self.open.remove(&(Reverse(score), rank));
        }
    }
}

/// How far apart two queues are: how many steps up from `from` until `to` is below.
pub(super) fn distance(state: &State, from: QueueId, to: QueueId) -> u8 {
    let (up, other) = (state.model.chain(from), state.model.chain(to));
    let steps = up.iter().position(|queue| other.contains(queue)).unwrap_or(up.len());
    u8::try_from(steps).unwrap_or(u8::MAX)
}

/// The dimensions that a claimant asks for and that a node will not have.
pub(super) fn short_dims(state: &State, task: TaskId, node: NodeId) -> SmallVec<[DimId; 4]> {
    let request = state.model.classes.request(state.model.tasks[task].class);
    let future = state.ledger.future();
    let lacks = request
        .iter()
        .filter(|&(dim, need)| need > future.get(node.index(), dim));
    lacks.map(|(dim, _)| dim).collect()
}

impl Kind {
    pub(super) fn of(state: &State, claim: &Claim) -> Kind {
        let counts = state.ledger.counts(claim.job);
        let bare = counts.ready() + counts.of(crate::ledger::Status::Pipelined) == 0;
        Kind {
            means: claim.means,
            queue: claim.queue,
            priority: state.model.jobs[claim.job].priority,
            job: if bare { JobId::NONE } else { claim.job },
        }
    }
}
