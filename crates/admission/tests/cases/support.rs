//! A world of stored objects, and rows of cases.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_admission::{Decision, Operation, Request, User, Verdict, View, admit};
use serde_json::{Value, json};

/// Stored objects by resource, namespace and name.
#[derive(Clone, Default)]
pub(crate) struct World(BTreeMap<(String, String, String), Arc<Value>>);

impl World {
    pub(crate) fn with(mut self, resource: &str, object: Value) -> Self {
        let part = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        self.0
            .insert((resource.to_owned(), part("namespace"), part("name")), Arc::new(object));
        self
    }

    pub(crate) fn queue(self, name: &str, spec: Value) -> Self {
        self.with("queues.scheduling.volcano.sh", queue(name, spec))
    }

    /// `root`, `default`, a tree `team` with leaves `team-a` and `team-b`, `shut` (closed) with the
    /// leaf `shut-a`, `leaving` (being deleted), a chain `l1` to `l5`, and `tall` over `tall-1` over `tall-2`.
    pub(crate) fn usual() -> Self {
        let mut leaving = queue("leaving", json!({}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        Self::default()
            .queue("root", json!({}))
            .queue("default", json!({}))
            .queue("team", json!({}))
            .queue("team-a", json!({"parent": "team"}))
            .queue("team-b", json!({"parent": "team"}))
            .queue("shut", json!({"state": "Closed"}))
            .queue("shut-a", json!({"parent": "shut"}))
            .queue("l1", json!({}))
            .queue("l2", json!({"parent": "l1"}))
            .queue("l3", json!({"parent": "l2"}))
            .queue("l4", json!({"parent": "l3"}))
            .queue("l5", json!({"parent": "l4"}))
            .queue("tall", json!({}))
            .queue("tall-1", json!({"parent": "tall"}))
            .queue("tall-2", json!({"parent": "tall-1"}))
            .with("queues.scheduling.volcano.sh", leaving)
    }
}

impl View for World {
    fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.0
            .get(&(resource.to_owned(), namespace.to_owned(), name.to_owned()))
            .cloned()
    }

    fn list(&self, resource: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let wanted = |(kind, space, _): &&(String, String, String)| {
            kind == resource && namespace.is_none_or(|namespace| space == namespace)
        };
        self.0
            .iter()
            .filter(|(key, _)| wanted(key))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }
}

pub(crate) fn queue(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": {"name": name, "uid": format!("uid-{name}")}, "spec": spec,
    })
}

/// A Job `default/train` with this spec.
pub(crate) fn job(spec: Value) -> Value {
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "uid": "uid-train"}, "spec": spec,
    })
}

/// One case: a request, and whether `rule` refuses it.
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
        }
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
        groups: Vec::new(),
    };
    let operation = match (&row.object, &row.old) {
        (Some(_), None) => Operation::Create,
        (Some(_), Some(_)) => Operation::Update,
        (None, _) => Operation::Delete,
    };
    let namespace = row
        .object
        .as_ref()
        .or(row.old.as_ref())
        .and_then(|object| object["metadata"]["namespace"].as_str());
    let request = Request {
        operation,
        group: row.group,
        resource: row.resource,
        subresource: None,
        namespace: namespace.unwrap_or_default(),
        name: &row.name,
        user: &user,
        object: row.object.as_ref(),
        old: row.old.as_ref(),
        dry_run: false,
    };
    admit(&request, &row.world)
}

/// How the case differs from what is written, if it does.
pub(crate) fn mismatch(row: &Row) -> Option<String> {
    match decide(row).verdict {
        Verdict::Refuse(refusal) if row.refused && refusal.rule == row.rule => None,
        Verdict::Allow | Verdict::Review(_) if !row.refused => None,
        verdict => Some(format!("{} ({}): {verdict:?}", row.title, row.rule)),
    }
}

pub(crate) fn message(row: &Row) -> String {
    match decide(row).verdict {
        Verdict::Refuse(refusal) => refusal.message,
        verdict => panic!("{}: {verdict:?}", row.title),
    }
}
