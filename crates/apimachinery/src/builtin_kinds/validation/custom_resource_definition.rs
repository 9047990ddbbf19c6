//! Rules for CustomResourceDefinitions.

use super::{immutable, list_at, string_at};
use crate::{
    field_error::{FieldError, child, index},
    names,
    schema::structural_errors,
    table::JsonPath,
};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

pub(super) fn validate(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let empty = Value::Object(Map::new());
    let spec = new.get("spec").unwrap_or(&empty);
    check_names(new, spec, errors);
    match string_at(spec, "scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported(
            "spec.scope",
            other,
            &["Cluster", "Namespaced"],
        )),
    }
    check_versions(spec, errors);
    if let Some(old) = old {
        immutable(new, old, "/spec/group", "spec.group", errors);
        immutable(new, old, "/spec/scope", "spec.scope", errors);
        immutable(new, old, "/spec/names/kind", "spec.names.kind", errors);
        immutable(new, old, "/spec/names/plural", "spec.names.plural", errors);
    }
}

fn check_names(new: &Value, spec: &Value, errors: &mut Vec<FieldError>) {
    let group = string_at(spec, "group");
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else {
        let wrong = names::dns_subdomain(group);
        errors.extend(
            wrong
                .into_iter()
                .map(|words| FieldError::invalid("spec.group", group, words)),
        );
        if !group.contains('.') {
            errors.push(FieldError::invalid(
                "spec.group",
                group,
                "should be a domain with at least one dot",
            ));
        }
    }
    let empty = Value::Object(Map::new());
    let given = spec.get("names").unwrap_or(&empty);
    for field in ["plural", "singular", "kind", "listKind"] {
        let path = child("spec.names", field);
        match string_at(given, field) {
            "" => errors.push(FieldError::required(path, "")),
            word => {
                let wrong = names::dns_1035_label(&word.to_lowercase());
                errors.extend(
                    wrong
                        .into_iter()
                        .map(|words| FieldError::invalid(path.as_str(), word, words)),
                );
            }
        }
    }
    for field in ["shortNames", "categories"] {
        for (position, word) in list_at(given, field).iter().enumerate() {
            let word = word.as_str().unwrap_or_default();
            let path = index(&child("spec.names", field), position);
            let wrong = names::dns_1035_label(word);
            errors.extend(
                wrong
                    .into_iter()
                    .map(|words| FieldError::invalid(path.as_str(), word, words)),
            );
        }
    }
    let name = string_at(new, "/metadata/name");
    if name != format!("{}.{group}", string_at(given, "plural")) {
        let words = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, words));
    }
}

fn check_versions(spec: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    let mut stored = 0;
    for (position, version) in list_at(spec, "versions").iter().enumerate() {
        let path = index("spec.versions", position);
        let name = string_at(version, "name");
        let wrong = names::dns_1035_label(name);
        errors.extend(
            wrong
                .into_iter()
                .map(|words| FieldError::invalid(child(&path, "name"), name, words)),
        );
        if !seen.insert(name) {
            errors.push(FieldError::invalid(
                "spec.versions",
                name,
                "must contain unique version names",
            ));
        }
        stored += usize::from(version.get("storage") == Some(&Value::Bool(true)));
        let at = child(&path, "schema.openAPIV3Schema");
        match version.pointer("/schema/openAPIV3Schema") {
            None | Some(Value::Null) => errors.push(FieldError::required(at, "schemas are required")),
            Some(schema) => errors.extend(structural_errors(schema, &at)),
        }
        check_columns(version, &path, errors);
    }
    if seen.is_empty() {
        errors.push(FieldError::required("spec.versions", "must have at least one version"));
    } else if stored != 1 {
        let versions = Value::from(
            list_at(spec, "versions")
                .iter()
                .map(|version| string_at(version, "name"))
                .collect::<Vec<_>>(),
        );
        let words = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", versions, words));
    }
}

fn check_columns(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (position, column) in list_at(version, "additionalPrinterColumns").iter().enumerate() {
        let at = index(&child(path, "additionalPrinterColumns"), position);
        for field in ["name", "type", "jsonPath"] {
            if string_at(column, field).is_empty() {
                errors.push(FieldError::required(child(&at, field), ""));
            }
        }
        let kinds = ["boolean", "date", "integer", "number", "string"];
        super::pod::check_one_of(column, "type", &at, &kinds, errors);
        if let Err(error) = JsonPath::parse(string_at(column, "jsonPath")) {
            errors.push(FieldError::invalid(
                child(&at, "jsonPath"),
                string_at(column, "jsonPath"),
                error.reason,
            ));
        }
    }
}
