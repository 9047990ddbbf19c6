//! Scenarios: a configuration, objects, and the decisions that are expected. See `scenarios/README.md`.

mod expect;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use basalt_api::reason::Code;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::facts::{ManifestError, PodFacts};
use crate::offline::OfflineRun;
use crate::{Conf, ConfError, Event, Options};

use self::expect::{HyperNodes, Seen};

/// The time of a scenario's session, 2026-01-01: long after what the files say of themselves.
pub const NOW_MS: i64 = 1_767_225_600_000;

/// A file, read.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is about, in a sentence.
    pub title: String,
    conf: Conf,
    cycles: usize,
    events: Vec<Event>,
    hypernodes: HyperNodes,
    expect: Map<String, Value>,
    observed: Vec<String>,
    /// What the file needs and we lack.
    unsupported: Vec<String>,
}

/// Why a file is not a scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not YAML.
    #[error("not valid YAML: {0}")]
    Yaml(String),
    /// The wrong shape.
    #[error("{key} must be {expected}")]
    Shape {
        /// Where.
        key: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A key that the format does not have.
    #[error("unknown key {0:?}")]
    UnknownKey(String),
    /// A bad configuration.
    #[error(transparent)]
    Conf(#[from] ConfError),
    /// A bad object.
    #[error("objects[{at}]: {source}")]
    Object {
        /// Which one, from 0.
        at: usize,
        /// What is wrong.
        source: ManifestError,
    },
}

/// How a scenario ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Everything was as expected.
    Passed,
    /// These were not.
    Failed(Vec<Mismatch>),
    /// It needs what we do not have.
    NotSupported(Vec<String>),
}

/// Something that was expected and not seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// The key of `expect`.
    pub key: String,
    /// What the file says.
    pub expected: Value,
    /// What the engine said.
    pub seen: Value,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, seen {}", self.key, self.expected, self.seen)
    }
}

/// The outcome of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// Differences in keys that the file lists under `observed`.
    pub notes: Vec<Mismatch>,
}

const KEYS: &[&str] = &[
    "title", "area", "conf", "options", "cycles", "objects", "expect", "observed", "notes",
];

/// Whose volumes do not count towards a node's limit of attached ones. We count none, so it makes no difference.
const UNCOUNTED: &str = "ignoredProvisioners";

impl Scenario {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let file: Value = serde_saphyr::from_str(text).map_err(|error| ScenarioError::Yaml(error.to_string()))?;
        let file = file.as_object().ok_or_else(|| shape("the document", "a mapping"))?;
        if let Some(key) = file.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(ScenarioError::UnknownKey(key.clone()));
        }
        let conf = file.get("conf").filter(|conf| conf.is_object());
        let conf = conf.ok_or_else(|| shape("conf", "a mapping"))?;
        let conf = Conf::parse(&conf.to_string())?;
        let expect = file.get("expect").and_then(Value::as_object);
        let expect = expect.filter(|expect| !expect.is_empty());
        let mut scenario = Scenario {
            title: file.get("title").and_then(Value::as_str).unwrap_or_default().to_owned(),
            unsupported: conf.warnings.clone(),
            conf,
            cycles: count(file.get("cycles"))?,
            events: Vec::new(),
            hypernodes: HyperNodes::default(),
            expect: expect.ok_or_else(|| shape("expect", "a mapping"))?.clone(),
            observed: words(file.get("observed")),
        };
        let options = file.get("options").and_then(Value::as_object).into_iter().flatten();
        scenario.unsupported.extend(
            options
                .filter(|(name, _)| *name != UNCOUNTED)
                .map(|(name, _)| format!("option {name:?}")),
        );
        let objects = file.get("objects").and_then(Value::as_array);
        for (at, object) in objects.ok_or_else(|| shape("objects", "a list"))?.iter().enumerate() {
            scenario
                .add(object)
                .map_err(|source| ScenarioError::Object { at, source })?;
        }
        scenario.note_unsupported_constraints();
        Ok(scenario)
    }

    fn add(&mut self, object: &Value) -> Result<(), ManifestError> {
        if let Some(event) = Event::from_manifest(object)? {
            self.events.push(event);
            return Ok(());
        }
        self.hypernodes.add(object);
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let what = format!("kind {kind}");
        if !self.unsupported.contains(&what) {
            self.unsupported.push(what);
        }
        Ok(())
    }

    /// A hard constraint that the engine does not know makes a group wait. Where the file does not say that it should,
    /// it is about something that we lack.
    fn note_unsupported_constraints(&mut self) {
        let reasons = self.expect.get("reasons");
        let waits = |group: &str| {
            let codes = words(reasons.and_then(|reasons| reasons.get(group)));
            codes.iter().any(|code| Code::from(code.as_str()) == Code::NotSupported)
        };
        let mut found = Vec::new();
        for event in &self.events {
            let (group, constraints) = match event {
                Event::PodGroup(group) => (Some(&group.key), &group.unsupported),
                Event::Pod(pod) => (pod.group.as_ref(), &pod.constraints.unsupported),
                _ => continue,
            };
            if !group.is_some_and(|group| waits(group)) {
                found.extend(constraints.iter().map(|what| format!("constraint {what}")));
            }
        }
        found.sort();
        found.dedup();
        self.unsupported.extend(found);
    }

    /// Runs it. `strict`: keys that were only observed count too. What needs something that we lack is run all the
    /// same, and its differences are notes.
    pub fn run(&self, strict: bool) -> Outcome {
        let mut run = OfflineRun::new(self.conf.clone(), Options::default());
        for event in &self.events {
            run.apply(event.clone());
        }
        let before: BTreeMap<Arc<str>, PodFacts> = run.pods().clone();
        for _ in 0..self.cycles {
            run.run_cycle(NOW_MS);
        }
        let seen = Seen {
            report: run.report(),
            pods: &before,
            hypernodes: &self.hypernodes,
        };
        let supported = self.unsupported.is_empty();
        let (mut failures, mut notes) = (Vec::new(), Vec::new());
        for (key, expected) in &self.expect {
            let Some(mismatch) = seen.check(key, expected) else {
                continue;
            };
            if supported && (strict || !self.observed.contains(key)) {
                failures.push(mismatch);
            } else {
                notes.push(mismatch);
            }
        }
        let verdict = if !supported {
            Verdict::NotSupported(self.unsupported.clone())
        } else if failures.is_empty() {
            Verdict::Passed
        } else {
            Verdict::Failed(failures)
        };
        Outcome { verdict, notes }
    }
}

fn shape(key: &str, expected: &'static str) -> ScenarioError {
    ScenarioError::Shape {
        key: key.to_owned(),
        expected,
    }
}

/// How many cycles: one, unless the file says otherwise.
fn count(cycles: Option<&Value>) -> Result<usize, ScenarioError> {
    let Some(cycles) = cycles else { return Ok(1) };
    let cycles = cycles.as_u64().filter(|cycles| (1..=1000).contains(cycles));
    cycles
        .map(|cycles| cycles as usize)
        .ok_or_else(|| shape("cycles", "a number from 1 to 1000"))
}

fn words(list: Option<&Value>) -> Vec<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}
