//! Rules for the metadata of every object.

use super::{immutable, label_errors, list_at, string_at};
use crate::{field_error::FieldError, names};
use serde_json::{Map, Value};

/// Kubernetes' limit for all annotations of an object together.
const ANNOTATION_BYTES_MAX: u64 = 256 * 1024;

/// Which names a kind allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// An RFC 1123 subdomain: most kinds, and all custom resources.
    Subdomain,
    /// An RFC 1123 label: namespaces.
    Label,
    /// An RFC 1035 label: services.
    Label1035,
    /// Anything that is one segment of a URL path: RBAC kinds.
    PathSegment,
    /// No rule: kinds that are never stored under their name.
    Free,
}

impl NameRule {
    /// What is wrong with a name.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => names::dns_subdomain(name),
            Self::Label => names::dns_label(name),
            Self::Label1035 => names::dns_1035_label(name),
            Self::PathSegment => names::path_segment(name),
            Self::Free => Vec::new(),
        }
    }
}

/// The rule for the names of a built-in kind.
pub fn name_rule(kind: &str) -> NameRule {
    match kind {
        "Namespace" => NameRule::Label,
        "Service" => NameRule::Label1035,
        "Role" | "RoleBinding" | "ClusterRole" | "ClusterRoleBinding" => NameRule::PathSegment,
        "SelfSubjectAccessReview"
        | "SelfSubjectRulesReview"
        | "SubjectAccessReview"
        | "LocalSubjectAccessReview"
        | "SelfSubjectReview"
        | "TokenReview"
        | "TokenRequest"
        | "DeleteOptions"
        | "Status" => NameRule::Free,
        _ => NameRule::Subdomain,
    }
}

/// What is wrong with an object's metadata, alone and as a change of `old`.
pub fn validate_metadata(rule: NameRule, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if rule == NameRule::Free {
        return errors;
    }
    let empty = Value::Object(Map::new());
    let meta = new.get("metadata").unwrap_or(&empty);
    check_name(rule, meta, &mut errors);
    check_labels(meta, &mut errors);
    check_annotations(meta, &mut errors);
    check_owners(meta, &mut errors);
    for finalizer in list_at(meta, "finalizers") {
        let name = finalizer.as_str().unwrap_or_default();
        let wrong = names::qualified(name);
        errors.extend(
            wrong
                .into_iter()
                .map(|words| FieldError::invalid("metadata.finalizers", name, words)),
        );
    }
    if let Some(old) = old {
        check_change(new, old, &mut errors);
    }
    errors
}

fn check_name(rule: NameRule, meta: &Value, errors: &mut Vec<FieldError>) {
    let (name, prefix) = (string_at(meta, "name"), string_at(meta, "generateName"));
    if !prefix.is_empty() {
        // A prefix may end with what only the generated part completes.
        let completed = prefix.strip_suffix('-').map(|rest| format!("{rest}a"));
        for words in rule.check(completed.as_deref().unwrap_or(prefix)) {
            errors.push(FieldError::invalid("metadata.generateName", prefix, words));
        }
    }
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        let wrong = rule.check(name);
        errors.extend(
            wrong
                .into_iter()
                .map(|words| FieldError::invalid("metadata.name", name, words)),
        );
    }
}

fn entries<'a>(meta: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = meta.get(field).and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn check_labels(meta: &Value, errors: &mut Vec<FieldError>) {
    errors.extend(label_errors(meta.get("labels"), "metadata.labels"));
}

/// What is wrong with the annotations of some `metadata`.
pub fn annotation_errors(meta: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_annotations(meta, &mut errors);
    errors
}

fn check_annotations(meta: &Value, errors: &mut Vec<FieldError>) {
    let path = "metadata.annotations";
    let mut bytes = 0_u64;
    for (key, value) in entries(meta, "annotations") {
        bytes = bytes.saturating_add((key.len() + value.len()) as u64);
        let wrong = names::qualified(&key.to_lowercase());
        errors.extend(wrong.into_iter().map(|words| FieldError::invalid(path, key, words)));
    }
    if bytes > ANNOTATION_BYTES_MAX {
        errors.push(FieldError::too_long(path, ANNOTATION_BYTES_MAX));
    }
}

fn check_owners(meta: &Value, errors: &mut Vec<FieldError>) {
    let path = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for owner in list_at(meta, "ownerReferences") {
        let api_version = string_at(owner, "apiVersion");
        if api_version.rsplit('/').next().unwrap_or_default().is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.apiVersion"),
                api_version,
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            if string_at(owner, field).is_empty() {
                errors.push(FieldError::invalid(format!("{path}.{field}"), "", "must not be empty"));
            }
        }
        if api_version == "v1" && string_at(owner, "kind") == "Event" {
            let words = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, owner.clone(), words));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{}/{}", string_at(owner, "kind"), string_at(owner, "name"));
            if let Some(first) = &controller {
                let words = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                errors.push(FieldError::invalid(
                    path,
                    Value::from(list_at(meta, "ownerReferences").to_vec()),
                    words,
                ));
            } else {
                controller = Some(this);
            }
        }
    }
}

fn check_change(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        immutable(
            new,
            old,
            &format!("/metadata/{field}"),
            &format!("metadata.{field}"),
            errors,
        );
    }
    let leaving = old
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null());
    let finalizers = |object: &Value| -> Vec<String> {
        let found = object
            .get("metadata")
            .map(|meta| list_at(meta, "finalizers"))
            .unwrap_or_default();
        found
            .iter()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let before = finalizers(old);
    let mut added: Vec<String> = finalizers(new)
        .into_iter()
        .filter(|name| !before.contains(name))
        .collect();
    if leaving && !added.is_empty() {
        added.sort();
        let quoted: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
        let words = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            quoted.join(", ")
        );
        errors.push(FieldError::forbidden("metadata.finalizers", words));
    }
}
