//! Every sequence of up to so many operations, on every tree of up to three queues, with a crash after every write.
//!
//! What need not be run twice, and why:
//! - States at rest that differ in names, uids and times alone are one. They are expanded once, on the lowest level (number of
//!   operations) on which they occur.
//! - Where renaming the queues leaves a state as it is, operations that the renaming carries into each other are one.
//! - An operation that is refused, or changes nothing, leads nowhere.
//! - After each write of an operation everything that acts is killed and starts anew: it must come to the very same state as
//!   without the crash, so that there is nothing to explore after a crash. What was alike in the middle ends alike, and is run
//!   once.
//!
//! The next operation also comes while everything is down, right after each write. Where that leads counts as both
//! operations, and is explored from there on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use basalt_engine::Conf;

use super::canon::{Form, difference, plain};
use super::operation::{By, Operation, Work, queue_name};
use super::random::Failure;
use super::spread::spread;
use super::{Stuck, empty_cluster};
use crate::api::{Api, Key, Kind, Snapshot};
use crate::kernel::Kernel;
use crate::whim::Whim;

/// Queues in a tree.
const QUEUES: u8 = 3;
/// The trees: for each queue, the one it hangs under.
const TREES: [&[Option<u8>]; 8] = [
    &[],
    &[None],
    &[None, None],
    &[None, Some(0)],
    &[None, None, None],
    &[None, None, Some(0)],
    &[None, Some(0), Some(0)],
    &[None, Some(0), Some(1)],
];

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Different states at rest.
    pub states: u64,
    /// Sequences whose last operation came at rest, merged ones once.
    pub sequences: u64,
    /// Last operations that were refused.
    pub refused: u64,
    /// Crashes after a write, each followed by a run to rest, alike ones by one.
    pub crashes: u64,
    /// Operations that came while everything was down, in the middle of another.
    pub interrupted: u64,
    /// Writes of the parts that act, each followed by an audit.
    pub writes: u64,
}

impl Explored {
    fn add(&mut self, other: Self) {
        self.states += other.states;
        self.sequences += other.sequences;
        self.refused += other.refused;
        self.crashes += other.crashes;
        self.interrupted += other.interrupted;
        self.writes += other.writes;
    }
}

impl std::fmt::Display for Explored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} sequences, {} states at rest, {} crashes, {} operations in the middle of another, {} refusals, {} writes audited",
            self.sequences, self.states, self.crashes, self.interrupted, self.refused, self.writes
        )
    }
}

/// A state at rest, or in the middle of an operation, and how it was reached.
#[derive(Clone)]
struct Node {
    snapshot: Snapshot,
    /// The same for states that are one.
    state: u128,
    path: Vec<String>,
}

impl Node {
    fn new(snapshot: Snapshot, path: Vec<String>) -> Self {
        let state = Form::of(&snapshot).merged();
        Self { snapshot, state, path }
    }
}

/// What came of the operations on one state.
#[derive(Default)]
struct Expanded {
    explored: Explored,
    /// States at rest.
    rest: Vec<Node>,
    /// States right after a write.
    middle: Vec<Node>,
    failures: Vec<Failure>,
}

/// How operations are tried.
struct Trial<'a> {
    conf: &'a Conf,
    threads: usize,
    /// Where each state that was crashed in has ended.
    ends: Mutex<HashMap<u128, u128>>,
}

/// Tries all sequences of up to `depth` operations, `threads` at a time. Operations also come in the middle of the first
/// `interrupted` ones before.
pub fn explore(conf: &Conf, depth: usize, interrupted: usize, threads: usize) -> (Explored, Vec<Failure>) {
    let trial = Trial {
        conf,
        threads,
        ends: Mutex::default(),
    };
    let mut explored = Explored::default();
    let mut here = match trees(conf) {
        Ok(trees) => trees,
        Err(failure) => return (explored, vec![failure]),
    };
    let (mut seen, mut seen_middle) = (BTreeSet::new(), BTreeSet::new());
    // What one operation more leads to, and what two do.
    let (mut next, mut after): (Vec<Node>, Vec<Node>) = (Vec::new(), Vec::new());
    for round in 1..=depth {
        let interrupts = round <= interrupted && round < depth;
        let level = fresh(here, &mut seen);
        explored.states += level.len() as u64;
        let mut done = trial.all(&level, |node| trial.expand(node, interrupts));
        next.append(&mut done.rest);
        let middle = fresh(std::mem::take(&mut done.middle), &mut seen_middle);
        let mut cut_in = trial.all(&middle, |node| trial.interrupt(node));
        after.append(&mut cut_in.rest);
        explored.add(done.explored);
        explored.add(cut_in.explored);
        done.failures.append(&mut cut_in.failures);
        if !done.failures.is_empty() {
            return (explored, done.failures);
        }
        (here, next) = (next, std::mem::take(&mut after));
    }
    explored.states += fresh(here, &mut seen).len() as u64;
    (explored, Vec::new())
}

