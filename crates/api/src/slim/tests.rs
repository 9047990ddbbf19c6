use serde_json::{Value, json};

use super::{Node, Pod, PodPhase, PodSpec, limit, request};
use crate::quantity::ResourceList;

fn resources(cpu: &str, memory: &str) -> Value {
    json!({ "requests": { "cpu": cpu, "memory": memory } })
}

fn amounts(list: &ResourceList) -> Value {
    serde_json::to_value(list).expect("json")
}

#[test]
fn requests_are_counted_as_kubernetes_does() {
    let check = |spec: Value, expected: Value| {
        let spec: PodSpec = serde_json::from_value(spec).expect("a spec");
        assert_eq!(amounts(&request(&spec)), expected);
    };
    check(json!({}), json!({}));
    check(json!({ "containers": [{ "name": "a" }] }), json!({}));
    // Containers run together.
    check(
        json!({ "containers": [{ "resources": resources("100m", "1Gi") }, { "resources": resources("1", "512Mi") }] }),
        json!({ "cpu": "1100m", "memory": "1536Mi" }),
    );
    // Init containers run one after the other, before them.
    check(
        json!({
            "initContainers": [{ "resources": resources("2", "1Gi") }, { "resources": resources("1", "3Gi") }],
            "containers": [{ "resources": resources("1500m", "1Gi") }],
        }),
        json!({ "cpu": "2", "memory": "3Gi" }),
    );
    // A sidecar counts beside the containers, and beside the init containers after it.
    check(
        json!({
            "initContainers": [
                { "resources": resources("4", "1Gi") },
                { "resources": resources("1", "1Gi"), "restartPolicy": "Always" },
                { "resources": resources("3500m", "1Gi") },
            ],
            "containers": [{ "resources": resources("1", "1Gi") }],
        }),
        json!({ "cpu": "4500m", "memory": "2Gi" }),
    );
    check(
        json!({
            "initContainers": [{ "resources": resources("1", "1Gi"), "restartPolicy": "Always" }],
            "containers": [{ "resources": resources("1", "1Gi") }],
        }),
        json!({ "cpu": "2", "memory": "2Gi" }),
    );
    // Overhead comes on top, also of resources that no container names.
    check(
        json!({ "overhead": { "cpu": "250m", "memory": "64Mi" }, "containers": [{ "resources": { "requests": { "cpu": 1 } } }] }),
        json!({ "cpu": "1250m", "memory": "64Mi" }),
    );
    // A limit without a request is one.
    check(
        json!({ "containers": [{ "resources": { "limits": { "nvidia.com/gpu": "8", "cpu": "2" }, "requests": { "cpu": "1" } } }] }),
        json!({ "cpu": "1", "nvidia.com/gpu": "8" }),
    );
    // The pod's own word replaces the sum, for the resources that it may speak of.
    check(
        json!({
            "resources": { "requests": { "cpu": "3", "nvidia.com/gpu": "9" } },
            "overhead": { "cpu": "1" },
            "containers": [{ "resources": resources("1", "1Gi") }],
        }),
        json!({ "cpu": "4", "memory": "1Gi" }),
    );
}

#[test]
fn limits_add_up_likewise() {
    let spec = json!({ "containers": [{ "resources": { "limits": { "cpu": "2" } } }, { "resources": resources("1", "1Gi") }] });
    let spec: PodSpec = serde_json::from_value(spec).expect("a spec");
    assert_eq!(amounts(&limit(&spec)), json!({ "cpu": "2" }));
}

fn full_pod() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-worker-0", "namespace": "ml", "uid": "u-1", "resourceVersion": "42", "generation": 1,
            "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T04:04:05Z",
            "labels": { "volcano.sh/job-name": "train" },
            "annotations": {
                "scheduling.k8s.io/group-name": "train-1", "kubectl.kubernetes.io/last-applied-configuration": "{ long }"
            },
            "ownerReferences": [{
                "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "j-1", "controller": true
            }],
            "finalizers": ["example.com/x"],
            "managedFields": [{ "manager": "kubectl", "fieldsV1": { "f:spec": {} } }],
        },
        "spec": {
            "schedulerName": "volcano", "nodeName": "n1", "priority": 7, "priorityClassName": "high",
            "preemptionPolicy": "Never", "restartPolicy": "Never", "terminationGracePeriodSeconds": 30,
            "nodeSelector": { "zone": "a" }, "hostNetwork": true, "dnsPolicy": "ClusterFirst", "enableServiceLinks": true,
            "tolerations": [{ "key": "gpu", "operator": "Exists" }],
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "a": "b" } } }
            ] } },
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" }],
            "schedulingGates": [{ "name": "wait" }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data-claim" } },
                { "name": "scratch", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
                { "name": "token", "projected": { "sources": [] } },
            ],
            "containers": [{
                "name": "main", "image": "busybox", "command": ["sleep", "1"], "resources": resources("1", "1Gi"),
                "ports": [{ "containerPort": 80 }, { "containerPort": 81, "hostPort": 8081, "hostIP": "127.0.0.1", "protocol": "UDP" }],
            }],
        },
        "status": {
            "phase": "Failed", "reason": "Evicted", "nominatedNodeName": "n2", "startTime": "2026-01-02T03:04:06Z",
            "conditions": [{ "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-02T03:04:05Z" }],
            "containerStatuses": [
                { "name": "ok", "ready": false, "restartCount": 0, "image": "x", "imageID": "y", "state": { "terminated": { "exitCode": 0 } } },
                { "name": "main", "ready": false, "restartCount": 2, "image": "x", "imageID": "y", "state": { "terminated": {
                    "exitCode": 137, "reason": "OOMKilled", "startedAt": null, "finishedAt": "2026-01-02T03:05:05Z"
                } } },
            ],
        },
    })
}

