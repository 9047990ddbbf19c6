//! Which container is meant, and whether there is anything to be had from it now.

use basalt_apimachinery::json::{annotation, list_at, string_at, value_at};
use serde_json::Value;

use crate::http::response::status::{ApiError, ApiResult};

/// Names the container that is shown when nobody says which.
const DEFAULT: &str = "kubectl.kubernetes.io/default-container";

fn names<'a>(pod: &'a Value, pointer: &str) -> Vec<&'a str> {
    let containers = list_at(pod, pointer).iter();
    containers.map(|container| string_at(container, "/name")).collect()
}

/// The container that was asked for, or the one that is meant when none was.
pub(super) fn choose(pod: &Value, name: &str, asked: &str) -> ApiResult<String> {
    let (containers, init) = (names(pod, "/spec/containers"), names(pod, "/spec/initContainers"));
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
    let annotated = annotation(pod, DEFAULT);
    if !annotated.is_empty() && known(annotated) {
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
    ["/status/containerStatuses", "/status/initContainerStatuses"]
        .into_iter()
        .flat_map(|pointer| list_at(pod, pointer))
        .find(|status| string_at(status, "/name") == container)
}

/// Refuses to read what was never written.
pub(super) fn check_log(pod: &Value, name: &str, container: &str, previous: bool) -> ApiResult<()> {
    let status = status(pod, container).unwrap_or(&Value::Null);
    let ended_before = value_at(status, "/lastState/terminated").is_some_and(|ended| !ended.is_null());
    let is = |pointer: &str| value_at(status, pointer).is_some_and(|state| !state.is_null());
    let why = if previous {
        if ended_before {
            return Ok(());
        }
        format!("previous terminated container \"{container}\" in pod \"{name}\" not found")
    } else if is("/state/running") || is("/state/terminated") || ended_before {
        return Ok(());
    } else if string_at(pod, "/spec/nodeName").is_empty() {
        format!("container \"{container}\" in pod \"{name}\" is waiting to start: the pod has no node yet")
    } else {
        let reason = match string_at(status, "/state/waiting/reason") {
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
    if value_at(status, "/state/running").is_some_and(|state| !state.is_null()) {
        return Ok(());
    }
    let why = if string_at(pod, "/spec/nodeName").is_empty() {
        format!("pod {name} does not have a host assigned")
    } else {
        let reason = [
            string_at(status, "/state/waiting/reason"),
            string_at(status, "/state/terminated/reason"),
            string_at(pod, "/status/phase"),
        ];
        let reason = reason.into_iter().find(|reason| !reason.is_empty());
        let reason = reason.unwrap_or("ContainerCreating");
        format!("container \"{container}\" in pod \"{name}\" is not running: {reason}")
    };
    Err(ApiError::bad_request(why))
}
