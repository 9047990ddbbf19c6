//! Rules for roles and role bindings.

use super::{list_at, string_at};
use crate::{
    field_error::{FieldError, child, index},
    names,
};
use serde_json::{Map, Value};

pub(super) fn role(kind: &str, role: &Value, errors: &mut Vec<FieldError>) {
    for (position, rule) in list_at(role, "rules").iter().enumerate() {
        let at = index("rules", position);
        let required = |field: &str, words: &str| FieldError::required(child(&at, field), words);
        if list_at(rule, "verbs").is_empty() {
            errors.push(required("verbs", "verbs must contain at least one value"));
        }
        if !list_at(rule, "nonResourceURLs").is_empty() {
            if kind == "Role" {
                let value = Value::from(list_at(rule, "nonResourceURLs").to_vec());
                let words = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(child(&at, "nonResourceURLs"), value, words));
            }
            continue;
        }
        if list_at(rule, "apiGroups").is_empty() {
            errors.push(required(
                "apiGroups",
                "resource rules must supply at least one api group",
            ));
        }
        if list_at(rule, "resources").is_empty() {
            errors.push(required(
                "resources",
                "resource rules must supply at least one resource",
            ));
        }
    }
}

pub(super) fn binding(kind: &str, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let empty = Value::Object(Map::new());
    let role = new.get("roleRef").unwrap_or(&empty);
    let kinds: &[&str] = if kind == "RoleBinding" {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&string_at(role, "kind")) {
        errors.push(FieldError::not_supported(
            "roleRef.kind",
            string_at(role, "kind"),
            kinds,
        ));
    }
    match string_at(role, "name") {
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
    for (position, subject) in list_at(new, "subjects").iter().enumerate() {
        let at = index("subjects", position);
        if string_at(subject, "name").is_empty() {
            errors.push(FieldError::required(child(&at, "name"), ""));
        }
        match string_at(subject, "kind") {
            "ServiceAccount" if string_at(subject, "namespace").is_empty() => {
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