/// The nodes whose states were not seen yet, each once.
fn fresh(nodes: Vec<Node>, seen: &mut BTreeSet<u128>) -> Vec<Node> {
    let mut kept: BTreeMap<u128, Node> = BTreeMap::new();
    for node in nodes.into_iter().filter(|node| !seen.contains(&node.state)) {
        kept.entry(node.state).or_insert(node);
    }
    seen.extend(kept.keys());
    kept.into_values().collect()
}

/// The trees that sequences begin with, at rest.
fn trees(conf: &Conf) -> Result<Vec<Node>, Failure> {
    let failed = |stuck: Stuck| Failure::new(&["the empty cluster".to_owned()], vec![stuck.to_string()], "");
    let empty = empty_cluster(conf).map_err(failed)?;
    let mut nodes = Vec::new();
    for tree in TREES {
        let mut kernel = Kernel::new(&empty, conf, Whim::none());
        let mut path = Vec::new();
        for (queue, parent) in (0..).zip(tree) {
            let operation = Operation::Create {
                queue,
                parent: *parent,
                closed: false,
            };
            path.push(operation.to_string());
            if let Some(request) = operation.request(kernel.api()) {
                let answer = kernel.ask(&request);
                if let Err(refusal) = answer {
                    return Err(Failure::new(&path, vec![refusal.to_string()], ""));
                }
            }
            kernel
                .settle()
                .map_err(|stuck| Failure::new(&path, vec![stuck.to_string()], ""))?;
        }
        let findings: Vec<String> = kernel.settled_findings().iter().map(ToString::to_string).collect();
        if !findings.is_empty() {
            return Err(Failure::new(&path, findings, ""));
        }
        nodes.push(Node::new(kernel.api().snapshot(), path));
    }
    Ok(nodes)
}

/// The operations that can be tried in a state, of those that come to the same one.
fn operations(snapshot: &Snapshot) -> Vec<Operation> {
    let mut operations = all_operations(&Api::resumed(snapshot));
    operations.sort_unstable();
    let symmetries = Form::of(snapshot).symmetries();
    let all = operations.clone();
    operations.retain(|operation| {
        let mut alike = symmetries.iter().map(|naming| operation.renamed(*naming));
        !alike.any(|other| other < *operation && all.binary_search(&other).is_ok())
    });
    operations
}

/// The operations that can be tried where these queues are.
fn all_operations(api: &Api) -> Vec<Operation> {
    let there: Vec<u8> = (0..QUEUES)
        .filter(|queue| api.get(&Key::new(Kind::Queue, "", &queue_name(*queue))).is_some())
        .collect();
    let mut operations = Vec::new();
    let parents = || std::iter::once(None).chain(there.iter().map(|queue| Some(*queue)));
    if let Some(queue) = (0..QUEUES).find(|queue| !there.contains(queue)) {
        for (parent, closed) in parents().flat_map(|parent| [(parent, false), (parent, true)]) {
            operations.push(Operation::Create { queue, parent, closed });
        }
    }
    for &queue in &there {
        operations.extend([By::Spec, By::Command].map(|by| Operation::Close(queue, by)));
        operations.extend([By::Spec, By::Command].map(|by| Operation::Open(queue, by)));
        operations.extend([Work::Job, Work::Group, Work::Pod].map(|work| Operation::Submit(queue, work)));
        operations.extend([Operation::Delete(queue), Operation::Finish(queue)]);
        operations.extend(["Open", "Closing", "Closed"].map(|state| Operation::RawStatus(queue, state)));
        let others = parents().filter(|parent| *parent != Some(queue));
        operations.extend(others.map(|parent| Operation::Reparent(queue, parent)));
    }
    operations
}

