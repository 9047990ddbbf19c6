//! Rules for the kinds that have only a few.

use super::{
    immutable, integer, items,
    pod::{check_one_of, quantity, quantity_words},
    service, text,
};
use crate::machinery::{
    field_error::{FieldError, child, index, key},
    names,
};
use basalt_api::quantity::Quantity;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

type Errors = Vec<FieldError>;

pub(super) fn validate(kind: &str, new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let empty = Value::Object(Map::new());
    let spec = new.get("spec").unwrap_or(&empty);
    match kind {
        "Service" => service::validate(spec, old, errors),
        "Node" => node(spec, errors),
        "PriorityClass" => priority_class(new, old, errors),
        "PersistentVolumeClaim" => claim(new, spec, old, errors),
        "PersistentVolume" => volume(spec, errors),
        "StorageClass" => storage_class(new, old, errors),
        "PodDisruptionBudget" => disruption_budget(spec, errors),
        "Lease" => lease(spec, errors),
        "Role" | "ClusterRole" => role(kind, new, errors),
        "RoleBinding" | "ClusterRoleBinding" => binding(kind, new, old, errors),
        "Event" => event(new, errors),
        "ResourceQuota" => amounts(spec.get("hard"), "spec.hard", errors),
        "LimitRange" => limit_range(spec, errors),
        _ => {}
    }
}

fn amounts(map: Option<&Value>, path: &str, errors: &mut Errors) {
    for (name, value) in map.and_then(Value::as_object).into_iter().flatten() {
        let at = key(path, name);
        let wrong = names::qualified(name);
        errors.extend(
            wrong
                .into_iter()
                .map(|words| FieldError::invalid(at.as_str(), name.as_str(), words)),
        );
        match quantity(value) {
            None => errors.push(FieldError::invalid(at, value.clone(), quantity_words())),
            Some(amount) if amount < Quantity::default() => {
                errors.push(FieldError::invalid(
                    at,
                    value.clone(),
                    "must be greater than or equal to 0",
                ));
            }
            Some(_) => {}
        }
    }
}

fn node(spec: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (position, taint) in items(spec, "taints").iter().enumerate() {
        let at = index("spec.taints", position);
        let (name, value) = (text(taint, "key"), text(taint, "value"));
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
        if text(taint, "effect").is_empty() {
            errors.push(FieldError::required(child(&at, "effect"), ""));
        }
        check_one_of(
            taint,
            "effect",
            &at,
            &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            errors,
        );
        if !seen.insert((name, text(taint, "effect"))) {
            errors.push(FieldError::duplicate(at, taint.clone()));
        }
    }
}

/// The classes that the server itself makes, with the values they must have.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

fn priority_class(class: &Value, old: Option<&Value>, errors: &mut Errors) {
    let name = class
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let value = integer(class, "value").unwrap_or_default();
    if name.starts_with("system-") {
        if !SYSTEM_CLASSES.contains(&(name, value)) {
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

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn access_modes(spec: &Value, errors: &mut Errors) {
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(
            "spec.accessModes",
            "at least 1 access mode is required",
        ));
    }
    for mode in modes
        .iter()
        .filter(|mode| !ACCESS_MODES.contains(&mode.as_str().unwrap_or_default()))
    {
        errors.push(FieldError::not_supported(
            "spec.accessModes",
            mode.clone(),
            &ACCESS_MODES,
        ));
    }
    check_one_of(spec, "volumeMode", "spec", &["Block", "Filesystem"], errors);
}

fn claim(new: &Value, spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    access_modes(spec, errors);
    match spec.pointer("/resources/requests/storage").map(quantity) {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(None) => {
            let value = spec.pointer("/resources/requests/storage").cloned().unwrap_or_default();
            errors.push(FieldError::invalid("spec.resources[storage]", value, quantity_words()));
        }
        Some(Some(amount)) if amount <= Quantity::default() => {
            errors.push(FieldError::invalid(
                "spec.resources[storage]",
                amount.to_string(),
                "must be greater than zero",
            ));
        }
        Some(Some(_)) => {}
    }
    let frozen = |object: &Value, bound: bool| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(fields) = spec.as_object_mut() {
            // The binder fills these once; storage may grow afterwards.
            fields.remove("resources");
            fields.remove("volumeAttributesClassName");
            if !bound {
                fields.remove("volumeName");
                fields.remove("storageClassName");
            }
        }
        spec
    };
    if let Some(old) = old {
        let bound = old.pointer("/spec/volumeName").is_some();
        if frozen(new, bound) != frozen(old, bound) {
            let words = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            errors.push(FieldError::forbidden("spec", words));
        }
    }
}

