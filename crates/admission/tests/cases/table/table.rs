//! The table of cases, one a line in a text file for each kind:
//!
//! `verdict | rule | title | what | details as JSON`
//!
//! It drives the function itself, and the webhook over HTTPS.

pub(crate) mod delivery;
pub(crate) mod group;
pub(crate) mod job;
pub(crate) mod queue;

use std::sync::Arc;

use basalt_admission::{Decision, Operation, Refusal, Request, Settings, User, Verdict, View, admit};
use serde_json::{Value, json};

const QUEUES: &str = "queues.scheduling.volcano.sh";
const JOBS: &str = "jobs.batch.volcano.sh";
const GROUPS: &str = "podgroups.scheduling.volcano.sh";
const PODS: &str = "pods";

/// Every case there is.
pub(crate) fn all() -> Vec<Row> {
    [job::rows(), group::rows(), queue::rows(), delivery::rows()]
        .into_iter()
        .flatten()
        .collect()
}

/// Stored objects and their resources.
#[derive(Clone, Default)]
pub(crate) struct World(pub(crate) Vec<(&'static str, Arc<Value>)>);

impl World {
    pub(crate) fn with(mut self, resource: &'static str, object: Value) -> Self {
        self.0.push((resource, Arc::new(object)));
        self
    }

    pub(crate) fn queue(self, name: &str, spec: Value) -> Self {
        self.with(QUEUES, queue(name, spec, ""))
    }

    pub(crate) fn closed(self, name: &str, spec: Value) -> Self {
        self.with(QUEUES, queue(name, spec, "Closed"))
    }

    /// A Job `default/NAME` in a queue.
    pub(crate) fn job(self, name: &str, queue: &str, phase: &str) -> Self {
        let mut job = job_named(name, json!({"queue": queue}));
        job["status"] = json!({"state": {"phase": phase}});
        self.with(JOBS, job)
    }

    /// A PodGroup `default/NAME` of nobody in a queue.
    pub(crate) fn group(self, name: &str, queue: &str, phase: &str) -> Self {
        let metadata = json!({"name": name, "namespace": "default"});
        let group = json!({"metadata": metadata, "spec": {"queue": queue}, "status": {"phase": phase}});
        self.with(GROUPS, group)
    }

    /// A pod `default/NAME` with annotations.
    fn pod(self, name: &str, annotations: &Value, phase: &str) -> Self {
        let metadata = json!({"name": name, "namespace": "default", "annotations": annotations});
        self.with(PODS, json!({"metadata": metadata, "status": {"phase": phase}}))
    }

    pub(crate) fn node(self, name: &str, ready: &str, allocatable: Value) -> Self {
        let status = json!({"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]});
        self.with("nodes", json!({"metadata": {"name": name}, "status": status}))
    }

    /// What most cases happen in; see the top of `queue.txt`.
    pub(crate) fn usual() -> Self {
        let mut leaving = queue("leaving", json!({}), "");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let node = json!({"cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": "4"});
        let full = json!({"deserved": {"cpu": "10", "memory": "10Gi"}, "capability": {"cpu": "20"}, "guarantee": {"resource": {"cpu": "4"}}});
        let full_a = json!({"parent": "full", "deserved": {"cpu": "4"}, "capability": {"cpu": "10"}, "guarantee": {"resource": {"cpu": "1"}}});
        Self::default()
            .queue("root", json!({}))
            .queue("default", json!({}))
            .queue("team", json!({}))
            .queue("team-a", json!({"parent": "team"}))
            .queue("team-b", json!({"parent": "team"}))
            .closed("shut", json!({"state": "Closed"}))
            .closed("shut-a", json!({"parent": "shut"}))
            .queue("l1", json!({}))
            .queue("l2", json!({"parent": "l1"}))
            .queue("l3", json!({"parent": "l2"}))
            .queue("l4", json!({"parent": "l3"}))
            .queue("l5", json!({"parent": "l4"}))
            .queue("tall", json!({}))
            .queue("tall-1", json!({"parent": "tall"}))
            .queue("tall-2", json!({"parent": "tall-1"}))
            .with(QUEUES, leaving)
            .queue("full", full)
            .queue("full-a", full_a)
            .queue(
                "full-b",
                json!({"parent": "full", "deserved": {"cpu": "3"}, "guarantee": {"resource": {"cpu": "1"}}}),
            )
            .queue("loose", json!({}))
            .queue(
                "loose-a",
                json!({"parent": "loose", "deserved": {"cpu": "5"}, "capability": {"cpu": "30"}}),
            )
            .queue("busy", json!({}))
            .job("run", "busy", "Running")
            .queue("paused", json!({}))
            .job("rest", "paused", "Aborted")
            .queue("grouped", json!({}))
            .group("lone", "grouped", "Pending")
            .queue("done", json!({}))
            .job("ended", "done", "Completed")
            .group("over", "done", "Completed")
            .node("n1", "True", node.clone())
            .node("n2", "True", node.clone())
            .node("lost", "Unknown", node)
    }

    /// The same with what a case adds: queues, closed queues, jobs, pods, nodes (in place of the usual ones).
    fn and(mut self, more: &Value) -> Self {
        let entries = |key: &str| more[key].as_object().cloned().unwrap_or_default();
        for (name, spec) in entries("queues") {
            self = self.queue(&name, spec);
        }
        for (name, spec) in entries("closed") {
            self = self.closed(&name, spec);
        }
        for (name, job) in entries("jobs") {
            self = self.job(
                &name,
                job[0].as_str().expect("a queue"),
                job[1].as_str().expect("a phase"),
            );
        }
        for (name, pod) in entries("pods") {
            self = self.pod(&name, &pod[0], pod[1].as_str().expect("a phase"));
        }
        if let Some(nodes) = more["nodes"].as_array() {
            self.0.retain(|(resource, _)| *resource != "nodes");
            for (index, allocatable) in nodes.iter().enumerate() {
                self = self.node(&format!("n{index}"), "True", allocatable.clone());
            }
        }
        self
    }

    pub(crate) fn view(&self) -> View {
        let mut view = View::default();
        for (resource, object) in &self.0 {
            view.put(resource, object);
        }
        view
    }
}

pub(crate) fn queue(name: &str, spec: Value, state: &str) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": spec, "status": {"state": state},
    })
}

fn job_named(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")}, "spec": spec,
    })
}

