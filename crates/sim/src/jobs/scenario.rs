//! Scenarios, read from a table.

use std::collections::BTreeMap;

use basalt_api::json::string_at;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::check;
use crate::actor::exit;
use crate::api::{Api, Key, Kind, Request};
use crate::queues::NAMESPACE;

/// The table of scenarios.
const TABLE: &str = include_str!("scenarios.yaml");

/// The table is not one of scenarios.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableTable {
    /// It is no YAML.
    #[error("the table of scenarios: {0}")]
    Yaml(String),
    /// It says something else.
    #[error("the table of scenarios: {0}")]
    Content(#[from] serde_json::Error),
}

/// Something that happens to a Job, and how that ends.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// What it is about.
    pub name: String,
    /// What is there before the Job.
    #[serde(default)]
    with: Vec<Value>,
    /// The spec of the Job.
    job: Value,
    /// What is done, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// What must come of it.
    pub expect: Expected,
}

/// Something that a user does, and when.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// In seconds from the beginning; absent: when all is at rest.
    pub at: Option<i64>,
    /// What.
    #[serde(rename = "do")]
    pub action: Operation,
}

/// What a user does. The Job is called `j`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Operation {
    /// Makes an object.
    Create(Value),
    /// Sends a Command to the Job.
    Command(String),
    /// Scales the Job.
    Scale {
        /// By task.
        replicas: BTreeMap<String, i64>,
        /// The Job's.
        min_available: i64,
    },
    /// Deletes an object by kind and name.
    Delete(String, String),
    /// Lets a pod end with an exit code.
    Exit(String, u8),
    /// In place of the scheduler, where it does not take the Job's PodGroup: lets the group in, or else binds its pods.
    Schedule,
}

/// What must come of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expected {
    /// The phase of the Job; absent: the Job is gone.
    #[serde(default)]
    phase: String,
    /// Its number of retries.
    #[serde(default)]
    retries: i64,
    /// Its pods, each with its phase and the try that it was made in.
    #[serde(default)]
    pods: BTreeMap<String, String>,
    /// How many objects of each kind are beside the pods.
    #[serde(default)]
    beside: BTreeMap<String, usize>,
}

/// The scenarios of the table.
pub fn scenarios() -> Result<Vec<Scenario>, UnreadableTable> {
    let table: Value = serde_saphyr::from_str(TABLE).map_err(|error| UnreadableTable::Yaml(error.to_string()))?;
    let scenarios = table.get("scenarios").cloned().unwrap_or_default();
    Ok(serde_json::from_value(scenarios)?)
}

fn creation(object: &Value) -> Request {
    // Kinds that nobody knows are refused when they are made, as namespaces without names.
    let kind = Kind::of(string_at(object, "/kind")).unwrap_or(Kind::Namespace);
    let mut object = object.clone();
    object["apiVersion"] = json!(kind.api_version());
    Request::Create {
        key: Key::new(kind, NAMESPACE, string_at(&object, "/metadata/name")),
        object,
    }
}

impl Scenario {
    /// The requests that make what is there at the beginning.
    pub(super) fn manifests(&self) -> impl Iterator<Item = Request> {
        let job = json!({"kind": "Job", "metadata": {"name": "j"}, "spec": self.job});
        self.with.iter().map(creation).chain([creation(&job)])
    }
}

impl Step {
    /// The request, if there is what it is about.
    pub(super) fn request(&self, api: &Api, now: Timestamp) -> Option<Request> {
        let job = Key::new(Kind::Job, NAMESPACE, "j");
        match &self.action {
            Operation::Create(object) => Some(creation(object)),
            Operation::Command(action) => {
                let target = json!({"apiVersion": job.kind.api_version(), "kind": "Job", "name": "j",
                    "uid": string_at(api.get(&job)?, "/metadata/uid"), "controller": true});
                let name = format!("{}-{}", action.to_lowercase(), api.revision());
                Some(creation(&json!({"kind": "Command", "metadata": {"name": name},
                    "target": target, "action": action})))
            }
            Operation::Scale {
                replicas,
                min_available,
            } => {
                let mut tasks = api.get(&job)?.pointer("/spec/tasks")?.clone();
                for task in tasks.as_array_mut()? {
                    if let Some(count) = replicas.get(string_at(task, "/name")) {
                        task["replicas"] = json!(count);
                    }
                }
                Some(Request::Patch {
                    key: job,
                    status: false,
                    merge: json!({"spec": {"tasks": tasks, "minAvailable": min_available}}),
                })
            }
            Operation::Delete(kind, name) => Some(Request::Delete {
                key: Key::new(Kind::of(kind)?, NAMESPACE, name),
                uid: None,
                revision: None,
                grace: None,
            }),
            Operation::Schedule => schedule(api),
            Operation::Exit(pod, code) => {
                let key = Key::new(Kind::Pod, NAMESPACE, pod);
                let status = exit(api.get(&key)?, *code, now);
                Some(Request::Patch {
                    key,
                    status: true,
                    merge: json!({"status": status}),
                })
            }
        }
    }
}

fn schedule(api: &Api) -> Option<Request> {
    let (key, group) = api.of_kind(Kind::PodGroup).next()?;
    if matches!(string_at(group, "/status/phase"), "" | "Pending") {
        return Some(Request::Patch {
            key: key.clone(),
            status: false,
            merge: json!({"status": {"phase": "Inqueue"}}),
        });
    }
    let waiting = api
        .of_kind(Kind::Pod)
        .filter(|(_, pod)| string_at(pod, "/spec/nodeName").is_empty());
    let binds = waiting.map(|(key, pod)| {
        let uid = string_at(pod, "/metadata/uid").to_owned();
        (key.name.to_string(), uid, "n1".to_owned())
    });
    Some(Request::Bind {
        namespace: NAMESPACE.to_owned(),
        binds: binds.collect(),
    })
}

impl Expected {
    /// What is otherwise.
    pub(super) fn check(&self, api: &Api) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut compare = |what: &str, expected: String, found: String| {
            if expected != found {
                wrong.push(format!("{what}: expected {expected}, found {found}"));
            }
        };
        let job = api.get(&Key::new(Kind::Job, NAMESPACE, "j"));
        let phase = job.map_or("", |job| string_at(job, "/status/state/phase"));
        compare("phase", self.phase.clone(), phase.to_owned());
        let retries = job.and_then(|job| job.pointer("/status/retryCount")?.as_i64());
        compare("retries", self.retries.to_string(), retries.unwrap_or(0).to_string());
        let pods: BTreeMap<String, String> = api
            .of_kind(Kind::Pod)
            .map(|(key, pod)| (key.name.to_string(), check::pod_in_words(pod)))
            .collect();
        compare("pods", format!("{:?}", self.pods), format!("{pods:?}"));
        let mut beside: BTreeMap<String, usize> = BTreeMap::new();
        for (key, _) in api.objects().filter(|(key, _)| key.kind.is_companion()) {
            *beside.entry(key.kind.name().to_owned()).or_default() += 1;
        }
        compare("beside", format!("{:?}", self.beside), format!("{beside:?}"));
        wrong
    }
}
