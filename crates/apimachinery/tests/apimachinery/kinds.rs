//! The smaller built-in kinds and definitions: what is refused.

use crate::builtin_kinds::{merged, words};
use basalt_apimachinery::{
    builtin_kinds::{default, validate},
    openapi,
    schema::Schema,
    table::Printer,
};
use serde_json::{Value, json};

#[test]
fn services_and_data_are_checked() {
    let check = |api_version: &str, kind: &str, object: Value, expected: &[&str]| {
        let object = merged(json!({ "metadata": { "name": "x", "namespace": "ns" } }), &object);
        assert_eq!(
            words(&validate(api_version, kind, &object, None)),
            expected,
            "{kind} {object}"
        );
    };
    check(
        "v1",
        "Service",
        json!({ "spec": { "type": "ClusterIP" } }),
        &["spec.ports: Required value"],
    );
    check("v1", "Service", json!({ "spec": { "clusterIP": "None" } }), &[]);
    check(
        "v1",
        "Service",
        json!({ "spec": { "ports": [{ "port": 0, "protocol": "TCP" }] } }),
        &["spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"],
    );
    check(
        "v1",
        "Service",
        json!({ "spec": { "ports": [{ "port": 1, "protocol": "TCP" }, { "port": 2, "protocol": "TCP", "name": "b" }] } }),
        &["spec.ports[0].name: Required value"],
    );
    check(
        "v1",
        "ConfigMap",
        json!({ "data": { "a b": "" } }),
        &["data[a b]: Invalid value: \"a b\": a valid config key must consist of \
        alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"],
    );
    check(
        "v1",
        "ConfigMap",
        json!({ "data": { "a": "x".repeat(1_048_577) } }),
        &["[]: Too long: may not be more than 1048576 bytes"],
    );
    check(
        "v1",
        "Secret",
        json!({ "type": "kubernetes.io/tls", "data": { "tls.crt": "" } }),
        &["data[tls.key]: Required value"],
    );
    check(
        "v1",
        "Node",
        json!({ "spec": { "taints": [{ "key": "a", "effect": "Never" }] } }),
        &[
            "spec.taints[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
        ],
    );
}

#[test]
fn cluster_kinds_are_checked() {
    let check = |api_version: &str, kind: &str, object: Value, expected: &[&str]| {
        let object = merged(json!({ "metadata": { "name": "x", "namespace": "ns" } }), &object);
        assert_eq!(
            words(&validate(api_version, kind, &object, None)),
            expected,
            "{kind} {object}"
        );
    };
    check(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        json!({ "value": 2_000_000_000 }),
        &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    );
    check(
        "v1",
        "PersistentVolumeClaim",
        json!({ "spec": {} }),
        &[
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    );
    check(
        "v1",
        "PersistentVolume",
        json!({ "spec": { "accessModes": ["ReadWriteOnce"] } }),
        &[
            "spec.capacity: Required value",
            "spec: Required value: must specify a volume type",
        ],
    );
    check(
        "storage.k8s.io/v1",
        "StorageClass",
        json!({}),
        &["provisioner: Required value"],
    );
    check(
        "policy/v1",
        "PodDisruptionBudget",
        json!({ "spec": { "minAvailable": 1, "maxUnavailable": "200%" } }),
        &[
            "spec: Invalid value: {\"maxUnavailable\":\"200%\",\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set",
            "spec.maxUnavailable: Invalid value: \"200%\": must not be greater than 100%",
        ],
    );
}

#[test]
fn policy_kinds_are_checked() {
    let check = |api_version: &str, kind: &str, object: Value, expected: &[&str]| {
        let object = merged(json!({ "metadata": { "name": "x", "namespace": "ns" } }), &object);
        assert_eq!(
            words(&validate(api_version, kind, &object, None)),
            expected,
            "{kind} {object}"
        );
    };
    check(
        "coordination.k8s.io/v1",
        "Lease",
        json!({ "spec": { "leaseDurationSeconds": 0 } }),
        &["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    );
    check(
        "rbac.authorization.k8s.io/v1",
        "Role",
        json!({ "rules": [{ "verbs": ["get"], "apiGroups": [""] }] }),
        &["rules[0].resources: Required value: resource rules must supply at least one resource"],
    );
    check(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        json!({ "roleRef": { "kind": "Role", "name": "r" }, "subjects": [{ "kind": "ServiceAccount", "name": "a" }] }),
        &[
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            "subjects[0].namespace: Required value",
        ],
    );
    check(
        "v1",
        "Event",
        json!({ "involvedObject": { "namespace": "other" } }),
        &["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"],
    );
    check(
        "v1",
        "LimitRange",
        json!({ "spec": { "limits": [{ "type": "Pod" }, { "type": "Pod" }] } }),
        &["spec.limits[1].type: Duplicate value: \"Pod\""],
    );
}

#[test]
fn changes_of_other_kinds_are_checked() {
    let check = |api_version: &str, kind: &str, old: Value, new: Value, expected: &[&str]| {
        let named = |object: &Value| merged(json!({ "metadata": { "name": "x" } }), object);
        assert_eq!(
            words(&validate(api_version, kind, &named(&new), Some(&named(&old)))),
            expected,
            "{kind}"
        );
    };
    check(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        json!({ "value": 1 }),
        json!({ "value": 2 }),
        &["value: Forbidden: may not be changed in an update."],
    );
    check(
        "v1",
        "ConfigMap",
        json!({ "immutable": true, "data": { "a": "1" } }),
        json!({ "data": { "a": "2" } }),
        &[
            "immutable: Forbidden: field is immutable when `immutable` is set",
            "data: Forbidden: field is immutable when `immutable` is set",
        ],
    );
    check(
        "v1",
        "Secret",
        json!({ "type": "a" }),
        json!({ "type": "b" }),
        &["type: Invalid value: \"b\": field is immutable"],
    );
    let binding = |name: &str| json!({ "roleRef": { "kind": "ClusterRole", "name": name } });
    check(
        "rbac.authorization.k8s.io/v1",
        "ClusterRoleBinding",
        binding("a"),
        binding("b"),
        &["roleRef: Invalid value: {\"kind\":\"ClusterRole\",\"name\":\"b\"}: cannot change roleRef"],
    );
    check(
        "storage.k8s.io/v1",
        "StorageClass",
        json!({ "provisioner": "a" }),
        json!({ "provisioner": "b" }),
        &["provisioner: Forbidden: updates to provisioner are forbidden."],
    );
    let service = |ip: &str| json!({ "spec": { "type": "ClusterIP", "clusterIP": ip, "ports": [{ "port": 1, "protocol": "TCP" }] } });
    check(
        "v1",
        "Service",
        service("10.0.0.1"),
        service("10.0.0.2"),
        &["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"],
    );
}

fn crd() -> Value {
    json!({ "metadata": { "name": "widgets.example.com" }, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } }],
    } })
}

