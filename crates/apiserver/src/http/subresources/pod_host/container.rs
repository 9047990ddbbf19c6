//! Which container is meant, and whether there is anything to be had from it now.

use serde_json::Value;

use crate::http::metadata::{at, text};
use crate::http::response::status::{ApiError, ApiResult};

/// Names the container that is shown when nobody says which.
const DEFAULT: &str = "kubectl.kubernetes.io/default-container";

fn names<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    let list = at(pod, &["spec", list]).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .map(|container| text(container, &["name"]))
        .collect()
}

/// The container that was asked for, or the one that is meant when none was.
pub(super) fn choose(pod: &Value, name: &str, asked: &str) -> ApiResult<String> {
    let (containers, init) = (names(pod, "containers"), names(pod, "initContainers"));
    let known = |wanted: &str| containers.contains(&wanted) || init.contains(&wanted);
    if !asked.is_empty() {
        return if known(asked) {
            Ok(asked.to_owned())
        } else {
            Err(ApiError::bad_request(format!(
                "container {asked} is not valid for pod {name}"
            )))
        };
    }
    let annotated = at(pod, &["metadata", "annotations", DEFAULT]).and_then(Value::as_str);
    if let Some(annotated) = annotated.filter(|annotated| known(annotated)) {
        return Ok(annotated.to_owned());
    }
    if let [only] = containers.as_slice() {
        return Ok((*only).to_owned());
    }
    let also = if init.is_empty() {
        String::new()
    } else {
        format!(" or one of the init containers: [{}]", init.join(" "))
    };
    let why = format!(
        "a container name must be specified for pod {name}, choose one of: [{}]{also}",
        containers.join(" ")
    );
    Err(ApiError::bad_request(why))
}

fn status<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    ["containerStatuses", "initContainerStatuses"]
        .into_iter()
        .filter_map(|list| at(pod, &["status", list]).and_then(Value::as_array))
        .flatten()
        .find(|status| text(status, &["name"]) == container)
}

/// Refuses to read what was never written.
pub(super) fn check_log(pod: &Value, name: &str, container: &str, previous: bool) -> ApiResult<()> {
    let status = status(pod, container).unwrap_or(&Value::Null);
    let ended_before = at(status, &["lastState", "terminated"]).is_some_and(|ended| !ended.is_null());
    let is = |state: &str| at(status, &["state", state]).is_some_and(|state| !state.is_null());
    let why = if previous {
        if ended_before {
            return Ok(());
        }
        format!("previous terminated container \"{container}\" in pod \"{name}\" not found")
    } else if is("running") || is("terminated") || ended_before {
        return Ok(());
    } else if text(pod, &["spec", "nodeName"]).is_empty() {
        format!("container \"{container}\" in pod \"{name}\" is waiting to start: the pod has no node yet")
    } else {
        let reason = match text(status, &["state", "waiting", "reason"]) {
            "" => "ContainerCreating",
            reason => reason,
        };
        format!("container \"{container}\" in pod \"{name}\" is waiting to start: {reason}")
    };
    Err(ApiError::bad_request(why))
}

/// Refuses to go into what does not run.
pub(super) fn check_running(pod: &Value, name: &str, container: &str) -> ApiResult<()> {
    let status = status(pod, container).unwrap_or(&Value::Null);
    if at(status, &["state", "running"]).is_some_and(|state| !state.is_null()) {
        return Ok(());
    }
    let why = if text(pod, &["spec", "nodeName"]).is_empty() {
        format!("pod {name} does not have a host assigned")
    } else {
        let reason = |state: &str| text(status, &["state", state, "reason"]);
        let reason = [reason("waiting"), reason("terminated"), text(pod, &["status", "phase"])];
        let reason = reason.into_iter().find(|reason| !reason.is_empty());
        let reason = reason.unwrap_or("ContainerCreating");
        format!("container \"{container}\" in pod \"{name}\" is not running: {reason}")
    };
    Err(ApiError::bad_request(why))
}
