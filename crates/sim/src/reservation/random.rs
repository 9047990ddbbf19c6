//! Random histories: reservations come and go while jobs and nodes do, views lag, actors die, answers are lost.

use std::fmt;

use basalt_audit::Rules;
use basalt_engine::Conf;

use super::operation::{Ask, Operation};
use super::{CORES, node_name};
use crate::actor::BindMode;
use crate::api::{Api, Key, Kind, Snapshot};
use crate::kernel::{Faults, Kernel};
use crate::queues::operation::queue_name;
use crate::queues::random::{Failure, end, many};
use crate::queues::{self, By};
use crate::whim::Whim;

/// Operations of one history.
const LENGTH: usize = 40;
/// Steps between two operations at most.
const BETWEEN: usize = 60;
const FAULTS: Faults = Faults {
    kill: 2,
    lose: 2,
    fail: 2,
};

/// What was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Histories.
    pub histories: u64,
    /// Steps of the kernel.
    pub steps: u64,
    /// Operations.
    pub operations: u64,
    /// Those of them that were refused.
    pub refused: u64,
    /// Writes of the parts that act.
    pub writes: u64,
    /// How often a node was seen to be locked after an operation: without any, nothing was tried.
    pub locked: u64,
    /// Decisions of the scheduler that were judged.
    pub judged: u64,
}

impl History {
    fn add(&mut self, other: &Self) {
        self.histories += other.histories;
        self.steps += other.steps;
        self.operations += other.operations;
        self.refused += other.refused;
        self.writes += other.writes;
        self.locked += other.locked;
        self.judged += other.judged;
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} histories, {} steps, {} operations ({} refused), {} writes audited, {} plans judged, {} locks seen",
            self.histories, self.steps, self.operations, self.refused, self.writes, self.judged, self.locked
        )
    }
}

fn is_there(api: &Api, kind: Kind, name: &str) -> bool {
    api.get(&Key::new(kind, "", name)).is_some()
}

fn ask(whim: &mut Whim) -> Ask {
    let form = whim.below(4);
    Ask {
        guaranteed: whim.yes(40),
        cores: (form != 0).then(|| 1 + whim.below(12) as u8),
        tenths: (form == 0 || form == 3).then(|| whim.below(7) as u8),
    }
}

/// Something about nodes, or about a queue as such.
fn seldom(whim: &mut Whim, api: &Api, queue: u8) -> Operation {
    let node = whim.below(CORES.len()) as u8;
    let stands = is_there(api, Kind::Node, &node_name(usize::from(node)));
    match whim.below(8) {
        _ if !stands => Operation::Bring(node),
        0 => Operation::Lose(node),
        1..=2 => Operation::Cordon(node, whim.yes(40)),
        3 => Operation::Queue(queues::Operation::Close(queue, By::Spec)),
        4..=5 => Operation::Queue(queues::Operation::Open(queue, By::Spec)),
        6 => Operation::Queue(queues::Operation::Delete(queue)),
        _ => {
            let to = Some(whim.below(3) as u8).filter(|to| *to != queue);
            Operation::Queue(queues::Operation::Reparent(queue, to))
        }
    }
}

/// Any operation; those that change something are more likely.
fn operation(whim: &mut Whim, api: &Api) -> Operation {
    let queue = whim.below(3) as u8;
    if !is_there(api, Kind::Queue, &queue_name(queue)) {
        let parent = Some(whim.below(3) as u8).filter(|other| *other != queue && whim.yes(50));
        let parent = parent.filter(|other| is_there(api, Kind::Queue, &queue_name(*other)));
        return Operation::Queue(queues::Operation::Create {
            queue,
            parent,
            closed: false,
        });
    }
    let any = whim.below(4) as u8;
    match whim.below(20) {
        0..=4 => Operation::Reserve(queue, ask(whim)),
        5 => Operation::Release(queue),
        6..=11 => Operation::Submit {
            queue: any,
            pods: 1 + whim.below(4) as u8,
            gang: whim.yes(50),
            cores: 1 + whim.below(3) as u8,
            kept: whim.yes(10),
        },
        12..=16 => Operation::Finish(any),
        _ => seldom(whim, api, queue),
    }
}

fn locks(api: &Api) -> u64 {
    let queues = api.of_kind(Kind::Queue);
    let nodes = queues.filter_map(|(_, queue)| queue.pointer("/status/reservation/nodes")?.as_array().map(Vec::len));
    nodes.sum::<usize>() as u64
}

/// Runs the history of a seed. The same seed does the same, byte for byte.
pub fn run_seed(
    conf: &Conf,
    rules: &Rules,
    small: &Snapshot,
    seed: u64,
    log: bool,
) -> (History, Option<Failure>, String) {
    let mut kernel = Kernel::new(small, conf, Whim::seeded(seed));
    kernel.judge_by(rules.clone());
    kernel.bind_by(BindMode::of_seed(seed));
    if log {
        kernel.keep_log();
    }
    kernel.set_faults(FAULTS);
    let mut history = History {
        histories: 1,
        ..History::default()
    };
    let mut path = vec![format!("seed {seed}")];
    for _ in 0..LENGTH {
        let between = kernel.whim().below(BETWEEN);
        for _ in 0..between {
            if !kernel.step() && !kernel.wait() {
                break;
            }
            history.steps += 1;
        }
        let mut whim = kernel.whim().clone();
        let operation = operation(&mut whim, kernel.api());
        *kernel.whim() = whim;
        path.push(operation.to_string());
        history.operations += 1;
        if let Some(request) = operation.request(kernel.api()) {
            history.refused += u64::from(kernel.ask(&request).is_err());
        }
        history.locked += locks(kernel.api());
    }
    kernel.set_faults(Faults::default());
    let findings = end(&mut kernel);
    history.writes = kernel.writes();
    history.judged = kernel.judged();
    let failure = (!findings.is_empty()).then(|| Failure::new(&path, findings, kernel.log()));
    (history, failure, kernel.log().to_owned())
}

/// Runs the histories of `count` seeds from `first` on, `threads` at a time.
pub fn histories(
    conf: &Conf,
    rules: &Rules,
    small: &Snapshot,
    first: u64,
    count: u64,
    threads: usize,
) -> (History, Vec<Failure>) {
    let (ran, failures) = many(first, count, threads, |seed| {
        let (history, failure, _) = run_seed(conf, rules, small, seed, false);
        (history, failure)
    });
    let mut all = History::default();
    for history in &ran {
        all.add(history);
    }
    (all, failures)
}
