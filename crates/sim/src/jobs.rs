//! The job controller, tried: a table of scenarios, each played undisturbed and then with a crash after every single write. It
//! must end as if nothing had happened: the same objects but for uids and times, the same pods made, and then silence.

mod check;
mod scenario;

pub use scenario::{Expected, Operation, Scenario, Step, UnreadableTable, scenarios};

use std::fmt;

use basalt_engine::Conf;
use jiff::SignedDuration;
use serde_json::Value;

use crate::api::{Kind, Snapshot};
use crate::kernel::{Crash, Faults, Kernel, Who};
use crate::queues::canon::{difference, plain};
use crate::queues::spread::spread;
use crate::queues::{Failure, empty_cluster};
use crate::whim::Whim;
use check::Made;

/// How often things go wrong in random runs.
const FAULTS: Faults = Faults {
    kill: 3,
    lose: 3,
    fail: 3,
};

/// What was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Scenarios.
    pub scenarios: u64,
    /// Runs with a crash, each to rest and once more after a restart of everything.
    pub crashes: u64,
    /// Runs in which anything goes wrong at any time.
    pub random: u64,
    /// Writes of the parts that act, each followed by an audit.
    pub writes: u64,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} scenarios, {} crashes, {} random runs, {} writes audited",
            self.scenarios, self.crashes, self.random, self.writes
        )
    }
}

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    Nothing,
    Crash(u64, Crash),
    Random(u64),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("undisturbed"),
            Self::Crash(write, Crash::All) => write!(f, "everything dies after write {write}"),
            Self::Crash(write, Crash::Controllers) => write!(f, "the controllers die after write {write}"),
            Self::Crash(write, Crash::Outage) => write!(f, "no controllers from write {write} on until all is still"),
            Self::Random(seed) => write!(f, "seed {seed}"),
        }
    }
}

/// How a run ended.
struct End {
    /// The objects in words.
    state: String,
    /// The same without the phases that Jobs went through: who sleeps misses some.
    gist: String,
    made: Made,
    writes: u64,
}

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Crashes are after every write of this many.
    pub stride: u64,
    /// Random runs of each scenario.
    pub random: u64,
    /// Runs at the same time.
    pub threads: usize,
}

/// Plays scenarios with all crashes.
pub fn explore(conf: &Conf, scenarios: &[Scenario], extent: Extent) -> (Tried, Vec<Failure>) {
    let empty = match empty_cluster(conf) {
        Ok(empty) => empty,
        Err(stuck) => return (Tried::default(), vec![Failure::new(&[], vec![stuck.to_string()], "")]),
    };
    let stage = Stage { conf, empty };
    let threads = extent.threads;
    let alone = spread(scenarios.len(), threads, |at| {
        let scenario = scenarios.get(at)?;
        Some((scenario, stage.play(scenario, Trouble::Nothing, None)))
    });
    let (mut tried, mut failures) = (Tried::default(), Vec::new());
    let mut pieces: Vec<(&Scenario, &End, Trouble)> = Vec::new();
    for (scenario, end) in alone.iter().flatten() {
        tried.scenarios += 1;
        match end {
            Ok(end) => {
                tried.writes += end.writes;
                let first = 1 + tried.scenarios % extent.stride.max(1);
                let writes = || (first..=end.writes).step_by(usize::try_from(extent.stride.max(1)).unwrap_or(1));
                // What a user does at a certain time means something else after an outage, or where requests fail and are
                // tried again later: another pod may have ended by then.
                let timed = scenario.steps.iter().any(|step| step.at.is_some());
                let crashes = Crash::ALL
                    .into_iter()
                    .filter(move |crash| !timed || *crash != Crash::Outage);
                let crashes = crashes.flat_map(|crash| writes().map(move |write| Trouble::Crash(write, crash)));
                let random = if timed { 0 } else { extent.random };
                let troubles = crashes.chain((0..random).map(Trouble::Random));
                pieces.extend(troubles.map(|trouble| (*scenario, end, trouble)));
            }
            Err(failure) => failures.push(failure.clone()),
        }
    }
    let ends = spread(pieces.len(), threads, |at| {
        let (scenario, wanted, trouble) = pieces.get(at)?;
        Some((*trouble, stage.play(scenario, *trouble, Some(wanted))))
    });
    for (trouble, end) in ends.into_iter().flatten() {
        match trouble {
            Trouble::Random(_) => tried.random += 1,
            _ => tried.crashes += 1,
        }
        match end {
            Ok(end) => tried.writes += end.writes,
            Err(failure) => failures.push(failure),
        }
    }
    (tried, failures)
}

