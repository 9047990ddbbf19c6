//! Structural schemas: defaults, pruning, validation; JSON text.

use basalt_apimachinery::{
    builtin_kinds, openapi, patch,
    schema::{JsonError, Schema, strict_json, structural_errors},
    table,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn queue_like() -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["weight"],
                "properties": {
                    "weight": { "type": "integer", "format": "int32", "minimum": 1, "maximum": 65535, "default": 1 },
                    "state": { "type": "string", "enum": ["Open", "Closed"], "default": "Open" },
                    "name": { "type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5 },
                    "ratio": { "type": "number", "exclusiveMinimum": true, "minimum": 0, "multipleOf": 0.5 },
                    "port": { "x-kubernetes-int-or-string": true },
                    "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                              "properties": { "known": { "type": "string" } } },
                    "map": { "type": "object", "maxProperties": 2, "additionalProperties": { "type": "string" } },
                    "when": { "type": "string", "format": "date-time" },
                    "maybe": { "type": "string", "nullable": true },
                    "tags": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set",
                              "maxItems": 3 },
                    "parts": {
                        "type": "array", "minItems": 1, "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object", "required": ["name"],
                            "properties": {
                                "name": { "type": "string" },
                                "size": { "type": "integer", "default": 3 },
                            },
                        },
                    },
                    "one": { "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
                             "oneOf": [{ "required": ["a"] }, { "required": ["b"] }] },
                    "template": { "type": "object", "x-kubernetes-embedded-resource": true,
                                  "x-kubernetes-preserve-unknown-fields": true },
                    "flag": { "type": "boolean" },
                },
            },
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    })
}

pub(crate) fn compiled() -> Schema {
    Schema::compile(&queue_like()).expect("a good schema")
}

#[test]
fn the_example_is_structural() {
    assert_eq!(structural_errors(&queue_like(), "schema"), vec![]);
}

#[test]
fn defaults_are_set_where_absent() {
    let check = |mut object: Value, expected: Value| {
        compiled().default(&mut object);
        assert_eq!(object, expected);
    };
    check(
        json!({ "spec": {} }),
        json!({ "spec": { "weight": 1, "state": "Open" } }),
    );
    check(
        json!({ "spec": { "weight": 7, "state": null } }),
        json!({ "spec": { "weight": 7, "state": "Open" } }),
    );
    check(json!({}), json!({}));
    check(
        json!({ "spec": { "weight": 2, "state": "Closed", "parts": [{ "name": "a" }, { "name": "b", "size": 9 }] } }),
        json!({ "spec": { "weight": 2, "state": "Closed",
            "parts": [{ "name": "a", "size": 3 }, { "name": "b", "size": 9 }] } }),
    );
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let check = |mut object: Value, expected: Value, unknown: &[&str]| {
        let found = compiled().prune(&mut object);
        assert_eq!(object, expected);
        assert_eq!(found, unknown);
    };
    check(
        json!({ "apiVersion": "v1", "kind": "X", "metadata": { "name": "a", "foo": 1, "labels": { "any": "x" } },
            "spec": { "weight": 1, "foo": 1 }, "status": { "a": { "b": 1 } }, "extra": {} }),
        json!({ "apiVersion": "v1", "kind": "X", "metadata": { "name": "a", "labels": { "any": "x" } },
            "spec": { "weight": 1 }, "status": { "a": { "b": 1 } } }),
        &["extra", "metadata.foo", "spec.foo"],
    );
    check(
        json!({ "spec": { "parts": [{ "name": "a" }, { "name": "b", "x": 1 }], "free": { "z": 1 }, "map": { "k": "v" } } }),
        json!({ "spec": { "parts": [{ "name": "a" }, { "name": "b" }], "free": { "z": 1 }, "map": { "k": "v" } } }),
        &["spec.parts[1].x"],
    );
    check(
        json!({ "spec": { "template": { "metadata": { "name": "t", "bad": 1 }, "spec": { "any": 1 } } } }),
        json!({ "spec": { "template": { "metadata": { "name": "t" }, "spec": { "any": 1 } } } }),
        &["spec.template.metadata.bad"],
    );
}

