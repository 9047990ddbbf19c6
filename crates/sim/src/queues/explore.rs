//! Every sequence of up to so many operations, on every tree of up to three queues, with a crash after every write.
//!
//! States at rest that differ in names, uids and times alone are one, so a sequence is not run again where another led to
//! the same state, and refused operations lead nowhere. After each write of an operation everything that acts is killed
//! and starts anew: it must come to the very same state as without the crash. The next operation also comes while
//! everything is down, right after each write.

use std::collections::{BTreeMap, BTreeSet};

use basalt_engine::Conf;

use super::canon::{difference, merged, plain};
use super::operation::{By, Operation, Work, queue_name};
use super::random::{Failure, join};
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
    /// Sequences that were run, merged ones once.
    pub sequences: u64,
    /// Of their last operations, those that were refused.
    pub refused: u64,
    /// Crashes, each followed by a run to rest.
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
            "{} sequences ({} ended in a refusal), {} states, {} crashes, {} operations in the middle of another, {} writes audited",
            self.sequences, self.refused, self.states, self.crashes, self.interrupted, self.writes
        )
    }
}

/// A state at rest, or in the middle of an operation, and how it was reached.
#[derive(Clone)]
struct Node {
    snapshot: Snapshot,
    path: Vec<String>,
}

/// What came of one operation.
#[derive(Default)]
struct Expanded {
    explored: Explored,
    /// States at rest.
    rest: Vec<Node>,
    /// States right after a write.
    middle: Vec<Node>,
    failures: Vec<Failure>,
}

/// Tries all sequences of up to `depth` operations, `threads` at a time. Operations also come in the middle of the ones
/// before, of which there are at most `interrupted`.
pub fn explore(conf: &Conf, depth: usize, interrupted: usize, threads: usize) -> (Explored, Vec<Failure>) {
    let mut explored = Explored::default();
    let mut failures = Vec::new();
    let mut level = match trees(conf) {
        Ok(level) => level,
        Err(failure) => return (explored, vec![failure]),
    };
    let mut seen: BTreeSet<u128> = level.iter().map(|node| merged(&node.snapshot)).collect();
    let mut seen_middle: BTreeSet<u128> = BTreeSet::new();
    explored.states = seen.len() as u64;
    for round in 1..=depth {
        let done = spread(conf, &level, false, threads);
        let mut next = Vec::new();
        let middle = fresh(done.middle, &mut seen_middle);
        explored.add(done.explored);
        failures.extend(done.failures);
        next.extend(done.rest);
        if round <= interrupted && round < depth {
            let done = spread(conf, &middle, true, threads);
            explored.add(done.explored);
            failures.extend(done.failures);
            // Reached by one operation more: left to the next round, which does not mind.
            next.extend(done.rest);
        }
        level = fresh(next, &mut seen);
        explored.states += level.len() as u64;
        if !failures.is_empty() {
            break;
        }
    }
    (explored, failures)
}

/// The nodes whose states were not seen yet.
fn fresh(nodes: Vec<Node>, seen: &mut BTreeSet<u128>) -> Vec<Node> {
    let mut kept: BTreeMap<u128, Node> = BTreeMap::new();
    for node in nodes {
        let state = merged(&node.snapshot);
        if !seen.contains(&state) {
            kept.entry(state).or_insert(node);
        }
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
        nodes.push(Node {
            snapshot: kernel.api().snapshot(),
            path,
        });
    }
    Ok(nodes)
}

/// Expands all nodes, in order of their threads' shares.
fn spread(conf: &Conf, nodes: &[Node], down: bool, threads: usize) -> Expanded {
    let share = nodes.len().div_ceil(threads.max(1)).max(1);
    let parts: Vec<Expanded> = std::thread::scope(|scope| {
        let hands: Vec<_> = nodes
            .chunks(share)
            .map(|nodes| {
                scope.spawn(move || {
                    let mut all = Expanded::default();
                    for node in nodes {
                        expand(conf, node, down, &mut all);
                    }
                    all
                })
            })
            .collect();
        hands.into_iter().map(join).collect()
    });
    let mut all = Expanded::default();
    for part in parts {
        all.explored.add(part.explored);
        all.rest.extend(part.rest);
        all.middle.extend(part.middle);
        all.failures.extend(part.failures);
    }
    all
}

