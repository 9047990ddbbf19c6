//! JSON, merge and strategic merge patches.

use basalt_apimachinery::patch;
use serde_json::{Value, json};

#[test]
fn json_patches() {
    let object = json!({ "a": { "b": [1, 2] } });
    let check = |operations: Value, expected: Result<Value, u16>| {
        let found = patch::json(&object, operations.to_string().as_bytes()).map_err(|error| error.code());
        assert_eq!(found, expected, "{operations}");
    };
    check(
        json!([{ "op": "add", "path": "/a/b/-", "value": 3 }]),
        Ok(json!({ "a": { "b": [1, 2, 3] } })),
    );
    check(
        json!([{ "op": "replace", "path": "/a", "value": 1 }]),
        Ok(json!({ "a": 1 })),
    );
    check(
        json!([{ "op": "test", "path": "/a/b/0", "value": 1 }, { "op": "remove", "path": "/a" }]),
        Ok(json!({})),
    );
    check(json!([{ "op": "test", "path": "/a/b/0", "value": 2 }]), Err(422));
    check(json!([{ "op": "remove", "path": "/x" }]), Err(422));
    check(json!([{ "op": "replace", "path": "/x/y", "value": 1 }]), Err(422));
    check(json!([{ "op": "fly", "path": "/x" }]), Err(400));
    check(json!({ "a": 1 }), Err(400));
    check(
        json!(vec![json!({ "op": "test", "path": "/a/b/0", "value": 1 }); 10_001]),
        Err(413),
    );
}

#[test]
fn copies_cannot_blow_an_object_up() {
    let mut operations = vec![json!({ "op": "add", "path": "/x", "value": "0123456789" })];
    for step in 0..60 {
        operations.push(json!({ "op": "copy", "from": "", "path": format!("/c{step}") }));
    }
    let refused = patch::json(&json!({}), Value::from(operations).to_string().as_bytes()).expect_err("too large");
    assert_eq!(refused.code(), 413);
}

#[test]
fn patches_cannot_nest_an_object_too_deeply() {
    let apply = |depth: usize| {
        let paths = (1..=depth).map(|level| "/a".repeat(level));
        let operations: Vec<Value> = paths
            .map(|path| json!({ "op": "add", "path": path, "value": {} }))
            .collect();
        patch::json(&json!({}), Value::from(operations).to_string().as_bytes())
    };
    let deep = apply(125).expect("deep enough").to_string();
    assert!(
        serde_json::from_str::<Value>(&deep).is_ok(),
        "what is stored can be read"
    );
    assert_eq!(apply(200).expect_err("too deep").code(), 422);
    let mut operations = vec![json!({ "op": "add", "path": "/a", "value": {} })];
    for _ in 0..130 {
        operations.push(json!({ "op": "add", "path": "/b", "value": {} }));
        operations.push(json!({ "op": "move", "from": "/a", "path": "/b/a" }));
        operations.push(json!({ "op": "move", "from": "/b", "path": "/a" }));
    }
    let refused = patch::json(&json!({}), Value::from(operations).to_string().as_bytes());
    assert_eq!(refused.expect_err("too deep").code(), 422);
}

#[test]
fn merge_patches() {
    let check = |object: Value, patch: Value, expected: Value| {
        assert_eq!(patch::merge(&object, &patch).expect("a merge patch"), expected);
    };
    check(
        json!({ "a": { "b": 1, "c": 2 } }),
        json!({ "a": { "b": null, "d": 3 } }),
        json!({ "a": { "c": 2, "d": 3 } }),
    );
    check(json!({ "a": [1, 2] }), json!({ "a": [3] }), json!({ "a": [3] }));
    assert_eq!(
        patch::merge(&json!({}), &json!([1])).expect_err("no object").code(),
        400
    );
}

fn pod() -> Value {
    json!({
        "metadata": { "name": "p", "finalizers": ["x/a", "x/b"], "labels": { "a": "1" } },
        "spec": {
            "containers": [
                { "name": "one", "image": "i:1", "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
                  "ports": [{ "containerPort": 80, "protocol": "TCP" }], "args": ["x", "y"] },
                { "name": "two", "image": "j:1" },
            ],
            "volumes": [{ "name": "v", "emptyDir": {} }],
            "tolerations": [{ "key": "a" }],
        },
    })
}

fn strategic(kind: &str, object: &Value, patch: Value, pointer: &str, expected: Value) {
    let patched = patch::strategic(kind, object, &patch).unwrap_or_else(|error| panic!("{patch}: {error}"));
    assert_eq!(
        patched.pointer(pointer).cloned().unwrap_or_default(),
        expected,
        "{patch}"
    );
}