/// Where scenarios are played.
struct Stage<'a> {
    conf: &'a Conf,
    empty: Snapshot,
}

impl Stage<'_> {
    /// Plays a scenario; it must end as is expected, and, where that is given, as another run of it did.
    fn play(&self, scenario: &Scenario, trouble: Trouble, wanted: Option<&End>) -> Result<End, Failure> {
        let kernel = || {
            let whim = match trouble {
                Trouble::Random(seed) => Whim::seeded(seed),
                _ => Whim::none(),
            };
            let mut kernel = Kernel::new(&self.empty, self.conf, whim);
            match trouble {
                Trouble::Nothing => {}
                Trouble::Crash(write, crash) => kernel.crash_after(Some((write, crash))),
                Trouble::Random(_) => kernel.set_faults(FAULTS),
            }
            kernel
        };
        run(kernel(), scenario, trouble, wanted).map_err(|_| {
            // Once more, with a log this time.
            let mut kernel = kernel();
            kernel.keep_log();
            let path = [scenario.name.clone(), trouble.to_string()];
            match run(kernel, scenario, trouble, wanted) {
                Ok(_) => Failure::new(&path, vec!["it went well the second time".to_owned()], ""),
                Err((findings, log)) => Failure::new(&path, findings, &log),
            }
        })
    }
}

/// Plays a scenario; what is wrong and the log, if anything is.
fn run(
    mut kernel: Kernel,
    scenario: &Scenario,
    trouble: Trouble,
    wanted: Option<&End>,
) -> Result<End, (Vec<String>, String)> {
    let played = play(&mut kernel, scenario);
    let snapshot = kernel.api().snapshot();
    let end = End {
        state: plain(&snapshot),
        gist: plain(&snapshot.edited(Kind::Job, forget_phases)),
        made: Made::of(kernel.api()),
        writes: kernel.writes(),
    };
    let mut findings = played.err().unwrap_or_default();
    findings.extend(kernel.settled_findings().iter().map(ToString::to_string));
    findings.extend(check::at_rest(kernel.api()));
    findings.extend(scenario.expect.check(kernel.api()));
    if let Some(wanted) = wanted {
        let (wanted_state, state) = match trouble {
            Trouble::Crash(_, Crash::Outage) | Trouble::Random(_) => (&wanted.gist, &end.gist),
            _ => (&wanted.state, &end.state),
        };
        if wanted_state != state {
            let changed = difference(wanted_state, state);
            findings.push(format!("it ends differently:\n{changed}"));
        }
        // With views that lag, a pod may well be missed and made once more.
        if !matches!(trouble, Trouble::Random(_)) {
            findings.extend(wanted.made.compare(&end.made));
        }
    }
    findings.extend(silent(&mut kernel));
    if findings.is_empty() {
        return Ok(end);
    }
    Err((findings, kernel.log().to_owned()))
}

fn forget_phases(job: &mut Value) {
    if let Some(status) = job.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("conditions");
    }
}

fn play(kernel: &mut Kernel, scenario: &Scenario) -> Result<(), Vec<String>> {
    let begin = kernel.now();
    for request in scenario.manifests() {
        kernel
            .ask(&request)
            .map_err(|refusal| vec![format!("{request}: {refusal}")])?;
    }
    for step in &scenario.steps {
        let waited = match step.at {
            Some(seconds) => {
                let at = begin.saturating_add(SignedDuration::from_secs(seconds));
                kernel.run_to(at.unwrap_or(begin))
            }
            None => kernel.settle(),
        };
        waited.map_err(|stuck| vec![stuck.to_string()])?;
        let request = step.request(kernel.api(), kernel.now());
        let request = request.ok_or_else(|| vec![format!("{:?} has no object", step.action)])?;
        kernel
            .ask(&request)
            .map_err(|refusal| vec![format!("{request}: {refusal}")])?;
    }
    kernel.settle().map_err(|stuck| vec![stuck.to_string()])
}

/// At rest, a restart of everything and ten minutes more see no write.
fn silent(kernel: &mut Kernel) -> Option<String> {
    kernel.set_faults(Faults::default());
    kernel.crash_after(None);
    let (writes, revision) = (kernel.writes(), kernel.api().revision());
    for who in Who::ALL {
        kernel.kill(who);
    }
    if let Err(stuck) = kernel.settle() {
        return Some(stuck.to_string());
    }
    let (more, changes) = (kernel.writes() - writes, kernel.api().revision() - revision);
    (more > 0).then(|| format!("a restart at rest writes {more} times, {changes} of them objects"))
}
