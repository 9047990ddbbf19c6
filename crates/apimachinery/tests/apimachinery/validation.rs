//! The words of validation, and of Go's decoder.

use crate::schema::compiled;
use basalt_apimachinery::openapi;
use serde_json::{Value, json};

#[test]
fn scalars_are_checked() {
    let check = |spec: Value, expected: &[&str]| {
        let errors = compiled().validate(&json!({ "spec": spec }));
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{spec}");
    };
    check(json!({ "weight": 1 }), &[]);
    check(json!({}), &["spec.weight: Required value"]);
    check(
        json!({ "weight": 0 }),
        &["spec.weight: Invalid value: 0: spec.weight in body should be greater than or equal to 1"],
    );
    check(
        json!({ "weight": 70000 }),
        &["spec.weight: Invalid value: 70000: spec.weight in body should be less than or equal to 65535"],
    );
    check(
        json!({ "weight": "x" }),
        &["spec.weight: Invalid value: \"string\": spec.weight in body must be of type integer: \"string\""],
    );
    check(
        json!({ "weight": 1.5 }),
        &["spec.weight: Invalid value: \"number\": spec.weight in body must be of type integer: \"number\""],
    );
    check(json!({ "weight": 1.0 }), &[]);
    check(
        json!({ "weight": null }),
        &["spec.weight: Invalid value: \"null\": spec.weight in body must be of type integer: \"null\""],
    );
    check(
        json!({ "weight": 1, "state": "Off" }),
        &["spec.state: Unsupported value: \"Off\": supported values: \"Open\", \"Closed\""],
    );
    check(
        json!({ "weight": 1, "name": "A1" }),
        &["spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'"],
    );
    check(
        json!({ "weight": 1, "name": "a" }),
        &["spec.name: Invalid value: \"a\": spec.name in body should be at least 2 chars long"],
    );
    check(
        json!({ "weight": 1, "name": "abcdef" }),
        &["spec.name: Too long: may not be more than 5 bytes"],
    );
    check(
        json!({ "weight": 1, "ratio": 0 }),
        &["spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"],
    );
    check(
        json!({ "weight": 1, "ratio": 0.7 }),
        &["spec.ratio: Invalid value: 0.7: spec.ratio in body should be a multiple of 0.5"],
    );
    check(json!({ "weight": 1, "port": "http" }), &[]);
    check(
        json!({ "weight": 1, "port": true }),
        &["spec.port: Invalid value: \"boolean\": spec.port in body must be of type integer,string: \"boolean\""],
    );
}

#[test]
fn lists_and_objects_are_checked() {
    let check = |spec: Value, expected: &[&str]| {
        let errors = compiled().validate(&json!({ "spec": spec }));
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{spec}");
    };
    check(
        json!({ "weight": 1, "map": { "a": "1", "b": "2", "c": "3" } }),
        &["spec.map: Too many: 3: must have at most 2 items"],
    );
    check(
        json!({ "weight": 1, "map": { "a": 1 } }),
        &["spec.map.a: Invalid value: \"integer\": spec.map.a in body must be of type string: \"integer\""],
    );
    check(json!({ "weight": 1, "when": "2026-01-02T03:04:05Z" }), &[]);
    check(
        json!({ "weight": 1, "when": "soon" }),
        &["spec.when: Invalid value: \"soon\": spec.when in body must be of type date-time: \"soon\""],
    );
    check(json!({ "weight": 1, "maybe": null }), &[]);
    check(
        json!({ "weight": 1, "tags": ["a", "b", "a"] }),
        &["spec.tags[2]: Duplicate value: \"a\""],
    );
    check(
        json!({ "weight": 1, "tags": ["a", "b", "c", "d"] }),
        &["spec.tags: Too many: 4: must have at most 3 items"],
    );
    check(
        json!({ "weight": 1, "parts": [] }),
        &["spec.parts: Invalid value: 0: spec.parts in body should have at least 1 items"],
    );
    check(
        json!({ "weight": 1, "parts": [{ "size": 1 }] }),
        &["spec.parts[0].name: Required value"],
    );
    check(
        json!({ "weight": 1, "parts": [{ "name": "a" }, { "name": "a" }] }),
        &["spec.parts[1]: Duplicate value: {\"name\":\"a\"}"],
    );
    check(json!({ "weight": 1, "one": { "a": "x" } }), &[]);
    check(
        json!({ "weight": 1, "one": { "a": "x", "b": "y" } }),
        &[
            "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ],
    );
    check(
        json!([]),
        &["spec: Invalid value: \"array\": spec in body must be of type object: \"array\""],
    );
}

#[test]
fn misfits_are_told_in_the_words_of_go() {
    let check = |api_version: &str, kind: &str, object: Value, expected: &str| {
        let schema = openapi::compiled(api_version, kind).expect("built in");
        assert_eq!(schema.decode_error(&object).unwrap_or_default(), expected, "{object}");
    };
    check(
        "v1",
        "Pod",
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c" }] } }),
        "",
    );
    check(
        "v1",
        "Pod",
        json!({ "spec": { "containers": "x" } }),
        "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
    );
    check(
        "v1",
        "Pod",
        json!({ "spec": { "containers": [{ "name": 1 }] } }),
        "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
    );
    check(
        "v1",
        "Pod",
        json!({ "spec": { "hostNetwork": "yes" } }),
        "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool",
    );
    check(
        "v1",
        "Pod",
        json!({ "spec": { "priority": 1.5 } }),
        "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
    );
    check(
        "v1",
        "Pod",
        json!({ "metadata": { "labels": { "a": 1 } } }),
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
    );
}

#[test]
fn special_misfits_are_told_in_the_words_of_go() {
    let check = |api_version: &str, kind: &str, object: Value, expected: &str| {
        let schema = openapi::compiled(api_version, kind).expect("built in");
        assert_eq!(schema.decode_error(&object).unwrap_or_default(), expected, "{object}");
    };
    check(
        "v1",
        "Pod",
        json!({ "metadata": { "labels": [] } }),
        "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
    );
    check(
        "v1",
        "Pod",
        json!({ "spec": [] }),
        "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec",
    );
    check(
        "v1",
        "Pod",
        json!([]),
        "json: cannot unmarshal array into Go value of type v1.Pod",
    );
    check(
        "v1",
        "Pod",
        json!({ "metadata": { "creationTimestamp": "soon" } }),
        "parsing time \"soon\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"soon\" as \"2006\"",
    );
    check(
        "v1",
        "Pod",
        json!({ "spec": { "overhead": { "cpu": "2c" } } }),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    check(
        "v1",
        "Secret",
        json!({ "data": { "a": "%%" } }),
        "illegal base64 data at input byte 0",
    );
}
