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
    /// leaf `shut-a`, and `leaving` (being deleted).
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

/// One case. `about` is the rule that the case is about; `broken` the rule that refuses it.
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) broken: Option<&'static str>,
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) name: &'static str,
    pub(crate) object: Option<Value>,
    pub(crate) old: Option<Value>,
    pub(crate) world: World,
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
        name: row.name,
        user: &user,
        object: row.object.as_ref(),
        old: row.old.as_ref(),
        dry_run: false,
    };
    admit(&request, &row.world)
}

/// How the case differs from what is written, if it does.
pub(crate) fn mismatch(row: &Row) -> Option<String> {
    match (decide(row).verdict, row.broken) {
        (Verdict::Refuse(refusal), Some(rule)) if refusal.rule == rule => None,
        (Verdict::Allow | Verdict::Review(_), None) => None,
        (verdict, wanted) => Some(format!(
            "{} ({}): wanted {wanted:?}, got {verdict:?}",
            row.title, row.about
        )),
    }
}

pub(crate) fn message(row: &Row) -> String {
    match decide(row).verdict {
        Verdict::Refuse(refusal) => refusal.message,
        verdict => panic!("{}: {verdict:?}", row.title),
    }
}
