//! Long random sequences: operations at any moment, views that lag, actors that die, answers that are lost.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use basalt_engine::Conf;

use super::canon::{difference, plain};
use super::operation::{By, Operation, Work, queue_name};
use super::spread::spread;
use crate::actor::BindMode;
use crate::api::{Api, Key, Kind, Snapshot};
use crate::kernel::{Faults, Kernel, Who};
use crate::whim::Whim;

/// Operations of one sequence.
const LENGTH: usize = 12;
/// Steps between two operations at most.
const BETWEEN: usize = 80;
/// How often things go wrong.
const FAULTS: Faults = Faults {
    kill: 3,
    lose: 3,
    fail: 3,
};

/// A sequence that ended badly.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was done.
    pub path: Vec<String>,
    /// What was wrong then.
    pub findings: Vec<String>,
    /// Everything that happened, where it was kept.
    pub log: String,
}

impl Failure {
    pub(crate) fn new(path: &[String], findings: Vec<String>, log: &str) -> Self {
        Self {
            path: path.to_vec(),
            findings,
            log: log.to_owned(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "after: {}", self.path.join("; "))?;
        self.findings
            .iter()
            .try_for_each(|finding| writeln!(f, "  {finding}"))?;
        write!(f, "{}", self.log)
    }
}

/// What was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Sequences.
    pub sequences: u64,
    /// Operations.
    pub operations: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// Writes of the parts that act.
    pub writes: u64,
}

impl Ran {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.sequences += other.sequences;
        self.operations += other.operations;
        self.refused += other.refused;
        self.writes += other.writes;
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sequences, {} operations ({} refused), {} writes audited",
            self.sequences, self.operations, self.refused, self.writes
        )
    }
}

/// Any operation; those that change something are more likely.
fn operation(whim: &mut Whim, api: &Api) -> Operation {
    let is_there = |queue: &u8| api.get(&Key::new(Kind::Queue, "", &queue_name(*queue))).is_some();
    let (there, missing): (Vec<u8>, Vec<u8>) = (0..3).partition(is_there);
    let create = there.is_empty() || (!missing.is_empty() && whim.yes(25));
    let choices = if create { &missing } else { &there };
    let queue = match whim.one_of(choices) {
        Some(queue) if whim.yes(95) => *queue,
        _ => whim.below(3) as u8,
    };
    let other = match whim.below(4) as u8 {
        3 => None,
        other if other == queue => None,
        other => Some(other),
    };
    let by = if whim.yes(40) { By::Command } else { By::Spec };
    if create {
        let parent = other.filter(|other| there.contains(other));
        let closed = whim.yes(15);
        return Operation::Create { queue, parent, closed };
    }
    match whim.below(20) {
        0..=1 => Operation::Open(queue, by),
        2..=8 => Operation::Submit(queue, [Work::Job, Work::Job, Work::Group, Work::Pod][whim.below(4)]),
        9..=11 => Operation::Close(queue, by),
        12..=14 => Operation::Delete(queue),
        15..=17 => Operation::Finish(queue),
        18 => Operation::Reparent(queue, other),
        _ => Operation::RawStatus(queue, ["Open", "Closing", "Closed"][whim.below(3)]),
    }
}

/// Runs the sequence of a seed in a cluster. The same seed does the same, byte for byte.
pub fn run_seed(conf: &Conf, empty: &Snapshot, seed: u64, log: bool) -> (Ran, Option<Failure>, String) {
    let mut kernel = Kernel::new(empty, conf, Whim::seeded(seed));
    kernel.bind_by(BindMode::of_seed(seed));
    if log {
        kernel.keep_log();
    }
    kernel.set_faults(FAULTS);
    let mut ran = Ran {
        sequences: 1,
        ..Ran::default()
    };
    let mut path = vec![format!("seed {seed}")];
    for _ in 0..LENGTH {
        let between = match kernel.whim().below(10) {
            0..=2 => 0,
            3..=6 => kernel.whim().below(BETWEEN / 5),
            _ => kernel.whim().below(BETWEEN),
        };
        for _ in 0..between {
            if !kernel.step() && !kernel.wait() {
                break;
            }
        }
        let mut whim = kernel.whim().clone();
        let operation = operation(&mut whim, kernel.api());
        *kernel.whim() = whim;
        path.push(operation.to_string());
        ran.operations += 1;
        if let Some(request) = operation.request(kernel.api()) {
            ran.refused += u64::from(kernel.ask(&request).is_err());
        }
    }
    kernel.set_faults(Faults::default());
    let findings = end(&mut kernel);
    ran.writes = kernel.writes();
    let failure = (!findings.is_empty()).then(|| Failure::new(&path, findings, kernel.log()));
    (ran, failure, kernel.log().to_owned())
}

/// Runs to rest without faults, then restarts everything, which must change nothing; what is wrong in the end.
pub(crate) fn end(kernel: &mut Kernel) -> Vec<String> {
    if let Err(stuck) = kernel.settle() {
        return vec![stuck.to_string()];
    }
    let mut findings: Vec<String> = kernel.settled_findings().iter().map(ToString::to_string).collect();
    let (wanted, writes) = (kernel.api().snapshot(), kernel.writes());
    for who in Who::ALL {
        kernel.kill(who);
    }
    if let Err(stuck) = kernel.settle() {
        findings.push(stuck.to_string());
    }
    if kernel.writes() != writes {
        let changed = difference(&plain(&wanted), &plain(&kernel.api().snapshot()));
        findings.push(format!("L4: a restart at rest writes:\n{changed}"));
    }
    findings
}

/// Sequences that a thread takes at a time.
const BATCH: u64 = 10;
/// After so many failures the rest is not worth running.
const FAILURES_MAX: usize = 100;

/// Runs the sequences of `count` seeds from `first` on, `threads` at a time. Failures do not stop it, unless there are very
/// many: what was run is what the result counts.
pub fn random(conf: &Conf, empty: &Snapshot, first: u64, count: u64, threads: usize) -> (Ran, Vec<Failure>) {
    let (parts, failures) = many(first, count, threads, |seed| {
        let (ran, failure, _) = run_seed(conf, empty, seed, false);
        (ran, failure)
    });
    let mut all = Ran::default();
    for ran in parts {
        all.add(ran);
    }
    (all, failures)
}

/// Runs something for each of `count` seeds from `first` on, `threads` at a time; what came of each, and what failed.
pub(crate) fn many<R: Send>(
    first: u64,
    count: u64,
    threads: usize,
    run: impl Fn(u64) -> (R, Option<Failure>) + Sync,
) -> (Vec<R>, Vec<Failure>) {
    let failed = AtomicUsize::new(0);
    let batches = usize::try_from(count.div_ceil(BATCH)).unwrap_or(usize::MAX);
    let parts = spread(batches, threads, |batch| {
        let begin = (batch as u64).saturating_mul(BATCH);
        let (mut all, mut failures) = (Vec::new(), Vec::new());
        for seed in begin..begin.saturating_add(BATCH).min(count) {
            if failed.load(Ordering::Relaxed) >= FAILURES_MAX {
                break;
            }
            let (ran, failure) = run(first.wrapping_add(seed));
            all.push(ran);
            if let Some(failure) = failure {
                failed.fetch_add(1, Ordering::Relaxed);
                failures.push(failure);
            }
        }
        (all, failures)
    });
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for (ran, failed) in parts {
        all.extend(ran);
        failures.extend(failed);
    }
    (all, failures)
}
