//! What a pod does, in one word, as kubectl says it.

use basalt_api::json::{integer_or_zero, string_at};
use serde_json::Value;

use crate::terminal::Colour;

/// A pod's state for a person.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) word: String,
    pub(super) message: String,
    pub(super) ready: usize,
    pub(super) containers: usize,
    pub(super) restarts: i64,
}

impl Status {
    pub(super) fn of(pod: &Value) -> Self {
        let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array);
        let states = || list("/status/containerStatuses").into_iter().flatten();
        let starting = list("/status/initContainerStatuses").into_iter().flatten();
        let (word, message) = word(pod, states(), starting);
        Self {
            word,
            message,
            ready: states().filter(|state| state["ready"] == true).count(),
            containers: list("/spec/containers").map_or(0, Vec::len),
            restarts: states()
                .map(|state| integer_or_zero(state, "/restartCount"))
                .fold(0, i64::saturating_add),
        }
    }

    pub(super) fn colour(&self) -> Option<Colour> {
        match self.word.as_str() {
            "Running" => Some(Colour::Green),
            "Completed" | "Succeeded" => Some(Colour::Grey),
            "Pending" | "Terminating" | "ContainerCreating" | "SchedulingGated" => Some(Colour::Yellow),
            "" => None,
            _ => Some(Colour::Red),
        }
    }
}

/// The word and the sentence behind it: what ends it, then what its containers say, then what holds it back.
fn word<'a>(
    pod: &'a Value,
    states: impl Iterator<Item = &'a Value>,
    starting: impl Iterator<Item = &'a Value>,
) -> (String, String) {
    let phase = string_at(pod, "/status/phase");
    let own = (string_at(pod, "/status/reason"), string_at(pod, "/status/message"));
    if !string_at(pod, "/metadata/deletionTimestamp").is_empty() {
        return ("Terminating".to_owned(), own.1.to_owned());
    }
    if !own.0.is_empty() {
        return (own.0.to_owned(), own.1.to_owned());
    }
    if let Some((reason, message)) = starting.filter(|_| phase == "Pending").find_map(trouble) {
        return (format!("Init:{reason}"), message);
    }
    if let Some(found) = states
        .filter(|_| phase != "Running" || is_waiting(pod))
        .find_map(trouble)
    {
        return found;
    }
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let held = conditions.into_iter().flatten().find(|condition| {
        string_at(condition, "/type") == "PodScheduled" && string_at(condition, "/status") == "False"
    });
    let message = held.map_or("", |condition| string_at(condition, "/message"));
    let gated = held.is_some_and(|condition| string_at(condition, "/reason") == "SchedulingGated");
    let word = if gated { "SchedulingGated" } else { phase };
    (word.to_owned(), message.to_owned())
}

/// Whether a container of a running pod waits, for example after a crash.
fn is_waiting(pod: &Value) -> bool {
    let states = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    states
        .into_iter()
        .flatten()
        .any(|state| state["state"]["waiting"].is_object())
}

/// Why a container does not run.
fn trouble(state: &Value) -> Option<(String, String)> {
    let state = &state["state"];
    let (waiting, ended) = (&state["waiting"], &state["terminated"]);
    let (kind, reason) = if waiting.is_object() {
        (waiting, string_at(waiting, "/reason").to_owned())
    } else if ended.is_object() {
        let reason = match (string_at(ended, "/reason"), integer_or_zero(ended, "/exitCode")) {
            ("", 0) => "Completed".to_owned(),
            ("", code) => format!("ExitCode:{code}"),
            (reason, _) => reason.to_owned(),
        };
        (ended, reason)
    } else {
        return None;
    };
    (!reason.is_empty()).then(|| (reason, string_at(kind, "/message").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_word_says_what_a_pod_does() {
        let check = |metadata: Value, status: Value, expected: &str| {
            let pod = json!({"metadata": metadata, "spec": {"containers": [{}]}, "status": status});
            let status = Status::of(&pod);
            assert_eq!(
                format!("{} {}", status.word, status.message).trim_end(),
                expected,
                "{pod}"
            );
        };
        let waits =
            |reason: &str| json!([{"state": {"waiting": {"reason": reason, "message": "why"}}, "restartCount": 3}]);
        check(
            json!({}),
            json!({"phase": "Running", "containerStatuses": [{"state": {"running": {}}}]}),
            "Running",
        );
        check(
            json!({"deletionTimestamp": "x"}),
            json!({"phase": "Running"}),
            "Terminating",
        );
        check(
            json!({}),
            json!({"phase": "Failed", "reason": "Evicted", "message": "for gang b"}),
            "Evicted for gang b",
        );
        check(
            json!({}),
            json!({"phase": "Pending", "containerStatuses": waits("ImagePullBackOff")}),
            "ImagePullBackOff why",
        );
        check(
            json!({}),
            json!({"phase": "Running", "containerStatuses": waits("CrashLoopBackOff")}),
            "CrashLoopBackOff why",
        );
        check(
            json!({}),
            json!({"phase": "Pending", "initContainerStatuses": waits("Error")}),
            "Init:Error why",
        );
        let ended = |code: i32| json!([{"state": {"terminated": {"exitCode": code}}}]);
        check(
            json!({}),
            json!({"phase": "Succeeded", "containerStatuses": ended(0)}),
            "Completed",
        );
        check(
            json!({}),
            json!({"phase": "Failed", "containerStatuses": ended(137)}),
            "ExitCode:137",
        );
        let gate =
            json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "gated"}]);
        check(
            json!({}),
            json!({"phase": "Pending", "conditions": gate}),
            "SchedulingGated gated",
        );
        check(json!({}), json!({}), "");
        check(json!([]), json!("odd"), "");
    }
}
