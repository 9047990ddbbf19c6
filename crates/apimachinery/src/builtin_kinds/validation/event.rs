//! Rules for events.

use super::string_at;
use crate::field_error::{FieldError, child};
use serde_json::Value;

pub(super) fn event(event: &Value, errors: &mut Vec<FieldError>) {
    let namespace = string_at(event, "/metadata/namespace");
    let (field, object) = match event.get("regarding") {
        Some(object) => ("regarding", object),
        None => ("involvedObject", event.get("involvedObject").unwrap_or(&Value::Null)),
    };
    let found = string_at(object, "namespace");
    // Events about cluster-scoped objects live in the default namespace.
    let fits = if found.is_empty() {
        matches!(namespace, "default" | "kube-system" | "")
    } else {
        found == namespace
    };
    if !fits {
        errors.push(FieldError::invalid(
            child(field, "namespace"),
            found,
            "does not match event.namespace",
        ));
    }
}
