//! Whether the schema of a CustomResourceDefinition is structural.

use super::Schema;
use crate::{
    field_error::{FieldError, child, index, key},
    json::string_field,
};
use regex::Regex;
use serde_json::{Map, Value};

/// Deeper nesting than this is no real schema, and would cost stack.
const DEPTH_MAX: usize = 100;
const ERRORS_MAX: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
}

/// What keeps an `openAPIV3Schema` from being a structural schema; paths begin with `path`.
pub fn structural_errors(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, path, Place::Root, 0, &mut errors);
    errors.truncate(ERRORS_MAX);
    errors
}

fn flag(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or_default()
}

fn check(schema: &Value, path: &str, place: Place, depth: usize, errors: &mut Vec<FieldError>) {
    let Some(schema) = schema.as_object() else {
        errors.push(FieldError::type_invalid(path, schema.clone(), "must be an object"));
        return;
    };
    if depth > DEPTH_MAX {
        errors.push(FieldError::forbidden(path, "the schema is nested too deeply"));
        return;
    }
    check_type(schema, path, place, errors);
    check_extensions(schema, path, place, errors);
    check_pattern(schema, path, errors);
    check_list_type(schema, path, errors);
    check_default(schema, path, errors);
    let junctors_at = |name: &str| child(path, name);
    for name in ["allOf", "anyOf", "oneOf"] {
        for (position, part) in schema
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            check_value_validation(schema, part, &index(&junctors_at(name), position), depth + 1, errors);
        }
    }
    if let Some(not) = schema.get("not") {
        check_value_validation(schema, not, &junctors_at("not"), depth + 1, errors);
    }
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        check(
            property,
            &key(&child(path, "properties"), name),
            Place::Field,
            depth + 1,
            errors,
        );
    }
    if let Some(items) = schema.get("items") {
        check(items, &child(path, "items"), Place::Item, depth + 1, errors);
    }
    if let Some(additional @ Value::Object(_)) = schema.get("additionalProperties") {
        check(
            additional,
            &child(path, "additionalProperties"),
            Place::Field,
            depth + 1,
            errors,
        );
    }
}

fn check_type(schema: &Map<String, Value>, path: &str, place: Place, errors: &mut Vec<FieldError>) {
    let kind = string_field(schema, "type");
    let at = child(path, "type");
    let untyped = flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    match (kind, place) {
        ("", Place::Root) => errors.push(FieldError::required(at.clone(), "must not be empty at the root")),
        ("", Place::Item) if !untyped => {
            errors.push(FieldError::required(
                at.clone(),
                "must not be empty for specified array items",
            ));
        }
        ("", Place::Field) if !untyped => {
            errors.push(FieldError::required(
                at.clone(),
                "must not be empty for specified object fields",
            ));
        }
        ("", _) => {}
        ("object" | "array" | "string" | "integer" | "number" | "boolean", _) => {
            if place == Place::Root && kind != "object" {
                errors.push(FieldError::invalid(at.clone(), kind, "must be object at the root"));
            }
        }
        (other, _) => {
            let known = ["array", "boolean", "integer", "number", "object", "string"];
            errors.push(FieldError::not_supported(at.clone(), other, &known));
        }
    }
    if kind == "array" && !schema.contains_key("items") {
        errors.push(FieldError::required(child(path, "items"), "must be specified"));
    }
    for name in ["kind", "apiVersion"] {
        let property = schema
            .get("properties")
            .and_then(|all| all.get(name))
            .filter(|_| place == Place::Root);
        let found = property
            .and_then(|property| property.get("type"))
            .and_then(Value::as_str);
        if let Some(found) = found.filter(|found| *found != "string") {
            let at = child(&key(&child(path, "properties"), name), "type");
            errors.push(FieldError::invalid(at, found, "must be string"));
        }
    }
}

fn check_extensions(schema: &Map<String, Value>, path: &str, place: Place, errors: &mut Vec<FieldError>) {
    let kind = string_field(schema, "type");
    let has_properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|all| !all.is_empty());
    let additional = schema
        .get("additionalProperties")
        .is_some_and(|value| *value != Value::Bool(false));
    if flag(schema, "x-kubernetes-embedded-resource") {
        let words = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "object" => {}
            "" => errors.push(FieldError::required(child(path, "type"), words)),
            other => errors.push(FieldError::invalid(child(path, "type"), other, words)),
        }
        if !has_properties && !flag(schema, "x-kubernetes-preserve-unknown-fields") {
            let words = "must not be empty if x-kubernetes-embedded-resource is true without \
                         x-kubernetes-preserve-unknown-fields";
            errors.push(FieldError::required(child(path, "properties"), words));
        }
    }
    if flag(schema, "x-kubernetes-int-or-string") {
        for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
            if flag(schema, name) {
                let words = "must be false if x-kubernetes-int-or-string is true";
                errors.push(FieldError::invalid(child(path, name), true, words));
            }
        }
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let words = "must be true or undefined";
        errors.push(FieldError::invalid(
            child(path, "x-kubernetes-preserve-unknown-fields"),
            false,
            words,
        ));
    }
    let at = child(path, "additionalProperties");
    if additional && place == Place::Root {
        errors.push(FieldError::forbidden(at, "must not be used at the root"));
    } else if additional && has_properties {
        errors.push(FieldError::forbidden(
            at,
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    for name in [
        "$ref",
        "definitions",
        "dependencies",
        "patternProperties",
        "id",
        "deprecated",
    ] {
        if schema.contains_key(name) {
            errors.push(FieldError::forbidden(
                child(path, name),
                format!("{name} is not supported"),
            ));
        }
    }
    if flag(schema, "uniqueItems") {
        let words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(child(path, "uniqueItems"), words));
    }
}

fn check_pattern(schema: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let pattern = string_field(schema, "pattern");
    if pattern.is_empty() {
        return;
    }
    if let Err(error) = Regex::new(pattern) {
        let words = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(child(path, "pattern"), pattern, words));
    }
}