#[test]
fn a_full_pod_is_read() {
    let pod: Pod = serde_json::from_value(full_pod()).expect("a pod");
    assert_eq!(pod.pod_group(), Some("train-1"));
    assert_eq!(pod.label("volcano.sh/job-name"), Some("train"));
    assert_eq!(pod.annotation("kubectl.kubernetes.io/last-applied-configuration"), None);
    assert_eq!(pod.metadata.managed_fields, None);
    assert_eq!(pod.metadata.resource_version.as_deref(), Some("42"));
    assert_eq!(pod.metadata.owner_references.as_ref().map(Vec::len), Some(1));
    assert!(pod.is_deleting() && pod.is_finished());
    assert_eq!(pod.phase(), PodPhase::Failed);
    assert_eq!(pod.exit_code(), Some(137));
    assert_eq!(pod.claims(), ["data-claim", "train-worker-0-scratch"]);
    let ports: Vec<i32> = pod.spec.host_ports().map(|port| port.host_port).collect();
    assert_eq!(ports, [8081]);
    assert_eq!(amounts(&request(&pod.spec)), json!({ "cpu": "1", "memory": "1Gi" }));
    assert_eq!(
        (
            pod.spec.priority,
            pod.spec.scheduling_gates.len(),
            pod.spec.tolerations.len()
        ),
        (Some(7), 1, 1)
    );
    assert!(pod.spec.affinity.is_some());
    assert_eq!(pod.status.nominated_node_name, "n2");

    // What it writes reads back as the same.
    let again: Pod = serde_json::from_value(serde_json::to_value(&pod).expect("json")).expect("a pod");
    assert_eq!(again, pod);
}

#[test]
fn a_bare_pod_is_pending() {
    let pod: Pod =
        serde_json::from_value(json!({ "metadata": { "name": "p" }, "spec": { "containers": [] } })).expect("a pod");
    assert_eq!(pod.phase(), PodPhase::Pending);
    assert_eq!(
        (pod.exit_code(), pod.pod_group(), pod.is_deleting()),
        (None, None, false)
    );
    let strange: Pod =
        serde_json::from_value(json!({ "metadata": {}, "status": { "phase": "Dreaming" } })).expect("a pod");
    assert_eq!(strange.phase(), PodPhase::Unknown);
}

#[test]
fn a_template_gives_the_same_request() {
    let full: k8s_openapi::api::core::v1::PodSpec = serde_json::from_value(full_pod()["spec"].clone()).expect("a spec");
    let slim = PodSpec::from_full(&full).expect("a slim spec");
    let pod: Pod = serde_json::from_value(full_pod()).expect("a pod");
    assert_eq!(slim, pod.spec);
}

#[test]
fn nodes_are_read() {
    let check = |spec: Value, ready: &str, schedulable: bool| {
        let node = json!({
            "metadata": { "name": "n", "labels": { "zone": "a" } },
            "spec": spec,
            "status": {
                "capacity": { "cpu": "8", "memory": "32Gi", "pods": "110" },
                "allocatable": { "cpu": "7500m", "memory": "30Gi", "pods": 110 },
                "conditions": [{ "type": "MemoryPressure", "status": "False" }, { "type": "Ready", "status": ready }],
                "images": [{ "names": ["a"], "sizeBytes": 1 }],
            },
        });
        let node: Node = serde_json::from_value(node).expect("a node");
        assert_eq!(node.is_schedulable(), schedulable);
        assert_eq!(node.label("zone"), Some("a"));
        assert_eq!(
            amounts(node.offers()),
            json!({ "cpu": "7500m", "memory": "30Gi", "pods": "110" })
        );
    };
    check(json!({}), "True", true);
    check(
        json!({ "taints": [{ "key": "a", "effect": "NoSchedule" }] }),
        "True",
        true,
    );
    check(json!({ "unschedulable": true }), "True", false);
    check(json!({}), "False", false);
    check(json!({}), "Unknown", false);
}

#[test]
fn slim_types_are_kube_resources() {
    use kube::Resource as _;
    assert_eq!(Pod::url_path(&(), Some("ns")), "/api/v1/namespaces/ns/pods");
    assert_eq!(Node::url_path(&(), None), "/api/v1/nodes");
    assert_eq!((Pod::kind(&()).as_ref(), Pod::api_version(&()).as_ref()), ("Pod", "v1"));
}

/// Objects that no Kubernetes server has normalised carry nulls; Go reads them as absent, and so do we.
#[test]
fn nulls_are_absent() {
    let mut pod = full_pod();
    for path in [
        "/metadata/labels",
        "/metadata/ownerReferences",
        "/spec/nodeSelector",
        "/spec/tolerations",
        "/spec/volumes",
        "/spec/containers/0/resources",
        "/spec/containers/0/ports",
        "/spec/affinity",
        "/spec/nodeName",
        "/status/conditions",
        "/status/containerStatuses/0/state",
    ] {
        *pod.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = Value::Null;
        serde_json::from_value::<Pod>(pod.clone()).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    for part in ["spec", "status"] {
        pod[part] = Value::Null;
        serde_json::from_value::<Pod>(pod.clone()).unwrap_or_else(|error| panic!("{part}: {error}"));
        let node = json!({ "metadata": { "name": "n" }, part: null });
        serde_json::from_value::<Node>(node).unwrap_or_else(|error| panic!("{part}: {error}"));
    }
    let node =
        json!({ "metadata": {}, "spec": { "taints": null, "unschedulable": null }, "status": { "allocatable": null } });
    assert_eq!(serde_json::from_value::<Node>(node).expect("a node"), Node::default());
}