/// A Job `default/train` with this spec; tasks without a template get one.
pub(crate) fn job(mut spec: Value) -> Value {
    let tasks = spec.get_mut("tasks").and_then(Value::as_array_mut);
    for task in tasks.into_iter().flatten().filter_map(Value::as_object_mut) {
        let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
        task.entry("template").or_insert(template);
    }
    job_named("train", spec)
}

/// One case: a request, and whether `rule` refuses it.
#[derive(Clone)]
pub(crate) struct Row {
    pub(crate) refused: bool,
    pub(crate) rule: &'static str,
    pub(crate) title: &'static str,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) name: String,
    pub(crate) object: Option<Value>,
    pub(crate) old: Option<Value>,
    pub(crate) world: World,
    pub(crate) settings: Settings,
    /// Whether the user has whatever right is asked for.
    pub(crate) granted: bool,
}

impl Row {
    /// A request about an object that is not there yet.
    pub(crate) fn new(group: &'static str, resource: &'static str, name: &str) -> Self {
        let world = World::usual();
        Self {
            refused: false,
            rule: "",
            title: "",
            group,
            resource,
            name: name.to_owned(),
            object: None,
            old: None,
            world,
            settings: Settings::default(),
            granted: true,
        }
    }

    pub(crate) fn operation(&self) -> Operation {
        match (&self.object, &self.old) {
            (Some(_), None) => Operation::Create,
            (Some(_), Some(_)) => Operation::Update,
            (None, _) => Operation::Delete,
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        let object = self.object.as_ref().or(self.old.as_ref());
        object
            .and_then(|object| object["metadata"]["namespace"].as_str())
            .unwrap_or_default()
    }

    /// The case as Kubernetes would send it.
    pub(crate) fn review(&self) -> Value {
        let operation = match self.operation() {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        };
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": format!("uid of {}", self.title), "operation": operation,
                "resource": {"group": self.group, "version": "v1", "resource": self.resource},
                "namespace": self.namespace(), "name": self.name,
                "userInfo": {"username": "alice", "groups": ["people"]},
                "object": self.object, "oldObject": self.old, "dryRun": false,
            },
        })
    }
}

/// Reads a text of cases; `build` makes the request of `what` and its details.
pub(crate) fn read(text: &'static str, build: fn(&str, Value) -> Row) -> Vec<Row> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&'static str> = line.splitn(5, '|').map(str::trim).collect();
            let [verdict, rule, title, what, details] = columns[..] else {
                panic!("five columns: {line}")
            };
            let details = serde_json::from_str(details).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(matches!(verdict, "accept" | "refuse"), "{line}");
            Row {
                refused: verdict == "refuse",
                rule,
                title,
                ..build(what, details)
            }
        })
        .collect()
}

pub(crate) fn decide(row: &Row) -> Decision {
    let user = User {
        name: "alice".to_owned(),
        groups: vec!["people".to_owned()],
    };
    let request = Request {
        operation: row.operation(),
        group: row.group,
        resource: row.resource,
        subresource: None,
        namespace: row.namespace(),
        name: &row.name,
        user: &user,
        object: row.object.as_ref(),
        old: row.old.as_ref(),
        dry_run: false,
    };
    admit(&request, &row.world.view(), &row.settings)
}

/// How the case ends, with the right that is asked for given or not.
pub(crate) fn refusal(row: &Row) -> Option<Refusal> {
    match decide(row).verdict {
        Verdict::Refuse(refusal) => Some(refusal),
        Verdict::Review(access) if !row.granted => Some(Refusal::denied(&access)),
        Verdict::Allow | Verdict::Review(_) => None,
    }
}

/// How the case differs from what is written, if it does.
pub(crate) fn mismatch(row: &Row) -> Option<String> {
    let refusal = refusal(row);
    let found = refusal.as_ref().map(|refusal| refusal.rule);
    let expected = row.refused.then_some(row.rule);
    (found != expected).then(|| format!("{} ({}): {refusal:?}", row.title, row.rule))
}
