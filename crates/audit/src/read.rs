//! Reading JSON that nobody has promised anything about.

use serde_json::Value;

const NULL: &Value = &Value::Null;

/// Follows keys; null where one is missing.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |here, key| here.get(key).unwrap_or(NULL))
}

/// The text at a path; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).as_str().unwrap_or_default()
}

/// The number at a path; zero if there is none.
pub(crate) fn number(value: &Value, path: &[&str]) -> i64 {
    at(value, path).as_i64().unwrap_or(0)
}

/// The list at a path; empty if there is none.
pub(crate) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// The entries of the map at a path, in key order.
pub(crate) fn entries<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = (&'a str, &'a Value)> {
    at(value, path)
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

/// `metadata.<key>`.
pub(crate) fn meta<'a>(object: &'a Value, key: &str) -> &'a str {
    text(object, &["metadata", key])
}

/// `Kind namespace/name`, or `Kind name`.
pub(crate) fn label(kind: &str, object: &Value) -> String {
    match meta(object, "namespace") {
        "" => format!("{kind} {}", meta(object, "name")),
        namespace => format!("{kind} {namespace}/{}", meta(object, "name")),
    }
}

/// Whether deletion has begun.
pub(crate) fn leaving(object: &Value) -> bool {
    !at(object, &["metadata", "deletionTimestamp"]).is_null()
}

/// Whether a pod has ended.
pub(crate) fn ended(pod: &Value) -> bool {
    matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed")
}

/// The node that a pod is bound to; empty if none.
pub(crate) fn node_of(pod: &Value) -> &str {
    text(pod, &["spec", "nodeName"])
}

/// The uid of the Volcano Job that controls an object.
pub(crate) fn job_uid(object: &Value) -> Option<&str> {
    let controller = |owner: &&Value| at(owner, &["controller"]).as_bool() == Some(true);
    let owner = list(object, &["metadata", "ownerReferences"]).iter().find(controller)?;
    let of_job = text(owner, &["kind"]) == "Job" && text(owner, &["apiVersion"]).starts_with("batch.volcano.sh/");
    of_job.then(|| text(owner, &["uid"]))
}