/// A default must itself be valid.
fn check_default(schema: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(default) = schema.get("default") else { return };
    let at = child(path, "default");
    // A schema that does not compile has been complained of already.
    let Ok(compiled) = Schema::compile(&Value::Object(schema.clone())) else {
        return;
    };
    for wrong in compiled.validate(default) {
        let place = if wrong.path.is_empty() {
            at.clone()
        } else {
            child(&at, &wrong.path)
        };
        errors.push(FieldError { path: place, ..wrong });
    }
}

fn check_list_type(schema: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(list_type) = schema.get("x-kubernetes-list-type").and_then(Value::as_str) else {
        return;
    };
    let at = child(path, "x-kubernetes-list-type");
    if string_field(schema, "type") != "array" {
        let words = "must be array if x-kubernetes-list-type is specified";
        errors.push(FieldError::invalid(
            child(path, "type"),
            string_field(schema, "type"),
            words,
        ));
    }
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    match list_type {
        "atomic" | "set" => {}
        "map" => {
            if keys.is_none_or(Vec::is_empty) {
                let words = "must not be empty if x-kubernetes-list-type is map";
                errors.push(FieldError::required(child(path, "x-kubernetes-list-map-keys"), words));
            }
            let properties = schema.get("items").and_then(|items| items.get("properties"));
            for (position, name) in keys.into_iter().flatten().enumerate() {
                let name = name.as_str().unwrap_or_default();
                if properties.is_none_or(|all| all.get(name).is_none()) {
                    let at = index(&child(path, "x-kubernetes-list-map-keys"), position);
                    let words = "entries must all be names of item properties";
                    errors.push(FieldError::invalid(at, name, words));
                }
            }
        }
        other => errors.push(FieldError::not_supported(at, other, &["atomic", "map", "set"])),
    }
}

/// What says something of a value's shape, and what it must be inside of `allOf` and its like.
const SHAPE_WORDS: [(&str, &str); 12] = [
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("x-kubernetes-list-type", "undefined"),
    ("x-kubernetes-map-type", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("x-kubernetes-list-map-keys", "empty"),
    ("x-kubernetes-validations", "empty"),
    ("nullable", "false"),
    ("x-kubernetes-preserve-unknown-fields", "false"),
    ("x-kubernetes-embedded-resource", "false"),
    ("x-kubernetes-int-or-string", "false"),
];

/// Inside `allOf` and its like only values may be restricted; shape is said outside.
fn check_value_validation(
    outer: &Map<String, Value>,
    schema: &Value,
    path: &str,
    depth: usize,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = schema.as_object() else {
        errors.push(FieldError::type_invalid(path, schema.clone(), "must be an object"));
        return;
    };
    if depth > DEPTH_MAX {
        errors.push(FieldError::forbidden(path, "the schema is nested too deeply"));
        return;
    }
    let int_or_string = flag(outer, "x-kubernetes-int-or-string");
    if schema.contains_key("type") && !int_or_string {
        errors.push(FieldError::forbidden(
            child(path, "type"),
            "must be empty to be structural",
        ));
    }
    for (name, word) in SHAPE_WORDS.iter().filter(|(name, _)| schema.contains_key(*name)) {
        let words = format!("must be {word} to be structural");
        errors.push(FieldError::forbidden(child(path, name), words));
    }
    check_pattern(schema, path, errors);
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let at = key(&child(path, "properties"), name);
        let empty = Map::new();
        let shape = outer
            .get("properties")
            .and_then(|all| all.get(name))
            .and_then(Value::as_object);
        if shape.is_none() && !flag(outer, "x-kubernetes-preserve-unknown-fields") {
            let words = "must be defined outside of the value validation as well";
            errors.push(FieldError::required(at.as_str(), words));
        }
        check_value_validation(shape.unwrap_or(&empty), property, &at, depth + 1, errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (position, part) in schema
            .get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            check_value_validation(outer, part, &index(&child(path, name), position), depth + 1, errors);
        }
    }
}
