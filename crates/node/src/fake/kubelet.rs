//! The fake kubelet as a state machine: events in, actions out, time as an argument.
//!
//! Every pod and node has a *want*, a function of what is known of it and of the time: nothing, a look at a later time, or an
//! action. Whatever happens to it, its want is computed again. So the newest state decides, an action that became pointless is
//! never sent, and a restart needs no memory: the API server's objects are all there is.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use basalt_api::backoff::Backoff;
use serde_json::{Value, json};
use slab::Slab;

use super::facts::{AtExit, NodeFacts, Phase, PodFacts, Shape};
use super::intern::Interner;
use super::status::{self, Ending, Moment};
use super::template::Size;
use super::timers::Timers;
use crate::addresses::Addresses;

mod nodes;
mod pods;
#[cfg(test)]
mod tests;

/// Milliseconds since the epoch, or a length of time.
pub type Millis = i64;

/// A time that never comes.
const NEVER: Millis = Millis::MAX;
/// A container that is started again is so at most this often.
const RESTART_PERIOD: Millis = 10_000;
/// A node's status is reported at most this often, so that two reporters cannot keep each other busy.
const REPORT_PERIOD: Millis = 1_000;
/// The delays after which a failed write is tried again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

/// What the API server tells.
#[derive(Debug, Clone)]
pub enum Event {
    /// A node was listed, added or changed.
    NodeApplied(NodeFacts),
    /// A node was deleted.
    NodeDeleted(String),
    /// A list of all nodes begins.
    NodesRelisting,
    /// The list is complete: what it did not name is gone.
    NodesListed,
    /// A bound pod was listed, added or changed.
    PodApplied(Box<PodFacts>),
    /// The pod with this uid was deleted.
    PodDeleted(String),
    /// A list of all bound pods begins.
    PodsRelisting,
    /// The list is complete: what it did not name is gone.
    PodsListed,
    /// An action came to its end.
    Done(Target, Outcome),
}

/// What an action is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The pod with this uid.
    Pod(Arc<str>),
    /// The node with this name.
    Node(Arc<str>),
}

/// How an action ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server did it.
    Done,
    /// Its target does not exist any more.
    Gone,
    /// It failed; to be tried again later.
    Failed,
}

/// What to ask of the API server.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Patch a pod's status.
    PatchPod {
        /// Which pod.
        pod: PodRef,
        /// The strategic merge patch, with the uid in it.
        patch: Value,
        /// What its owner should be told.
        warnings: Vec<String>,
    },
    /// Delete a pod for good: no grace period, uid as precondition.
    DeletePod(PodRef),
    /// Patch a node's labels and taints and then its status.
    PatchNode {
        /// Which node.
        name: Arc<str>,
        /// The merge patch of its labels and taints, if it is needed.
        registration: Option<Value>,
        /// The strategic merge patch of its status, if it is needed.
        status: Option<Value>,
    },
}

impl Action {
    /// What the action is about.
    pub fn target(&self) -> Target {
        match self {
            Self::PatchPod { pod, .. } | Self::DeletePod(pod) => Target::Pod(Arc::clone(&pod.uid)),
            Self::PatchNode { name, .. } => Target::Node(Arc::clone(name)),
        }
    }
}

/// A pod's address in the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Start,
    /// The containers once more; the number of restarts that this makes.
    Restart(u32),
    Finish(Ending),
    Remove,
}

#[derive(Debug, PartialEq, Eq)]
enum Want {
    Nothing,
    Look(Millis),
    Do(Verb),
}