#[test]
fn bad_schemas_are_refused() {
    let check = |schema: Value, expected: &[&str]| {
        let found: Vec<String> = structural_errors(&schema, "s")
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, expected, "{schema}");
    };
    check(json!({}), &["s.type: Required value: must not be empty at the root"]);
    check(
        json!({ "type": "string" }),
        &["s.type: Invalid value: \"string\": must be object at the root"],
    );
    check(
        json!({ "type": "object", "properties": { "a": {} } }),
        &["s.properties[a].type: Required value: must not be empty for specified object fields"],
    );
    check(
        json!({ "type": "object", "properties": { "a": { "type": "array" } } }),
        &["s.properties[a].items: Required value: must be specified"],
    );
    check(
        json!({ "type": "object", "properties": { "a": { "type": "array", "items": {} } } }),
        &["s.properties[a].items.type: Required value: must not be empty for specified array items"],
    );
    check(
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        &["s.additionalProperties: Forbidden: must not be used at the root"],
    );
    check(
        json!({ "type": "object", "properties": { "a": { "type": "strong" } } }),
        &[
            "s.properties[a].type: Unsupported value: \"strong\": supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
        ],
    );
    check(
        json!({ "type": "object", "anyOf": [{ "type": "object" }] }),
        &["s.anyOf[0].type: Forbidden: must be empty to be structural"],
    );
    check(
        json!({ "type": "object", "properties": { "a": { "$ref": "#/b", "type": "string" } } }),
        &["s.properties[a].$ref: Forbidden: $ref is not supported"],
    );
    check(
        json!({ "type": "object", "properties": { "a": { "type": "array", "x-kubernetes-list-type": "map",
        "items": { "type": "object" } } } }),
        &[
            "s.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ],
    );
    check(
        json!({ "type": "object", "properties": { "a": { "type": "integer", "minimum": 2, "default": 1 } } }),
        &["s.properties[a].default: Invalid value: 1:  in body should be greater than or equal to 2"],
    );
    let bad = structural_errors(
        &json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "(" } } }),
        "s",
    );
    assert!(
        bad[0]
            .to_string()
            .starts_with("s.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression")
    );
    assert!(Schema::compile(&json!({ "type": "string", "pattern": "(" })).is_err());
    let deep = (0..300).fold(
        json!({ "type": "string" }),
        |inner, _| json!({ "type": "array", "items": inner }),
    );
    assert!(Schema::compile(&deep).is_err());
    assert!(!structural_errors(&deep, "s").is_empty());
}

#[test]
fn built_in_kinds_prune_and_check_types() {
    let pod = openapi::compiled("v1", "Pod").expect("pods are built in");
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "creationTimestamp": null },
        "spec": { "containers": [{ "name": "c", "image": "i", "imagee": "x",
            "resources": { "requests": { "cpu": 0.5, "memory": "1024Mi" } } }], "nodSelector": {} },
    });
    assert_eq!(pod.validate(&object), vec![]);
    assert_eq!(
        pod.prune(&mut object),
        ["spec.containers[0].imagee", "spec.nodSelector"]
    );
    assert_eq!(object["metadata"], json!({ "name": "p" }));
    pod.default(&mut object);
    assert_eq!(
        object["spec"]["containers"][0]["resources"]["requests"],
        json!({ "cpu": "500m", "memory": "1Gi" })
    );
    let wrong =
        json!({ "spec": { "containers": { "name": "c" }, "hostNetwork": "yes", "tolerations": [{ "key": 1 }] } });
    let paths: Vec<String> = pod.validate(&wrong).into_iter().map(|error| error.path).collect();
    assert_eq!(
        paths,
        ["spec.containers", "spec.hostNetwork", "spec.tolerations[0].key"]
    );
    let bad = json!({ "spec": { "containers": [{ "name": "c", "resources": { "limits": { "cpu": "2c" } } }] } });
    assert!(pod.validate(&bad)[0].detail.starts_with("quantities must match"));
}

#[test]
fn recursive_kinds_compile() {
    let crd = openapi::compiled("apiextensions.k8s.io/v1", "CustomResourceDefinition").expect("built in");
    let mut object = json!({ "spec": { "group": "a.b", "versions": [{ "name": "v1", "schema": { "openAPIV3Schema":
        { "type": "object", "properties": { "a": { "type": "array", "items": { "type": "string" }, "default": [1] } },
          "x-bad": 1 } } }] } });
    assert_eq!(crd.validate(&object), vec![]);
    assert_eq!(
        crd.prune(&mut object),
        ["spec.versions[0].schema.openAPIV3Schema.x-bad"]
    );
}