fn expand(conf: &Conf, node: &Node, down: bool, all: &mut Expanded) {
    for operation in operations(&Api::resumed(&node.snapshot)) {
        if let Err(failure) = apply(conf, node, operation, down, all) {
            all.failures.push(failure);
        }
    }
}

/// The operations that can be tried where these queues are.
fn operations(api: &Api) -> Vec<Operation> {
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

/// Applies an operation to a state: at rest, or (`down`) in the middle of another, with everything dead.
fn apply(conf: &Conf, node: &Node, operation: Operation, down: bool, all: &mut Expanded) -> Result<(), Failure> {
    let mut kernel = Kernel::new(&node.snapshot, conf, Whim::none());
    let mut path = node.path.clone();
    path.push(operation.to_string());
    let fail = |kernel: &mut Kernel, what: Vec<String>| Failure::new(&path, what, kernel.log());
    if !down {
        // Everything starts, sees all, and finds nothing to do: the state is one at rest.
        run(&mut kernel).map_err(|what| fail(&mut kernel, what))?;
        if kernel.writes() > 0 {
            return Err(fail(&mut kernel, vec!["L4: a restart at rest writes".to_owned()]));
        }
    }
    let Some(request) = operation.request(kernel.api()) else {
        return Ok(());
    };
    all.explored.sequences += 1;
    all.explored.interrupted += u64::from(down);
    kernel.keep_snapshots();
    if kernel.ask(&request).is_err() {
        all.explored.refused += 1;
        if !down {
            return Ok(());
        }
    }
    let asked = kernel.api().snapshot();
    run(&mut kernel).map_err(|what| fail(&mut kernel, what))?;
    all.explored.writes += kernel.writes();
    let rest = kernel.api().snapshot();
    if !down {
        let wanted = plain(&rest);
        let mut middle = vec![asked];
        middle.extend(kernel.take_snapshots());
        middle.pop(); // after the last write there is nothing more to crash
        for (writes, snapshot) in middle.into_iter().enumerate() {
            crash(conf, &snapshot, &wanted, &path, writes, all)?;
            let mut path = path.clone();
            path.push(format!("(crash after write {writes})"));
            all.middle.push(Node { snapshot, path });
        }
    }
    all.rest.push(Node { snapshot: rest, path });
    Ok(())
}

/// Runs to rest; what is wrong then.
fn run(kernel: &mut Kernel) -> Result<(), Vec<String>> {
    kernel.settle().map_err(|stuck| vec![stuck.to_string()])?;
    let findings: Vec<String> = kernel.settled_findings().iter().map(ToString::to_string).collect();
    if findings.is_empty() { Ok(()) } else { Err(findings) }
}

/// Starts everything anew in the middle of an operation; it must end as it would have without.
fn crash(
    conf: &Conf,
    snapshot: &Snapshot,
    wanted: &str,
    path: &[String],
    writes: usize,
    all: &mut Expanded,
) -> Result<(), Failure> {
    all.explored.crashes += 1;
    let mut kernel = Kernel::new(snapshot, conf, Whim::none());
    kernel.keep_log();
    let ended = run(&mut kernel);
    all.explored.writes += kernel.writes();
    let found = plain(&kernel.api().snapshot());
    let mut what = ended.err().unwrap_or_default();
    if found != wanted {
        what.push(format!("L4: a crash changes the end:\n{}", difference(wanted, &found)));
    }
    if what.is_empty() {
        return Ok(());
    }
    let mut path = path.to_vec();
    path.push(format!("(crash after write {writes})"));
    Err(Failure::new(&path, what, kernel.log()))
}
