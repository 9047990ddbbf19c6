//! Defaults and validation of built-in kinds, with Kubernetes' words.

use basalt_apimachinery::{
    builtin_kinds::{NameRule, default, validate, validate_metadata},
    field_error::{FieldError, aggregate},
};
use serde_json::{Value, json};

pub(crate) fn words(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

pub(crate) fn merged(mut base: Value, change: &Value) -> Value {
    json_patch::merge(&mut base, change);
    base
}

#[test]
fn pods_get_defaults() {
    let mut object = json!({ "metadata": { "name": "p" }, "spec": {
        "containers": [
            { "name": "a", "image": "busybox", "ports": [{ "containerPort": 80 }],
              "resources": { "limits": { "cpu": "1000m", "memory": "1Gi" }, "requests": { "cpu": "0.5" } },
              "readinessProbe": { "httpGet": { "port": 80 } },
              "env": [{ "name": "N", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }] },
            { "name": "b", "image": "registry:5000/app:1.2" },
        ],
        "volumes": [{ "name": "v" }, { "name": "c", "configMap": { "name": "m" } }],
        "serviceAccountName": "sa",
    } });
    default("v1", "Pod", &mut object);
    let spec = &object["spec"];
    assert_eq!(spec["restartPolicy"], "Always");
    assert_eq!(spec["dnsPolicy"], "ClusterFirst");
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(spec["schedulerName"], "default-scheduler");
    assert_eq!(spec["securityContext"], json!({}));
    assert_eq!(spec["enableServiceLinks"], true);
    assert_eq!(spec["serviceAccount"], "sa");
    let first = &spec["containers"][0];
    assert_eq!(first["imagePullPolicy"], "Always");
    assert_eq!(first["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(first["terminationMessagePolicy"], "File");
    assert_eq!(first["ports"][0]["protocol"], "TCP");
    assert_eq!(
        first["resources"],
        json!({ "limits": { "cpu": "1", "memory": "1Gi" }, "requests": { "cpu": "500m", "memory": "1Gi" } })
    );
    assert_eq!(
        first["readinessProbe"],
        json!({ "httpGet": { "path": "/", "port": 80, "scheme": "HTTP" }, "timeoutSeconds": 1,
        "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3 })
    );
    assert_eq!(first["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
    assert_eq!(spec["containers"][1]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(spec["containers"][1]["resources"], json!({}));
    assert_eq!(
        spec["volumes"],
        json!([{ "name": "v", "emptyDir": {} }, { "name": "c", "configMap": { "name": "m", "defaultMode": 420 } }])
    );
    let once = object.clone();
    default("v1", "Pod", &mut object);
    assert_eq!(object, once, "defaults are set once");
    assert_eq!(validate("v1", "Pod", &object, None), vec![]);
}

#[test]
fn other_kinds_get_defaults() {
    let check = |api_version: &str, kind: &str, mut object: Value, expected: Value| {
        default(api_version, kind, &mut object);
        assert_eq!(object, expected, "{kind}");
    };
    check(
        "v1",
        "Service",
        json!({ "spec": { "ports": [{ "port": 80 }] } }),
        json!({ "spec": { "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{ "port": 80, "protocol": "TCP", "targetPort": 80 }] } }),
    );
    check(
        "v1",
        "Namespace",
        json!({ "metadata": { "name": "n" } }),
        json!({ "metadata": { "name": "n", "labels": { "kubernetes.io/metadata.name": "n" } },
            "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" } }),
    );
    check(
        "v1",
        "Secret",
        json!({ "data": { "a": "eA==" }, "stringData": { "b": "y" } }),
        json!({ "type": "Opaque", "data": { "a": "eA==", "b": "eQ==" } }),
    );
    check(
        "v1",
        "PersistentVolumeClaim",
        json!({ "spec": { "resources": { "requests": { "storage": "1024Mi" } } } }),
        json!({ "spec": { "volumeMode": "Filesystem", "resources": { "requests": { "storage": "1Gi" } } },
            "status": { "phase": "Pending" } }),
    );
    check(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        json!({ "value": 1 }),
        json!({ "value": 1, "preemptionPolicy": "PreemptLowerPriority" }),
    );
    check(
        "storage.k8s.io/v1",
        "StorageClass",
        json!({ "provisioner": "p" }),
        json!({ "provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate" }),
    );
    check(
        "rbac.authorization.k8s.io/v1",
        "RoleBinding",
        json!({ "roleRef": { "kind": "Role", "name": "r" }, "subjects": [{ "kind": "User", "name": "u" }] }),
        json!({ "roleRef": { "kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io" },
            "subjects": [{ "kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io" }] }),
    );
    check(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        json!({ "spec": { "names": { "kind": "Widget", "plural": "widgets" }, "scope": "Cluster" } }),
        json!({ "spec": { "names": { "kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList" },
            "scope": "Cluster", "conversion": { "strategy": "None" } } }),
    );
    check("v1", "ConfigMap", json!({ "data": {} }), json!({ "data": {} }));
}

#[test]
fn names_follow_their_kind() {
    let check = |api_version: &str, kind: &str, name: &str, expected: &str| {
        let object = json!({ "metadata": { "name": name }, "rules": [] });
        let found = words(&validate(api_version, kind, &object, None));
        let wrong = found
            .iter()
            .find(|error| error.starts_with("metadata.name"))
            .cloned()
            .unwrap_or_default();
        assert!(
            wrong.contains(expected) && wrong.is_empty() == expected.is_empty(),
            "{kind} {name}: {wrong}"
        );
    };
    check("v1", "Namespace", "a.b", "must not contain dots");
    check("v1", "Namespace", "A", "a lowercase RFC 1123 label must consist of");
    check("v1", "Namespace", "a-b", "");
    check("v1", "Service", "1a", "a DNS-1035 label must consist of");
    check("v1", "ConfigMap", "a.b", "");
    check("rbac.authorization.k8s.io/v1", "ClusterRole", "system:node", "");
    check(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        "a/b",
        "may not contain '/'",
    );
    check(
        "scheduling.k8s.io/v1",
        "PriorityClass",
        "system-mine",
        "priority class names with 'system-' prefix are reserved",
    );
}

#[test]
fn metadata_does_not_change() {
    let old = json!({ "metadata": { "name": "a", "uid": "1", "finalizers": ["x/a"], "deletionTimestamp": "t" } });
    let check = |change: Value, expected: &[&str]| {
        let new = merged(old.clone(), &json!({ "metadata": change }));
        assert_eq!(
            words(&validate_metadata(NameRule::Subdomain, &new, Some(&old))),
            expected
        );
    };
    check(json!({ "labels": { "a": "b" } }), &[]);
    check(
        json!({ "name": "b" }),
        &["metadata.name: Invalid value: \"b\": field is immutable"],
    );
    check(
        json!({ "uid": "2" }),
        &["metadata.uid: Invalid value: \"2\": field is immutable"],
    );
    check(json!({ "finalizers": [] }), &[]);
    check(
        json!({ "finalizers": ["x/a", "x/b"] }),
        &[
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object \
        is being deleted, found new finalizers []string{\"x/b\"}",
        ],
    );
}

#[test]
fn several_errors_become_one_message() {
    let errors = [
        FieldError::required("a", ""),
        FieldError::duplicate("b", "x\"y"),
        FieldError::required("a", ""),
    ];
    assert_eq!(
        aggregate(&errors),
        "[a: Required value, b: Duplicate value: \"x\\\"y\"]"
    );
    assert_eq!(aggregate(&errors[..1]), "a: Required value");
    assert_eq!(
        errors[1].cause(),
        json!({ "reason": "FieldValueDuplicate", "message": "Duplicate value: \"x\\\"y\"", "field": "b" })
    );
}

#[test]
fn names_and_labels_are_checked() {
    let check = |metadata: Value, expected: &[&str]| {
        let found = words(&validate_metadata(
            NameRule::Subdomain,
            &json!({ "metadata": metadata }),
            None,
        ));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    };
    check(json!({ "name": "a.b-c" }), &[]);
    check(
        json!({}),
        &["metadata.name: Required value: name or generateName is required"],
    );
    check(
        json!({ "name": "A" }),
        &[
            "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case \
        alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
        validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ],
    );
    let long = "a".repeat(254);
    check(
        json!({ "name": long }),
        &[&format!(
            "metadata.name: Invalid value: \"{long}\": must be no more than 253 characters"
        )],
    );
    check(json!({ "name": "a", "generateName": "b-" }), &[]);
    check(
        json!({ "name": "a", "generateName": "B-" }),
        &["metadata.generateName: Invalid value: \"B-\": a lowercase RFC 1123"],
    );
    check(
        json!({ "name": "a", "labels": { "k": "-v" } }),
        &["metadata.labels: Invalid value: \"-v\": a valid label must be an empty"],
    );
    check(
        json!({ "name": "a", "labels": { "/k": "v" } }),
        &["metadata.labels: Invalid value: \"/k\": prefix part must be non-empty"],
    );
}

#[test]
fn annotations_and_owners_are_checked() {
    let check = |metadata: Value, expected: &[&str]| {
        let found = words(&validate_metadata(
            NameRule::Subdomain,
            &json!({ "metadata": metadata }),
            None,
        ));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    };
    check(
        json!({ "name": "a", "annotations": { "Has.Upper/Key": "any thing" } }),
        &[],
    );
    check(
        json!({ "name": "a", "annotations": { "a b": "" } }),
        &["metadata.annotations: Invalid value: \"a b\": name part must consist"],
    );
    let big = "x".repeat(262_144);
    check(
        json!({ "name": "a", "annotations": { "a": big } }),
        &["metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
    check(
        json!({ "name": "a", "finalizers": ["bad name"] }),
        &["metadata.finalizers: Invalid value: \"bad name\": name part must"],
    );
    check(
        json!({ "name": "a", "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p" }] }),
        &["metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"],
    );
    let owner =
        |name: &str| json!({ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": true });
    let twice = words(&validate_metadata(
        NameRule::Subdomain,
        &json!({ "metadata": { "name": "a", "ownerReferences": [owner("p"), owner("q")] } }),
        None,
    ));
    assert!(
        twice[0].ends_with("Found \"true\" in references for Pod/p and Pod/q"),
        "{twice:?}"
    );
}
