//! Rules for priority classes.

use super::{integer_at, pod::check_one_of};
use crate::{field_error::FieldError, json::string_at};
use serde_json::Value;

/// The priority classes that every cluster has, with their values.
pub const SYSTEM_PRIORITY_CLASSES: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

pub(super) fn priority_class(class: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let name = string_at(class, "/metadata/name");
    let value = integer_at(class, "value").unwrap_or_default();
    if name.starts_with("system-") {
        if !SYSTEM_PRIORITY_CLASSES.contains(&(name, value)) {
            let words = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
            );
            errors.push(FieldError::forbidden("metadata.name", words));
        }
    } else if value > 1_000_000_000 {
        let words = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(FieldError::forbidden("value", words));
    }
    check_one_of(
        class,
        "preemptionPolicy",
        "",
        &["Never", "PreemptLowerPriority"],
        errors,
    );
    if let Some(old) = old {
        for field in ["value", "preemptionPolicy"] {
            if class.get(field).filter(|v| **v != 0) != old.get(field).filter(|v| **v != 0) {
                errors.push(FieldError::forbidden(field, "may not be changed in an update."));
            }
        }
    }
}