fn at(due: Millis, now: Millis, verb: Verb) -> Want {
    match due {
        NEVER => Want::Nothing,
        due if due > now => Want::Look(due),
        _ => Want::Do(verb),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Node(usize),
    Pod(usize),
}

/// What pods and nodes share: whether they wait for their turn, for the server, or for a time.
#[derive(Debug, Clone, Copy)]
struct Turn {
    queued: bool,
    sent: bool,
    attempts: u8,
    listed: u32,
    hold: Millis,
    timer: Millis,
}

impl Turn {
    fn new(listed: u32) -> Self {
        Self {
            queued: false,
            sent: false,
            attempts: 0,
            listed,
            hold: 0,
            timer: NEVER,
        }
    }

    fn retry(&mut self, now: Millis) {
        let delay = RETRY.delay_after(u32::from(self.attempts)).as_millis();
        self.hold = now.saturating_add(Millis::try_from(delay).unwrap_or(Millis::MAX));
        self.attempts = self.attempts.saturating_add(1);
    }
}

#[derive(Debug)]
struct Pod {
    namespace: Arc<str>,
    name: Box<str>,
    uid: Arc<str>,
    shape: Arc<Shape>,
    node: usize,
    address: Option<Ipv4Addr>,
    phase: Phase,
    /// The final delete was acknowledged: a finalizer may keep the object, but it is not ours any more.
    removed: bool,
    verb: Option<Verb>,
    restarts: u32,
    scheduled: Millis,
    started: Millis,
    run_started: Millis,
    stop_at: Millis,
    turn: Turn,
}

impl Pod {
    /// When the containers end by themselves, and how.
    fn ending(&self) -> (Millis, Verb) {
        let exit = self
            .shape
            .run_time
            .map_or(NEVER, |t| self.run_started.saturating_add(t));
        let deadline = self
            .shape
            .active_deadline
            .map_or(NEVER, |t| self.started.saturating_add(t));
        match self.shape.at_exit {
            _ if deadline <= exit => (deadline, Verb::Finish(Ending::Deadline)),
            AtExit::End => (exit, Verb::Finish(Ending::Exit)),
            AtExit::Restart => {
                let next = exit.max(self.run_started.saturating_add(RESTART_PERIOD)).min(deadline);
                (
                    next,
                    if next == deadline {
                        Verb::Finish(Ending::Deadline)
                    } else {
                        Verb::Restart(self.restarts.saturating_add(1))
                    },
                )
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serving {
    Fake,
    /// Somebody else's node.
    Foreign,
    /// Does not exist; its pods go at this time.
    Absent(Millis),
}

#[derive(Debug)]
struct Node {
    name: Arc<str>,
    uid: Arc<str>,
    serving: Serving,
    address: Option<Ipv4Addr>,
    /// The facts, while something is left to report.
    lacking: Option<Box<NodeFacts>>,
    /// Whether the facts came after the report on its way: it may have gone to an older node of this name.
    fresh: bool,
    pods: HashSet<usize>,
    turn: Turn,
}

/// What the fake kubelet is told once.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The size of a served node that states none.
    pub defaults: Size,
    /// How long a pod may be bound to a node that does not exist; absent: for ever.
    pub orphan_grace: Option<Millis>,
}

/// All served nodes and their pods.
#[derive(Debug)]
pub struct FakeKubelet {
    rules: Rules,
    pods: Slab<Pod>,
    by_uid: HashMap<Arc<str>, usize>,
    nodes: Slab<Node>,
    by_name: HashMap<Arc<str>, usize>,
    shapes: Interner<Shape>,
    namespaces: Interner<str>,
    pod_addresses: Addresses,
    node_addresses: Addresses,
    timers: Timers<Subject>,
    ready: VecDeque<Subject>,
    pods_round: u32,
    nodes_round: u32,
    pods_listed: bool,
    nodes_listed: bool,
}
impl FakeKubelet {
    /// A kubelet that knows nothing yet; it does nothing before both lists are complete.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            pods: Slab::default(),
            by_uid: HashMap::new(),
            nodes: Slab::default(),
            by_name: HashMap::new(),
            shapes: Interner::default(),
            namespaces: Interner::default(),
            pod_addresses: Addresses::of_pods(),
            node_addresses: Addresses::of_nodes(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            pods_round: 0,
            nodes_round: 0,
            pods_listed: false,
            nodes_listed: false,
        }
    }

    /// Takes note of an event.
    pub fn apply(&mut self, now: Millis, event: Event) {
        match event {
            Event::NodeApplied(facts) => self.node_applied(now, facts),
            Event::NodeDeleted(name) => self.node_deleted(now, &name),
            Event::NodesRelisting => self.nodes_round = self.nodes_round.wrapping_add(1),
            Event::NodesListed => self.nodes_listed(now),
            Event::PodApplied(facts) => self.pod_applied(now, *facts),
            Event::PodDeleted(uid) => self.pod_gone(&uid),
            Event::PodsRelisting => self.pods_round = self.pods_round.wrapping_add(1),
            Event::PodsListed => self.pods_listed(now),
            Event::Done(Target::Pod(uid), outcome) => self.pod_done(now, &uid, outcome),
            Event::Done(Target::Node(name), outcome) => self.node_done(now, &name, outcome),
        }
    }

    /// The next action, if there is one to do now.
    pub fn take(&mut self, now: Millis) -> Option<Action> {
        while let Some(subject) = self.timers.pop_due(now) {
            if let Some(turn) = self.turn_mut(subject) {
                turn.timer = NEVER;
                self.look(now, subject);
            }
        }
        while let Some(subject) = self.ready.pop_front() {
            let Some(turn) = self.turn_mut(subject) else { continue };
            turn.queued = false;
            let action = match subject {
                Subject::Pod(slot) => self.act_on_pod(now, slot),
                Subject::Node(slot) => self.act_on_node(now, slot),
            };
            if action.is_some() {
                return action;
            }
            self.look(now, subject);
        }
        None
    }

    /// When to ask again if nothing happens before.
    pub fn next_due(&self) -> Option<Millis> {
        self.timers.next_due()
    }

    /// How many pods and served nodes there are.
    pub fn counts(&self) -> (usize, usize) {
        (
            self.by_uid.len(),
            self.nodes.iter().filter(|(_, n)| n.serving == Serving::Fake).count(),
        )
    }

    /// Name and uid of the served nodes.
    pub fn served(&self) -> Vec<(Arc<str>, Arc<str>)> {
        let served = self.nodes.iter().filter(|(_, n)| n.serving == Serving::Fake);
        served.map(|(_, n)| (Arc::clone(&n.name), Arc::clone(&n.uid))).collect()
    }

    fn turn_mut(&mut self, subject: Subject) -> Option<&mut Turn> {
        match subject {
            Subject::Pod(slot) => self.pods.get_mut(slot).map(|p| &mut p.turn),
            Subject::Node(slot) => self.nodes.get_mut(slot).map(|n| &mut n.turn),
        }
    }

    fn listed(&self) -> bool {
        self.pods_listed && self.nodes_listed
    }

    fn want(&self, subject: Subject, now: Millis) -> Want {
        let (want, turn) = match subject {
            Subject::Pod(slot) => match self.pods.get(slot) {
                Some(pod) => (self.pod_want(pod, now), &pod.turn),
                None => return Want::Nothing,
            },
            Subject::Node(slot) => match self.nodes.get(slot) {
                Some(node) if node.lacking.is_some() => (Want::Do(Verb::Start), &node.turn),
                _ => return Want::Nothing,
            },
        };
        match want {
            // The answer on its way will make us look again.
            _ if turn.sent || !self.listed() => Want::Nothing,
            Want::Do(_) if turn.hold > now => Want::Look(turn.hold),
            want => want,
        }
    }

    fn pod_want(&self, pod: &Pod, now: Millis) -> Want {
        if pod.removed {
            return Want::Nothing;
        }
        match self.nodes.get(pod.node).map(|n| n.serving) {
            None | Some(Serving::Foreign) => return Want::Nothing,
            Some(Serving::Absent(due)) => return at(due, now, Verb::Remove),
            Some(Serving::Fake) => {}
        }
        let (end, verb) = pod.ending();
        match (pod.phase, pod.stop_at) {
            (Phase::Pending, NEVER) => Want::Do(Verb::Start),
            (Phase::Running, NEVER) => at(end, now, verb),
            (Phase::Finished, NEVER) => Want::Nothing,
            (Phase::Running, stop_at) => at(stop_at.min(end), now, Verb::Remove),
            (Phase::Pending | Phase::Finished, _) => Want::Do(Verb::Remove),
        }
    }

    /// Computes a subject's want again, and lines it up or sets its timer.
    fn look(&mut self, now: Millis, subject: Subject) {
        let want = self.want(subject, now);
        let Some(turn) = self.turn_mut(subject) else { return };
        match want {
            Want::Nothing => {}
            Want::Look(due) => {
                // An earlier timer stays: when it fires, we look again.
                if due < turn.timer {
                    turn.timer = due;
                    self.timers.push(due, subject);
                }
            }
            Want::Do(_) => {
                if !turn.queued {
                    turn.queued = true;
                    self.ready.push_back(subject);
                }
            }
        }
    }

    fn look_at_pods_of(&mut self, now: Millis, node: usize) {
        let mut pods: Vec<usize> = self
            .nodes
            .get(node)
            .map(|n| n.pods.iter().copied().collect())
            .unwrap_or_default();
        pods.sort_unstable();
        for pod in pods {
            self.look(now, Subject::Pod(pod));
        }
    }

    fn look_at_all(&mut self, now: Millis) {
        let nodes: Vec<usize> = self.nodes.iter().map(|(slot, _)| slot).collect();
        for node in nodes {
            self.look(now, Subject::Node(node));
            self.look_at_pods_of(now, node);
        }
    }
}
