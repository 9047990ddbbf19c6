//! Defaults and validation of built-in kinds, with Kubernetes' words.

use basalt_apiserver::machinery::{
    builtin::{NameRule, default, validate, validate_metadata},
    field_error::{FieldError, aggregate},
    openapi,
    schema::Schema,
    table::Printer,
};
use serde_json::{Value, json};

fn words(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn merged(mut base: Value, change: &Value) -> Value {
    json_patch::merge(&mut base, change);
    base
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "ns" },
        "spec": { "restartPolicy": "Always", "containers": [{ "name": "c", "image": "busybox" }] },
    })
}

/// Checks the errors of a pod whose spec is changed by a merge patch.
fn check_pod(change: Value, expected: &[&str]) {
    let object = merged(pod(), &json!({ "spec": change }));
    assert_eq!(words(&validate("v1", "Pod", &object, None)), expected, "{object}");
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
fn metadata_is_checked() {
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
fn pods_are_checked() {
    check_pod(json!({}), &[]);
    check_pod(json!({ "containers": null }), &["spec.containers: Required value"]);
    check_pod(
        json!({ "containers": [{ "name": "c" }] }),
        &["spec.containers[0].image: Required value"],
    );
    check_pod(
        json!({ "containers": [{ "image": "i" }] }),
        &["spec.containers[0].name: Required value"],
    );
    let two = json!([{ "name": "c", "image": "i" }, { "name": "c", "image": "i" }]);
    check_pod(
        json!({ "containers": two }),
        &["spec.containers[1].name: Duplicate value: \"c\""],
    );
    check_pod(
        json!({ "restartPolicy": "Maybe" }),
        &["spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\""],
    );
    check_pod(
        json!({ "terminationGracePeriodSeconds": -1 }),
        &["spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0"],
    );
    check_pod(
        json!({ "activeDeadlineSeconds": 0 }),
        &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    );
    check_pod(
        json!({ "nodeSelector": { "a": "b" }, "tolerations": [{ "operator": "Exists" }] }),
        &[],
    );
    check_pod(
        json!({ "tolerations": [{ "key": "a", "operator": "Is" }] }),
        &["spec.tolerations[0].operator: Unsupported value: \"Is\": supported values: \"Equal\", \"Exists\""],
    );
    check_pod(
        json!({ "tolerations": [{ "key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1 }] }),
        &[
            "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ],
    );
    check_pod(
        json!({ "volumes": [{ "name": "v", "emptyDir": {} }, { "name": "v", "emptyDir": {} }] }),
        &["spec.volumes[1].name: Duplicate value: \"v\""],
    );
    check_pod(
        json!({ "volumes": [{ "name": "v", "emptyDir": {}, "hostPath": {} }] }),
        &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    );
    check_pod(
        json!({ "schedulingGates": [{ "name": "a/b" }, { "name": "a/b" }] }),
        &["spec.schedulingGates[1]: Duplicate value: \"a/b\""],
    );
}

#[test]
fn containers_are_checked() {
    let check = |change: Value, expected: &[&str]| {
        let container = merged(json!({ "name": "c", "image": "i" }), &change);
        check_pod(json!({ "containers": [container] }), expected);
    };
    check(
        json!({ "ports": [{ "containerPort": 70000, "protocol": "TCP" }] }),
        &["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    );
    check(
        json!({ "ports": [{ "containerPort": 80, "protocol": "HTTP" }] }),
        &[
            "spec.containers[0].ports[0].protocol: Unsupported value: \"HTTP\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ],
    );
    check(
        json!({ "env": [{ "name": "" }, { "name": "A=B" }] }),
        &[
            "spec.containers[0].env[0].name: Required value",
            "spec.containers[0].env[1].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable \
         ASCII characters other than '='",
        ],
    );
    check(
        json!({ "volumeMounts": [{ "name": "data", "mountPath": "/d" }] }),
        &["spec.containers[0].volumeMounts[0].name: Not found: \"data\""],
    );
    check(
        json!({ "imagePullPolicy": "Often" }),
        &[
            "spec.containers[0].imagePullPolicy: Unsupported value: \"Often\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
        ],
    );
    check(
        json!({ "resources": { "requests": { "cpu": "2" }, "limits": { "cpu": "1000m" } } }),
        &["spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
    );
    check(
        json!({ "resources": { "requests": { "cpu": "-1" } } }),
        &["spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
    );
    check(
        json!({ "resources": { "requests": { "nvidia.com/gpu": "1" }, "limits": { "nvidia.com/gpu": "2" } } }),
        &["spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2"],
    );
    check(
        json!({ "resources": { "limits": { "nvidia.com/gpu": "500m" } } }),
        &["spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer"],
    );
    check(
        json!({ "resources": { "requests": { "nvidia.com/gpu": "1" } } }),
        &["spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
    );
    check(
        json!({ "resources": { "requests": { "gpu": "1" }, "limits": { "gpu": "1" } } }),
        &[
            "spec.containers[0].resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
            "spec.containers[0].resources.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for containers",
            "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
            "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource for containers",
        ],
    );
}

#[test]
fn pods_hardly_change() {
    let check = |change: Value, expected: &[&str]| {
        let new = merged(pod(), &json!({ "spec": change }));
        let found = words(&validate("v1", "Pod", &new, Some(&pod())));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        found
            .iter()
            .zip(expected)
            .for_each(|(found, expected)| assert!(found.starts_with(expected), "{found}"));
    };
    check(json!({ "containers": [{ "name": "c", "image": "other" }] }), &[]);
    check(json!({ "activeDeadlineSeconds": 5 }), &[]);
    check(json!({ "tolerations": [{ "key": "a", "operator": "Exists" }] }), &[]);
    check(
        json!({ "nodeName": "n" }),
        &["spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"],
    );
    check(
        json!({ "terminationGracePeriodSeconds": 5 }),
        &["spec: Forbidden: pod updates may not change fields other than"],
    );
    check(
        json!({ "containers": [{ "name": "c", "image": "i", "command": ["x"] }] }),
        &["spec: Forbidden: pod updates"],
    );
    check(
        json!({ "containers": [] }),
        &["spec.containers: Forbidden: pod updates may not add or remove containers"],
    );
    check(
        json!({ "schedulingGates": [{ "name": "g" }] }),
        &["spec.schedulingGates: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"],
    );
    let old = merged(
        pod(),
        &json!({ "spec": { "tolerations": [{ "key": "a", "operator": "Exists" }] } }),
    );
    let found = words(&validate("v1", "Pod", &pod(), Some(&old)));
    assert_eq!(
        found,
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"]
    );
}

#[test]
fn other_kinds_are_checked() {
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
