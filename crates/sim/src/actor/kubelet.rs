//! The node: runs what is bound to it, ends what is deleted. When work is done is the pod's to say, by the annotations that
//! fake nodes read (`basalt.sh/run-time`, `basalt.sh/exit-code`), or else the user's.

use std::collections::{BTreeMap, VecDeque};

use basalt_api::json::{annotation, is_deleting, string_at};
use basalt_api::{fake, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Actor;
use super::controllers::with_conditions;
use crate::api::{Answer, Api, Key, Kind, Report, Request};
use crate::whim::Whim;

/// All nodes' kubelets.
#[derive(Default)]
pub struct Kubelet {
    todo: VecDeque<Request>,
    /// Pods that end by themselves: when, and the pod.
    ends: BTreeMap<Key, (Timestamp, std::sync::Arc<Value>)>,
}

impl Actor for Kubelet {
    fn name(&self) -> &'static str {
        "node"
    }

    fn watches(&self) -> &'static [Kind] {
        &[Kind::Pod]
    }

    fn take_in(&mut self, report: &Report, now: Timestamp) {
        let (pod, key) = (&report.object, report.key.clone());
        self.ends.remove(&key);
        if report.gone || string_at(pod, "/spec/nodeName").is_empty() {
            return;
        }
        if is_deleting(pod) {
            self.todo.push_back(Request::Delete {
                key,
                uid: Some(string_at(pod, "/metadata/uid").to_owned()),
                revision: None,
                grace: Some(0),
            });
            return;
        }
        match string_at(pod, "/status/phase") {
            "Pending" => {
                let containers = containers(pod, || json!({"ready": true}));
                let status = json!({"phase": "Running", "startTime": stamp(now), "containerStatuses": containers});
                self.todo.push_back(patch(key, pod, status));
            }
            "Running" => {
                if let Some(at) = end(pod) {
                    self.ends.insert(key, (at, pod.clone()));
                }
            }
            _ => {}
        }
    }

    fn listed(&mut self, _: Kind, _: Timestamp) {}

    fn next(&mut self, _: &Api, now: Timestamp, _: &mut Whim) -> Option<Request> {
        let due = self.ends.extract_if(.., |_, (at, _)| *at <= now);
        self.todo
            .extend(due.map(|(key, (_, pod))| patch(key, &pod, ended(&pod, now))));
        self.todo.front().cloned()
    }

    fn answered(&mut self, _: &Request, answer: &Answer, _: Timestamp) {
        // A kubelet tries again until it knows; a refusal means that the watch has more to tell.
        if !super::is_lost(answer) {
            self.todo.pop_front();
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.ends.values().map(|(at, _)| *at).min()
    }
}

/// Writes a status onto the pod as it was seen: one that has ended since does not run again.
fn patch(key: Key, pod: &Value, status: Value) -> Request {
    let conditions = [
        ("uid", Some(string_at(pod, "/metadata/uid"))),
        ("resourceVersion", Some(string_at(pod, "/metadata/resourceVersion"))),
    ];
    Request::Patch {
        key,
        status: true,
        merge: with_conditions(json!({"status": status}), &conditions),
    }
}

fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The statuses of all containers.
fn containers(pod: &Value, status: impl Fn() -> Value) -> Vec<Value> {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array);
    let named = containers.into_iter().flatten().map(|container| {
        let mut status = status();
        status["name"] = json!(string_at(container, "/name"));
        status
    });
    named.collect()
}

/// When a pod that runs ends by itself.
fn end(pod: &Value) -> Option<Timestamp> {
    let run_time = fake::millis(annotation(pod, names::RUN_TIME)).ok()?;
    let started: Timestamp = string_at(pod, "/status/startTime").parse().ok()?;
    started.checked_add(SignedDuration::from_millis(run_time)).ok()
}

/// The status of a pod whose containers have come to their end.
fn ended(pod: &Value, now: Timestamp) -> Value {
    let attempt = annotation(pod, names::JOB_RETRY_COUNT).parse().ok();
    let codes = match annotation(pod, names::EXIT_CODE) {
        "" => "0",
        codes => codes,
    };
    exit(pod, fake::exit_code(codes, attempt.unwrap_or(0)).unwrap_or(0), now)
}

/// The status of a pod whose containers have ended with this code.
pub(crate) fn exit(pod: &Value, code: u8, now: Timestamp) -> Value {
    let state = json!({"terminated": {"exitCode": code, "finishedAt": stamp(now)}});
    let containers = containers(pod, || json!({"ready": false, "state": state}));
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    json!({"phase": phase, "containerStatuses": containers})
}