#[test]
fn strategic_patches_merge_lists_by_key() {
    let check = |patch: Value, pointer: &str, expected: Value| strategic("Pod", &pod(), patch, pointer, expected);
    check(
        json!({ "metadata": { "labels": { "b": "2", "a": null } } }),
        "/metadata/labels",
        json!({ "b": "2" }),
    );
    check(
        json!({ "spec": { "containers": [{ "name": "two", "image": "j:2" }] } }),
        "/spec/containers/1",
        json!({ "name": "two", "image": "j:2" }),
    );
    check(
        json!({ "spec": { "containers": [{ "name": "one", "env": [{ "name": "B", "value": "3" }, { "name": "C", "value": "4" }] }] } }),
        "/spec/containers/0/env",
        json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "3" }, { "name": "C", "value": "4" }]),
    );
    check(
        json!({ "spec": { "containers": [{ "name": "one", "env": [{ "name": "A", "$patch": "delete" }] }] } }),
        "/spec/containers/0/env",
        json!([{ "name": "B", "value": "2" }]),
    );
    check(
        json!({ "spec": { "containers": [{ "$patch": "replace" }, { "name": "new", "image": "n" }] } }),
        "/spec/containers",
        json!([{ "name": "new", "image": "n" }]),
    );
    check(
        json!({ "spec": { "containers": [{ "name": "one", "args": ["z"] }] } }),
        "/spec/containers/0/args",
        json!(["z"]),
    );
    check(
        json!({ "spec": { "tolerations": [{ "key": "b" }] } }),
        "/spec/tolerations",
        json!([{ "key": "b" }]),
    );
    check(
        json!({ "metadata": { "finalizers": ["x/c"] } }),
        "/metadata/finalizers",
        json!(["x/c", "x/a", "x/b"]),
    );
    check(
        json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["x/a"] } }),
        "/metadata/finalizers",
        json!(["x/b"]),
    );
    check(
        json!({ "metadata": { "$patch": "replace", "name": "q" } }),
        "/metadata",
        json!({ "name": "q" }),
    );
    check(
        json!({ "metadata": { "labels": { "$patch": "delete" } } }),
        "/metadata/labels",
        json!({}),
    );
    check(
        json!({ "spec": { "volumes": [{ "name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": { "path": "/x" } }] } }),
        "/spec/volumes",
        json!([{ "name": "v", "hostPath": { "path": "/x" } }]),
    );
    check(
        json!({ "spec": { "affinity": { "nodeAffinity": null } } }),
        "/spec/affinity",
        json!({}),
    );
}

#[test]
fn strategic_patches_keep_the_order_that_is_asked_for() {
    let check = |patch: Value, pointer: &str, expected: Value| {
        let patched = patch::strategic("Pod", &pod(), &patch).unwrap_or_else(|error| panic!("{patch}: {error}"));
        let items = patched
            .pointer(pointer)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let names: Vec<Value> = items
            .iter()
            .map(|item| item.get("name").cloned().unwrap_or_else(|| item.clone()))
            .collect();
        assert_eq!(Value::from(names), expected, "{patch}");
    };
    check(
        json!({ "spec": { "$setElementOrder/containers": [{ "name": "two" }, { "name": "one" }] } }),
        "/spec/containers",
        json!(["two", "one"]),
    );
    check(
        json!({ "spec": { "$setElementOrder/containers": [{ "name": "zero" }, { "name": "one" }, { "name": "two" }],
            "containers": [{ "name": "zero", "image": "z" }] } }),
        "/spec/containers",
        json!(["zero", "one", "two"]),
    );
    check(
        json!({ "spec": { "$setElementOrder/containers": [{ "name": "two" }],
            "containers": [{ "name": "one", "$patch": "delete" }] } }),
        "/spec/containers",
        json!(["two"]),
    );
    check(
        json!({ "spec": { "$setElementOrder/containers": [{ "name": "two" }, { "name": "new" }],
            "containers": [{ "name": "new", "image": "z" }] } }),
        "/spec/containers",
        json!(["one", "two", "new"]),
    );
    check(
        json!({ "spec": { "containers": [{ "name": "two", "image": "x" }, { "name": "one", "image": "y" }] } }),
        "/spec/containers",
        json!(["two", "one"]),
    );
    check(
        json!({ "spec": { "containers": [{ "name": "one",
            "env": [{ "name": "C", "value": "4" }, { "name": "B", "value": "3" }] }] } }),
        "/spec/containers/0/env",
        json!(["C", "A", "B"]),
    );
    check(
        json!({ "spec": { "containers": [{ "name": "three" }] } }),
        "/spec/containers",
        json!(["three", "one", "two"]),
    );
    check(
        json!({ "metadata": { "$setElementOrder/finalizers": ["x/c", "x/b"], "finalizers": ["x/c"] } }),
        "/metadata/finalizers",
        json!(["x/c", "x/a", "x/b"]),
    );
}

#[test]
fn other_kinds_have_their_keys() {
    let service = json!({ "spec": { "ports": [{ "port": 80, "targetPort": 8080 }] } });
    let patch = json!({ "spec": { "ports": [{ "port": 80, "targetPort": 9090 }, { "port": 81 }] } });
    strategic(
        "Service",
        &service,
        patch,
        "/spec/ports",
        json!([{ "port": 80, "targetPort": 9090 }, { "port": 81 }]),
    );
    let node = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }, { "type": "Disk", "status": "False" }] } });
    let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    strategic("Node", &node, patch, "/status/conditions/0/status", json!("True"));
    let budget = json!({ "spec": { "selector": { "matchLabels": { "a": "1" } } } });
    let patch = json!({ "spec": { "selector": { "matchLabels": { "b": "1" } } } });
    strategic(
        "PodDisruptionBudget",
        &budget,
        patch,
        "/spec/selector/matchLabels",
        json!({ "b": "1" }),
    );
}

#[test]
fn bad_strategic_patches_are_refused() {
    let check = |kind: &str, patch: Value, code: u16| {
        assert_eq!(
            patch::strategic(kind, &pod(), &patch).expect_err("refused").code(),
            code,
            "{patch}"
        );
    };
    check("Queue", json!({}), 415);
    check("Pod", json!([]), 400);
    check("Pod", json!({ "metadata": { "$patch": "melt" } }), 422);
    check(
        "Pod",
        json!({ "spec": { "containers": [{ "image": "no-name" }] } }),
        422,
    );
    check("Pod", json!({ "spec": { "containers": ["text"] } }), 422);
    check(
        "Pod",
        json!({ "spec": { "$setElementOrder/containers": [{ "name": "b" }, { "name": "a" }],
        "containers": [{ "name": "a" }, { "name": "b" }] } }),
        422,
    );
}
