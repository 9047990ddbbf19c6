//! What may change in a pod that exists: very little.

use super::{integer_at, list_at, pod, string_at};
use crate::field_error::{FieldError, child, index};
use serde_json::{Map, Value};

const ALLOWED: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(super) fn validate(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let empty = Value::Object(Map::new());
    let (new, old) = (new.get("spec").unwrap_or(&empty), old.get("spec").unwrap_or(&empty));
    if new == old {
        return;
    }
    for field in ["containers", "initContainers"] {
        if list_at(new, field).len() != list_at(old, field).len() {
            let words = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(child("spec", field), words));
            return;
        }
        for (position, container) in list_at(new, field).iter().enumerate() {
            if string_at(container, "image").is_empty() {
                let at = index(&child("spec", field), position);
                errors.push(FieldError::required(child(&at, "image"), ""));
            }
        }
    }
    check_deadline(new, old, errors);
    check_tolerations(new, old, errors);
    check_gates(new, old, errors);
    if frozen(new, old) != frozen(old, old) {
        errors.push(FieldError::forbidden("spec", ALLOWED));
    }
}

/// The spec with everything that may change taken out.
fn frozen(spec: &Value, old: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(fields) = spec.as_object_mut() else {
        return spec;
    };
    let gated = !list_at(old, "schedulingGates").is_empty();
    let mut free = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    if gated {
        // A gated pod is not scheduled yet: where it may run can still be narrowed.
        free.extend(["nodeSelector", "affinity"]);
    }
    if integer_at(old, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        free.push("terminationGracePeriodSeconds");
    }
    fields.retain(|field, _| !free.contains(&field.as_str()));
    for field in ["containers", "initContainers"] {
        let containers = fields.get_mut(field).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            container.remove("image");
        }
    }
    spec
}

fn check_deadline(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = "spec.activeDeadlineSeconds";
    match (
        integer_at(new, "activeDeadlineSeconds"),
        integer_at(old, "activeDeadlineSeconds"),
    ) {
        (Some(seconds), _) if !(1..=i64::from(i32::MAX)).contains(&seconds) => {
            errors.push(FieldError::invalid(
                path,
                seconds,
                "must be between 1 and 2147483647, inclusive",
            ));
        }
        (Some(seconds), Some(before)) if seconds > before => {
            errors.push(FieldError::invalid(
                path,
                seconds,
                "must be less than or equal to previous value",
            ));
        }
        (None, Some(_)) => {
            let words = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(path, Value::Null, words));
        }
        _ => {}
    }
}

fn check_tolerations(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (wanted, before) = (list_at(new, "tolerations"), list_at(old, "tolerations"));
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let kept = before.iter().all(|existing| {
        let existing = without_seconds(existing);
        wanted.iter().any(|toleration| without_seconds(toleration) == existing)
    });
    if !kept {
        let words = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", words));
    }
    pod::check_tolerations(wanted, "spec.tolerations", errors);
}

fn check_gates(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for gate in list_at(new, "schedulingGates")
        .iter()
        .filter(|gate| !list_at(old, "schedulingGates").contains(gate))
    {
        let words = format!(
            "only deletion is allowed, but found new scheduling gate '{}'",
            string_at(gate, "name")
        );
        errors.push(FieldError::forbidden("spec.schedulingGates", words));
    }
}
