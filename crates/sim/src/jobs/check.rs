//! What must hold of Jobs at rest, read from the objects alone; and which pods were ever made.

use std::collections::BTreeMap;

use basalt_api::json::{annotation, integer_or_zero, list_at, string_at};
use basalt_api::names;
use serde_json::Value;

use crate::api::{Api, Key, Kind};

fn owners(object: &Value) -> &[Value] {
    list_at(object, "/metadata/ownerReferences")
}

/// How a pod is, and in which try of its Job it was made: `Running 0`.
pub(super) fn pod_in_words(pod: &Value) -> String {
    let retry = annotation(pod, names::JOB_RETRY_COUNT);
    format!("{} {retry}", string_at(pod, "/status/phase"))
}

/// What is wrong at rest.
pub(super) fn at_rest(api: &Api) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, object) in api.objects() {
        for owner in owners(object) {
            let found = Kind::of(string_at(owner, "/kind"))
                .and_then(|kind| api.get(&Key::new(kind, &key.namespace, string_at(owner, "/name"))));
            if found.is_none_or(|found| string_at(found, "/metadata/uid") != string_at(owner, "/uid")) {
                wrong.push(format!("{key} is an orphan"));
            }
        }
        if !string_at(object, "/metadata/deletionTimestamp").is_empty() {
            wrong.push(format!("{key} never ends"));
        }
    }
    for (_, job) in api.of_kind(Kind::Job) {
        wrong.extend(of_job(api, job));
    }
    wrong.extend(api.of_kind(Kind::Command).map(|(key, _)| format!("{key} is left")));
    wrong
}

/// Pods have the names that the Job gives, each once; a Job that has ended has none that live; the status counts them.
fn of_job(api: &Api, job: &Value) -> Vec<String> {
    let (name, uid) = (string_at(job, "/metadata/name"), string_at(job, "/metadata/uid"));
    let mut wanted: Vec<String> = Vec::new();
    for task in list_at(job, "/spec/tasks") {
        let indices = 0..integer_or_zero(task, "/replicas");
        wanted.extend(indices.map(|index| format!("{name}-{}-{index}", string_at(task, "/name"))));
    }
    let works = matches!(
        string_at(job, "/status/state/phase"),
        "Pending" | "Running" | "Restarting"
    );
    let mut wrong = Vec::new();
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for (key, pod) in api.of_kind(Kind::Pod) {
        if !owners(pod).iter().any(|owner| string_at(owner, "/uid") == uid) {
            continue;
        }
        let phase = string_at(pod, "/status/phase");
        *counts.entry(phase).or_default() += 1;
        if !wanted.iter().any(|name| **name == *key.name) {
            wrong.push(format!("{key} is one too many"));
        }
        if !works && !matches!(phase, "Succeeded" | "Failed") {
            wrong.push(format!("{key} lives on after its Job"));
        }
    }
    for (phase, field) in [
        ("Pending", "/status/pending"),
        ("Running", "/status/running"),
        ("Succeeded", "/status/succeeded"),
        ("Failed", "/status/failed"),
    ] {
        let (found, said) = (
            counts.get(phase).copied().unwrap_or_default(),
            integer_or_zero(job, field),
        );
        if found != said {
            wrong.push(format!("Job {name} counts {said} pods {phase}, there are {found}"));
        }
    }
    wrong
}

/// The pods that were ever made, by name, version and try of their Job: how often each.
pub(super) struct Made(BTreeMap<[String; 3], usize>);

impl Made {
    /// Those of an API from its beginning on.
    pub(super) fn of(api: &Api) -> Self {
        let mut made = BTreeMap::new();
        for report in api.journal(Kind::Pod).iter().filter(|report| report.before.is_none()) {
            let note = |name: &str| annotation(&report.object, name).to_owned();
            let pod = [
                report.key.name.to_string(),
                note(names::JOB_VERSION),
                note(names::JOB_RETRY_COUNT),
            ];
            *made.entry(pod).or_default() += 1;
        }
        Self(made)
    }

    /// What another run made otherwise.
    pub(super) fn compare(&self, other: &Self) -> Vec<String> {
        let pods = self
            .0
            .keys()
            .chain(other.0.keys().filter(|pod| !self.0.contains_key(*pod)));
        let count = |made: &Self, pod: &[String; 3]| made.0.get(pod).copied().unwrap_or_default();
        let differs = pods.filter(|pod| count(self, pod) != count(other, pod));
        differs
            .map(|pod| {
                let [name, version, retry] = pod;
                let (wanted, found) = (count(self, pod), count(other, pod));
                format!("pod {name} (version {version}, try {retry}) was made {found} times, not {wanted}")
            })
            .collect()
    }
}
