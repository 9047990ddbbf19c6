//! Rows of pods.

use super::cells::{name, none_if_empty, object_age, or_none, since};
use crate::json::{list_at, string_at};
use jiff::Timestamp;
use serde_json::{Value, json};

pub(super) const HEADS: &[&str] = &[
    "Name!",
    "Ready",
    "Status",
    "Restarts",
    "Age",
    "IP+",
    "Node+",
    "Nominated Node+",
    "Readiness Gates+",
];

/// What the containers' statuses add up to.
struct Summary {
    status: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

pub(super) fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let summary = summarise(pod);
    let restarts = match summary.last_restart {
        Some(time) if summary.restarts > 0 => {
            let ago = since(&time.to_string(), now);
            format!("{} ({ago} ago)", summary.restarts)
        }
        _ => summary.restarts.to_string(),
    };
    vec![
        name(pod),
        Value::from(format!("{}/{}", summary.ready, summary.total)),
        Value::from(summary.status),
        Value::from(restarts),
        object_age(pod, now),
        ip(pod),
        or_none(pod, "/spec/nodeName"),
        or_none(pod, "/status/nominatedNodeName"),
        readiness_gates(pod),
    ]
}

/// The row's conditions: a finished pod is marked as completed.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match string_at(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}

fn ip(pod: &Value) -> Value {
    let first = list_at(pod, "/status/podIPs")
        .first()
        .map(|entry| string_at(entry, "/ip"));
    none_if_empty(first.unwrap_or_else(|| string_at(pod, "/status/podIP")))
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    list_at(pod, "/status/conditions")
        .iter()
        .find(|condition| string_at(condition, "/type") == kind)
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = list_at(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return Value::from("<none>");
    }
    let met = gates.iter().filter(|gate| {
        condition(pod, string_at(gate, "/conditionType")).is_some_and(|found| string_at(found, "/status") == "True")
    });
    Value::from(format!("{}/{}", met.count(), gates.len()))
}

/// `ExitCode:N`, `Signal:N` or the reason of a container that has ended.
fn end_of(terminated: &Value) -> String {
    let number = |field: &str| terminated.get(field).and_then(Value::as_i64).unwrap_or_default();
    match (string_at(terminated, "/reason"), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn restarts(status: &Value) -> i64 {
    status.get("restartCount").and_then(Value::as_i64).unwrap_or_default()
}

fn last_end(status: &Value) -> Option<Timestamp> {
    string_at(status, "/lastState/terminated/finishedAt").parse().ok()
}

fn is_sidecar(pod: &Value, container: &str) -> bool {
    list_at(pod, "/spec/initContainers")
        .iter()
        .any(|init| string_at(init, "/name") == container && string_at(init, "/restartPolicy") == "Always")
}

fn summarise(pod: &Value) -> Summary {
    let mut summary = Summary {
        status: first_status(pod),
        ready: 0,
        total: 0,
        restarts: 0,
        last_restart: None,
    };
    let init = list_at(pod, "/spec/initContainers");
    let sidecars = init
        .iter()
        .filter(|container| string_at(container, "/restartPolicy") == "Always")
        .count();
    summary.total = list_at(pod, "/spec/containers").len() + sidecars;
    if !initialising(pod, init.len(), &mut summary) {
        running(pod, &mut summary);
    }
    let phase = string_at(pod, "/status/phase");
    if pod
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null())
    {
        if string_at(pod, "/status/reason") == "NodeLost" {
            "Unknown".clone_into(&mut summary.status);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut summary.status);
        }
    }
    summary
}

fn first_status(pod: &Value) -> String {
    let gated = condition(pod, "PodScheduled").is_some_and(|found| string_at(found, "/reason") == "SchedulingGated");
    let status = match string_at(pod, "/status/reason") {
        "" => string_at(pod, "/status/phase"),
        reason => reason,
    };
    if gated {
        "SchedulingGated".to_owned()
    } else {
        status.to_owned()
    }
}

/// Looks at init containers; true while one of them holds the pod back.
fn initialising(pod: &Value, count: usize, summary: &mut Summary) -> bool {
    for (position, status) in list_at(pod, "/status/initContainerStatuses").iter().enumerate() {
        summary.restarts += restarts(status);
        summary.last_restart = summary.last_restart.max(last_end(status));
        let sidecar = is_sidecar(pod, string_at(status, "/name"));
        if let Some(terminated) = status.pointer("/state/terminated") {
            if terminated.get("exitCode").and_then(Value::as_i64).unwrap_or_default() == 0 {
                continue;
            }
            summary.status = format!("Init:{}", end_of(terminated));
            return true;
        }
        if sidecar && status.get("started").and_then(Value::as_bool).unwrap_or_default() {
            summary.ready += usize::from(status.get("ready").and_then(Value::as_bool).unwrap_or_default());
            continue;
        }
        summary.status = match string_at(status, "/state/waiting/reason") {
            "" | "PodInitializing" => format!("Init:{position}/{count}"),
            reason => format!("Init:{reason}"),
        };
        return true;
    }
    false
}

fn running(pod: &Value, summary: &mut Summary) {
    let mut any_running = false;
    for status in list_at(pod, "/status/containerStatuses").iter().rev() {
        summary.restarts += restarts(status);
        summary.last_restart = summary.last_restart.max(last_end(status));
        let waiting = string_at(status, "/state/waiting/reason");
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.status);
        } else if let Some(terminated) = status.pointer("/state/terminated") {
            summary.status = end_of(terminated);
        } else if status.get("ready") == Some(&Value::Bool(true)) && status.pointer("/state/running").is_some() {
            any_running = true;
            summary.ready += 1;
        }
    }
    if summary.status == "Completed" && any_running {
        let ready = condition(pod, "Ready").is_some_and(|found| string_at(found, "/status") == "True");
        if ready { "Running" } else { "NotReady" }.clone_into(&mut summary.status);
    }
}
