//! Pods: what is refused, and what may change.

use crate::builtin_kinds::{merged, words};
use basalt_apimachinery::builtin_kinds::validate;
use serde_json::{Value, json};

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
fn placement_is_checked() {
    let node = |expression: Value| {
        json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution":
            { "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } } } })
    };
    let at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    let check_at = |change: Value, expected: &str| check_pod(change, &[&format!("{at}{expected}")]);
    check_pod(node(json!({ "key": "a", "operator": "In", "values": ["b"] })), &[]);
    check_at(
        node(json!({ "key": "a", "operator": "In" })),
        "[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
    );
    check_at(
        node(json!({ "key": "a", "operator": "Has" })),
        "[0].matchExpressions[0].operator: Invalid value: \"Has\": not a valid selector operator",
    );
    let empty = json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {} } } });
    check_at(empty, ": Required value: must have at least one node selector term");
    check_pod(
        json!({ "affinity": { "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
            { "weight": 101, "podAffinityTerm": {} }] } } }),
        &[
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: \
             Invalid value: 101: must be in the range 1-100",
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey: \
             Required value: can not be empty",
        ],
    );
    check_pod(
        json!({ "topologySpreadConstraints": [{ "maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "Cry" }] }),
        &[
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Cry\": \
             supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
        ],
    );
}
