//! Rules for nodes and leases.

use super::{integer_at, list_at, pod::check_one_of, string_at};
use crate::{
    field_error::{FieldError, child, index},
    names,
};
use serde_json::Value;
use std::collections::BTreeSet;

pub(super) fn node(spec: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (position, taint) in list_at(spec, "taints").iter().enumerate() {
        let at = index("spec.taints", position);
        let (name, value) = (string_at(taint, "key"), string_at(taint, "value"));
        let wrong = names::qualified(name);
        errors.extend(
            wrong
                .into_iter()
                .map(|words| FieldError::invalid(child(&at, "key"), name, words)),
        );
        let wrong = names::label_value(value);
        errors.extend(
            wrong
                .into_iter()
                .map(|words| FieldError::invalid(child(&at, "value"), value, words)),
        );
        if string_at(taint, "effect").is_empty() {
            errors.push(FieldError::required(child(&at, "effect"), ""));
        }
        check_one_of(
            taint,
            "effect",
            &at,
            &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            errors,
        );
        if !seen.insert((name, string_at(taint, "effect"))) {
            errors.push(FieldError::duplicate(at, taint.clone()));
        }
    }
}

pub(super) fn lease(spec: &Value, errors: &mut Vec<FieldError>) {
    if let Some(seconds) = integer_at(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            seconds,
            "must be greater than 0",
        ));
    }
    if let Some(count) = integer_at(spec, "leaseTransitions").filter(|count| *count < 0) {
        errors.push(FieldError::invalid(
            "spec.leaseTransitions",
            count,
            "must be greater than or equal to 0",
        ));
    }
}