fn volume(spec: &Value, errors: &mut Errors) {
    access_modes(spec, errors);
    let capacity = spec.get("capacity").and_then(Value::as_object);
    if capacity.is_none_or(Map::is_empty) {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    amounts(spec.get("capacity"), "spec.capacity", errors);
    check_one_of(
        spec,
        "persistentVolumeReclaimPolicy",
        "spec",
        &["Delete", "Recycle", "Retain"],
        errors,
    );
    let plain = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    if spec
        .as_object()
        .into_iter()
        .flatten()
        .all(|(field, _)| plain.contains(&field.as_str()))
    {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
}

fn storage_class(class: &Value, old: Option<&Value>, errors: &mut Errors) {
    if text(class, "provisioner").is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    }
    check_one_of(class, "reclaimPolicy", "", &["Delete", "Retain"], errors);
    check_one_of(
        class,
        "volumeBindingMode",
        "",
        &["Immediate", "WaitForFirstConsumer"],
        errors,
    );
    let Some(old) = old else { return };
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if class.get(field) != old.get(field) {
            errors.push(FieldError::forbidden(
                field,
                format!("updates to {field} are forbidden."),
            ));
        }
    }
    immutable(class, old, "/volumeBindingMode", "volumeBindingMode", errors);
}

fn disruption_budget(spec: &Value, errors: &mut Errors) {
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        let words = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid("spec", spec.clone(), words));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let path = child("spec", field);
        match spec.get(field) {
            Some(Value::Number(count)) if count.as_i64().is_none_or(|count| count < 0) => {
                errors.push(FieldError::invalid(
                    path,
                    Value::Number(count.clone()),
                    "must be greater than or equal to 0",
                ));
            }
            Some(Value::String(share)) => {
                let percent = share.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok());
                match percent {
                    None => {
                        let words = "a valid percent string must be a numeric string followed by an ending '%' \
                                     (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                        errors.push(FieldError::invalid(path, share.as_str(), words));
                    }
                    Some(percent) if percent > 100 => {
                        errors.push(FieldError::invalid(
                            path,
                            share.as_str(),
                            "must not be greater than 100%",
                        ));
                    }
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }
}

fn lease(spec: &Value, errors: &mut Errors) {
    if let Some(seconds) = integer(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            seconds,
            "must be greater than 0",
        ));
    }
    if let Some(count) = integer(spec, "leaseTransitions").filter(|count| *count < 0) {
        errors.push(FieldError::invalid(
            "spec.leaseTransitions",
            count,
            "must be greater than or equal to 0",
        ));
    }
}

fn role(kind: &str, role: &Value, errors: &mut Errors) {
    for (position, rule) in items(role, "rules").iter().enumerate() {
        let at = index("rules", position);
        let required = |field: &str, words: &str| FieldError::required(child(&at, field), words);
        if items(rule, "verbs").is_empty() {
            errors.push(required("verbs", "verbs must contain at least one value"));
        }
        if !items(rule, "nonResourceURLs").is_empty() {
            if kind == "Role" {
                let value = Value::from(items(rule, "nonResourceURLs").to_vec());
                let words = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(child(&at, "nonResourceURLs"), value, words));
            }
            continue;
        }
        if items(rule, "apiGroups").is_empty() {
            errors.push(required(
                "apiGroups",
                "resource rules must supply at least one api group",
            ));
        }
        if items(rule, "resources").is_empty() {
            errors.push(required(
                "resources",
                "resource rules must supply at least one resource",
            ));
        }
    }
}

fn binding(kind: &str, new: &Value, old: Option<&Value>, errors: &mut Errors) {
    let empty = Value::Object(Map::new());
    let role = new.get("roleRef").unwrap_or(&empty);
    let kinds: &[&str] = if kind == "RoleBinding" {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(FieldError::not_supported("roleRef.kind", text(role, "kind"), kinds));
    }
    match text(role, "name") {
        "" => errors.push(FieldError::required("roleRef.name", "")),
        name => {
            let wrong = names::path_segment(name);
            errors.extend(
                wrong
                    .into_iter()
                    .map(|words| FieldError::invalid("roleRef.name", name, words)),
            );
        }
    }
    for (position, subject) in items(new, "subjects").iter().enumerate() {
        let at = index("subjects", position);
        if text(subject, "name").is_empty() {
            errors.push(FieldError::required(child(&at, "name"), ""));
        }
        match text(subject, "kind") {
            "ServiceAccount" if text(subject, "namespace").is_empty() => {
                errors.push(FieldError::required(child(&at, "namespace"), ""));
            }
            "ServiceAccount" | "User" | "Group" => {}
            other => {
                let kinds = ["ServiceAccount", "User", "Group"];
                errors.push(FieldError::not_supported(child(&at, "kind"), other, &kinds));
            }
        }
    }
    if old.is_some_and(|old| old.get("roleRef") != new.get("roleRef")) {
        errors.push(FieldError::invalid("roleRef", role.clone(), "cannot change roleRef"));
    }
}

fn event(event: &Value, errors: &mut Errors) {
    let namespace = event
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let (field, object) = match event.get("regarding") {
        Some(object) => ("regarding", object),
        None => ("involvedObject", event.get("involvedObject").unwrap_or(&Value::Null)),
    };
    let found = text(object, "namespace");
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

fn limit_range(spec: &Value, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (position, item) in items(spec, "limits").iter().enumerate() {
        let at = index("spec.limits", position);
        let kind = text(item, "type");
        if kind.is_empty() {
            errors.push(FieldError::required(child(&at, "type"), ""));
        } else if !seen.insert(kind) {
            errors.push(FieldError::duplicate(child(&at, "type"), kind));
        }
        for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            amounts(item.get(field), &child(&at, field), errors);
        }
    }
}