impl Trial<'_> {
    /// Does something with all nodes; what came of it, in their order.
    fn all(&self, nodes: &[Node], work: impl Fn(&Node) -> Expanded + Sync) -> Expanded {
        let mut all = Expanded::default();
        for part in spread(nodes.len(), self.threads, |at| nodes.get(at).map(&work))
            .into_iter()
            .flatten()
        {
            all.explored.add(part.explored);
            all.rest.extend(part.rest);
            all.middle.extend(part.middle);
            all.failures.extend(part.failures);
        }
        all
    }

    /// Applies every operation to a state at rest.
    fn expand(&self, node: &Node, keep_middle: bool) -> Expanded {
        let mut all = Expanded::default();
        let mut started: Option<Kernel> = None;
        for operation in operations(&node.snapshot) {
            let kernel = match started.take().map_or_else(|| self.start(node), Ok) {
                Ok(kernel) => kernel,
                Err(failure) => {
                    all.failures.push(failure);
                    return all;
                }
            };
            match self.apply(kernel, node, operation, keep_middle, &mut all) {
                Ok(unspent) => started = unspent,
                Err(failure) => all.failures.push(failure),
            }
        }
        all
    }

    /// Everything starts, sees all, and finds nothing to do: the state is one at rest.
    fn start(&self, node: &Node) -> Result<Kernel, Failure> {
        let mut kernel = Kernel::new(&node.snapshot, self.conf, Whim::none());
        run(&mut kernel).map_err(|what| Failure::new(&node.path, what, ""))?;
        if kernel.writes() > 0 {
            let what = difference(&plain(&node.snapshot), &plain(&kernel.api().snapshot()));
            let what = vec![format!("L4: a restart at rest writes:\n{what}")];
            return Err(Failure::new(&node.path, what, ""));
        }
        kernel.keep_snapshots();
        Ok(kernel)
    }

    /// Applies an operation where everything runs and is at rest; gives the kernel back if nothing came of it.
    fn apply(
        &self,
        mut kernel: Kernel,
        node: &Node,
        operation: Operation,
        keep_middle: bool,
        all: &mut Expanded,
    ) -> Result<Option<Kernel>, Failure> {
        let Some(request) = operation.request(kernel.api()) else {
            return Ok(Some(kernel));
        };
        let path: Vec<String> = node.path.iter().cloned().chain([operation.to_string()]).collect();
        all.explored.sequences += 1;
        let revision = kernel.api().revision();
        all.explored.refused += u64::from(kernel.ask(&request).is_err());
        if kernel.api().revision() == revision {
            return Ok(Some(kernel));
        }
        let asked = kernel.api().snapshot();
        run(&mut kernel).map_err(|what| Failure::new(&path, what, ""))?;
        all.explored.writes += kernel.writes();
        let rest = kernel.api().snapshot();
        let (form, snapshots) = (Form::of(&rest), kernel.take_snapshots());
        let wanted = form.plain();
        for (writes, snapshot) in std::iter::once(asked).chain(snapshots).enumerate() {
            let mut path = path.clone();
            path.push(format!("(crash after write {writes})"));
            self.crash(&snapshot, (&rest, wanted), &path, all)?;
            if keep_middle {
                all.middle.push(Node::new(snapshot, path));
            }
        }
        let state = form.merged();
        all.rest.push(Node {
            snapshot: rest,
            state,
            path,
        });
        Ok(None)
    }

    /// Starts everything anew in the middle of an operation; it must end as it would have without.
    fn crash(
        &self,
        snapshot: &Snapshot,
        (rest, wanted): (&Snapshot, u128),
        path: &[String],
        all: &mut Expanded,
    ) -> Result<(), Failure> {
        all.explored.crashes += 1;
        let middle = Form::of(snapshot).plain();
        let known = || self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if known().get(&middle) == Some(&wanted) {
            return Ok(());
        }
        let mut kernel = Kernel::new(snapshot, self.conf, Whim::none());
        kernel.keep_log();
        let ended = run(&mut kernel);
        all.explored.writes += kernel.writes();
        let found = kernel.api().snapshot();
        let mut what = ended.err().unwrap_or_default();
        if Form::of(&found).plain() != wanted {
            let changed = difference(&plain(rest), &plain(&found));
            what.push(format!("L4: a crash changes the end:\n{changed}"));
        }
        if what.is_empty() {
            known().insert(middle, wanted);
            return Ok(());
        }
        Err(Failure::new(path, what, kernel.log()))
    }

    /// Applies every operation in the middle of another, with everything dead.
    fn interrupt(&self, node: &Node) -> Expanded {
        let mut all = Expanded::default();
        for operation in operations(&node.snapshot) {
            let mut kernel = Kernel::new(&node.snapshot, self.conf, Whim::none());
            let Some(request) = operation.request(kernel.api()) else {
                continue;
            };
            all.explored.interrupted += 1;
            let revision = kernel.api().revision();
            all.explored.refused += u64::from(kernel.ask(&request).is_err());
            // Where nothing came of it, it is a crash like any other.
            if kernel.api().revision() == revision {
                continue;
            }
            let path: Vec<String> = node.path.iter().cloned().chain([operation.to_string()]).collect();
            match run(&mut kernel) {
                Ok(()) => {
                    all.explored.writes += kernel.writes();
                    all.rest.push(Node::new(kernel.api().snapshot(), path));
                }
                Err(what) => all.failures.push(Failure::new(&path, what, "")),
            }
        }
        all
    }
}

/// Runs to rest; what is wrong then.
fn run(kernel: &mut Kernel) -> Result<(), Vec<String>> {
    kernel.settle().map_err(|stuck| vec![stuck.to_string()])?;
    let findings: Vec<String> = kernel.settled_findings().iter().map(ToString::to_string).collect();
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}