#[test]
fn json_text_is_read_strictly() {
    let (value, duplicates) = strict_json(br#"{"a":1,"b":{"c":[{"d":1,"d":2,"d":3}]},"a":{"e":true}}"#).expect("JSON");
    assert_eq!(value, json!({ "a": { "e": true }, "b": { "c": [{ "d": 3 }] } }));
    assert_eq!(duplicates, ["b.c[0].d", "a"]);
    // However many there are, naming them costs little: here each name would be a megabyte long.
    let many = format!(
        "{{\"{}\":{{{}\"a\":1}}}}",
        "x".repeat(1 << 20),
        "\"a\":1,".repeat(200_000)
    );
    assert_eq!(strict_json(many.as_bytes()).expect("JSON").1.len(), 1);
    let many: Vec<String> = (0..400_000).map(|n| format!("\"{}\":1", n % 200_000)).collect();
    let (_, duplicates) = strict_json(format!("{{{}}}", many.join(",")).as_bytes()).expect("JSON");
    assert_eq!(duplicates.len(), 100);
    assert!(matches!(strict_json(&[b'['; 10_000]), Err(JsonError::TooDeep)));
    assert!(matches!(
        strict_json("{\"a\":".repeat(10_000).as_bytes()),
        Err(JsonError::TooDeep)
    ));
    for bad in ["", "{", "{\"a\":}", "[1,]", "{} x", "nul", "\"\\ud800\"", "1e999"] {
        assert!(
            matches!(strict_json(bad.as_bytes()), Err(JsonError::Malformed(_))),
            "{bad}"
        );
    }
    let numbers = strict_json(b"[1,-1,1.5,18446744073709551615]").expect("JSON").0;
    assert_eq!(numbers, json!([1, -1, 1.5, 18_446_744_073_709_551_615_u64]));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 4.0)),
        "[a-z0-9:.-]{0,6}".prop_map(Value::from),
    ];
    let names = prop_oneof![
        Just("spec"),
        Just("metadata"),
        Just("weight"),
        Just("state"),
        Just("parts"),
        Just("name"),
        Just("tags"),
        Just("free"),
        Just("one"),
        Just("template"),
        Just("containers"),
        Just("resources"),
        Just("requests"),
        Just("cpu"),
        Just("labels"),
    ];
    leaf.prop_recursive(6, 60, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((names.clone(), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn schemas_take_any_json(mut object in any_json()) {
        let pod = openapi::compiled("v1", "Pod").expect("built in");
        for schema in [&compiled(), &*pod] {
            let _ = schema.validate(&object);
            let _ = schema.decode_error(&object);
            schema.prune(&mut object);
            prop_assert_eq!(schema.prune(&mut object), Vec::<String>::new(), "pruning once is enough");
            schema.default(&mut object);
            let once = object.clone();
            schema.default(&mut object);
            prop_assert_eq!(&once, &object, "defaults are set once");
        }
    }

    #[test]
    fn json_text_survives(object in any_json()) {
        let text = object.to_string();
        let (read, duplicates) = strict_json(text.as_bytes()).expect("JSON");
        prop_assert_eq!(read.to_string(), text);
        prop_assert!(duplicates.is_empty());
    }

    #[test]
    fn built_in_kinds_take_any_json(object in any_json(), other in any_json(), patch in any_json()) {
        for (api_version, kind) in [("v1", "Pod"), ("v1", "Service"), ("v1", "Secret"), ("policy/v1", "PodDisruptionBudget"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"), ("rbac.authorization.k8s.io/v1", "RoleBinding")] {
            let _ = builtin_kinds::validate(api_version, kind, &object, Some(&other));
            let mut object = object.clone();
            builtin_kinds::default(api_version, kind, &mut object);
            let _ = builtin_kinds::validate(api_version, kind, &object, None);
            let now = jiff::Timestamp::UNIX_EPOCH;
            let _ = table::Printer::builtin(api_version, kind).row(&object, now, table::Include::Object);
            let _ = patch::strategic(kind, &object, &patch);
        }
    }
}