#[test]
fn definitions_are_checked() {
    let check = |change: Value, expected: &[&str]| {
        let object = merged(crd(), &change);
        let found = words(&validate(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            &object,
            None,
        ));
        assert_eq!(found, expected);
    };
    check(json!({}), &[]);
    check(
        json!({ "metadata": { "name": "x.example.com" } }),
        &["metadata.name: Invalid value: \"x.example.com\": must be spec.names.plural+\".\"+spec.group"],
    );
    check(
        json!({ "spec": { "scope": "Galaxy" } }),
        &["spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\""],
    );
    check(
        json!({ "spec": { "versions": [{ "name": "v1", "storage": true }] } }),
        &["spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required"],
    );
    check(
        json!({ "spec": { "versions": [{ "name": "v1", "schema": { "openAPIV3Schema": { "type": "object" } } }] } }),
        &["spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version"],
    );
    check(
        json!({ "spec": { "versions": [{ "name": "v1", "storage": true, "schema": { "openAPIV3Schema": {} } }] } }),
        &["spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root"],
    );
    let changed = merged(crd(), &json!({ "spec": { "scope": "Cluster" } }));
    let found = words(&validate(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        &changed,
        Some(&crd()),
    ));
    assert_eq!(found, ["spec.scope: Invalid value: \"Cluster\": field is immutable"]);
}

#[test]
fn our_own_definitions_pass() {
    for definition in basalt_api::crd::all() {
        let mut object = serde_json::to_value(&definition).expect("JSON");
        let schema = openapi::compiled("apiextensions.k8s.io/v1", "CustomResourceDefinition").expect("built in");
        assert_eq!(schema.prune(&mut object), Vec::<String>::new());
        default("apiextensions.k8s.io/v1", "CustomResourceDefinition", &mut object);
        let errors = validate("apiextensions.k8s.io/v1", "CustomResourceDefinition", &object, None);
        assert_eq!(words(&errors), Vec::<String>::new(), "{:?}", definition.metadata.name);
        for version in object["spec"]["versions"].as_array().into_iter().flatten() {
            Schema::compile(&version["schema"]["openAPIV3Schema"]).expect("it compiles");
            Printer::custom(&version["additionalPrinterColumns"]).expect("good columns");
        }
    }
}
