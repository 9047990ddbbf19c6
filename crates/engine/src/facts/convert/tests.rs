//! Objects of the API in, facts out.

use basalt_api::{PodGroup, Queue, slim};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::super::{ClaimFacts, NodeFacts, PodFacts, PodGroupFacts, QueueFacts, StorageFacts, VolumeFacts};

/// Facts as JSON, less what is empty or as usual, so that cases stay short.
fn facts<O: serde::de::DeserializeOwned, F: for<'a> From<&'a O> + serde::Serialize>(object: Value) -> Value {
    let object: O = serde_json::from_value(object).expect("an object");
    let mut facts = serde_json::to_value(F::from(&object)).expect("plain data");
    slim_down(&mut facts);
    facts
}

fn slim_down(value: &mut Value) {
    if let Value::Object(map) = value {
        map.values_mut().for_each(slim_down);
        map.retain(|_, value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            Value::Number(number) => number.as_i64() != Some(0),
            Value::Bool(true) => true,
        });
    }
    if let Value::Array(items) = value {
        items.iter_mut().for_each(slim_down);
    }
}

#[test]
fn a_pod() {
    let pod = json!({
        "metadata": {
            "name": "job-task-3", "namespace": "ns", "uid": "u", "creationTimestamp": "1970-01-01T00:00:02Z",
            "annotations": { "scheduling.k8s.io/group-name": "job", "volcano.sh/task-priority": "7" },
            "labels": { "volcano.sh/task-spec": "task", "volcano.sh/preemptable": "no" },
        },
        "spec": {
            "schedulerName": "volcano",
            "priority": 3,
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1500m", "memory": "1Ki" }, "limits": { "x.io/gpu": "2" } } }],
            "overhead": { "cpu": "1" },
            "nodeSelector": { "zone": "a" },
            "tolerations": [
                { "key": "b", "operator": "Exists", "effect": "NoExecute" }, { "key": "a", "value": "v" },
                { "operator": "Mars" },
            ],
            "schedulingGates": [{ "name": "wait" }],
            "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
                "matchExpressions": [{ "key": "gen", "operator": "Gt", "values": ["4"] }],
                "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["n1"] }],
            }] } } },
        },
    });
    let expected = json!({
        "labels": { "volcano.sh/task-spec": "task", "volcano.sh/preemptable": "no" },
        "key": "ns/job-task-3", "uid": "u", "created_ms": 2000, "scheduler": "volcano", "group": "ns/job", "role": "task",
        "preempts": true, "priority": 7, "phase": "Pending", "gated": true,
        "requests": { "cpu": 2500, "memory": 1024, "x.io/gpu": 2 },
        "constraints": {
            "node_selector": { "zone": "a" },
            "node_affinity": [[
                { "key": "gen", "operator": "Gt", "values": ["4"] },
                { "key": "metadata.name", "on_name": true, "operator": "NotIn", "values": ["n1"] },
            ]],
            "tolerations": [{ "key": "a", "value": "v" }, { "key": "b", "exists": true, "effect": "NoExecute" }],
        },
    });
    assert_eq!(facts::<slim::Pod, PodFacts>(pod), expected);
}

#[test]
fn a_pod_that_says_little_and_one_that_asks_too_much() {
    let little = json!({ "metadata": { "name": "p", "namespace": "ns" }, "spec": { "nodeName": "n" }, "status": { "phase": "Running" } });
    let expected = json!({
        "key": "ns/p", "scheduler": "default-scheduler", "priority": 1, "phase": "Running", "node": "n", "preemptable": true, "preempts": true,
    });
    assert_eq!(facts::<slim::Pod, PodFacts>(little), expected);
    let term = json!([{ "topologyKey": "k" }]);
    let much = json!({ "metadata": { "name": "p", "namespace": "ns" }, "spec": {
        "containers": [{ "name": "c", "ports": [{ "hostPort": 80 }], "resources": { "requests": { "memory": "9e30" } } }],
        "affinity": {
            "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term },
            "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] },
        },
        "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule" }],
    } });
    let seen = facts::<slim::Pod, PodFacts>(much);
    let term = json!({ "pods": { "namespaces": ["ns"] }, "topology": "k" });
    assert_eq!(
        seen["constraints"],
        json!({ "ports": [{ "port": 80, "protocol": "TCP" }] })
    );
    assert_eq!(
        seen["ties"],
        json!({ "near": [term], "spread": [{ "term": term, "max_skew": 1, "min_domains": 1, "hard": true, "honors_affinity": true }] })
    );
    assert_eq!(seen["requests"]["memory"], json!(i64::MAX));
}

#[test]
fn a_node_a_group_and_a_queue() {
    let node = json!({
        "metadata": { "name": "n", "labels": { "a": "b" } },
        "spec": { "unschedulable": true, "taints": [{ "key": "t", "effect": "PreferNoSchedule" }, { "key": "u", "value": "v", "effect": "Mars" }] },
        "status": { "allocatable": { "cpu": "3900m", "memory": "1Gi", "pods": "110" } },
    });
    let expected = json!({
        "name": "n", "labels": { "a": "b" }, "unschedulable": true,
        "taints": [{ "key": "t", "effect": "PreferNoSchedule" }, { "key": "u", "value": "v", "effect": "NoSchedule" }],
        "allocatable": { "cpu": 3900, "memory": 1_073_741_824, "pods": 110 },
    });
    assert_eq!(facts::<slim::Node, NodeFacts>(node), expected);
    let ready =
        |conditions: Value| json!({ "metadata": { "name": "n", "uid": "u" }, "status": { "conditions": conditions } });
    for (conditions, not_ready) in [
        (json!([]), false),
        (json!([{ "type": "Ready", "status": "True" }]), false),
        (json!([{ "type": "DiskPressure", "status": "False" }]), false),
        (
            json!([{ "type": "DiskPressure", "status": "False" }, { "type": "Ready", "status": "False" }]),
            true,
        ),
        (json!([{ "type": "Ready", "status": "Unknown" }]), true),
    ] {
        let mut expected = json!({ "name": "n", "uid": "u" });
        if not_ready {
            expected["not_ready"] = json!(true);
        }
        assert_eq!(facts::<slim::Node, NodeFacts>(ready(conditions)), expected);
    }

    let group = |spec: Value| json!({ "metadata": { "name": "g", "namespace": "ns" }, "spec": spec, "status": { "phase": "Inqueue", "running": 2 } });
    let spec = json!({ "minMember": 3, "minTaskMember": { "w": 2 }, "queue": "", "minResources": { "cpu": "3" },
        "networkTopology": { "mode": "hard", "highestTierAllowed": 1 } });
    let mut seen = facts::<PodGroup, PodGroupFacts>(group(spec.clone()));
    let hash = seen["spec_hash"].take();
    seen.as_object_mut().expect("facts").remove("spec_hash");
    let expected = json!({
        "key": "ns/g", "queue": "default", "min_member": 3, "min_task_member": { "w": 2 }, "min_resources": { "cpu": 3000 },
        "phase": "Inqueue", "tally": { "running": 2 }, "unsupported": ["networkTopology"],
    });
    assert_eq!(seen, expected);
    let mut other = spec;
    other["minMember"] = json!(4);
    assert_ne!(facts::<PodGroup, PodGroupFacts>(group(other))["spec_hash"], hash);

    let queue = json!({ "metadata": { "name": "q" }, "spec": { "weight": 3, "parent": "p", "reclaimable": false,
        "capability": { "memory": "4Ei" }, "guarantee": { "resource": { "cpu": "1" } } } });
    let expected = json!({
        "name": "q", "parent": "p", "weight": 3, "capability": { "memory": 4_611_686_018_427_387_904_i64 }, "guarantee": { "cpu": 1000 },
    });
    assert_eq!(facts::<Queue, QueueFacts>(queue), expected);
}

#[test]
fn partitions_that_the_minimum_fills_are_served() {
    let policy = |size: i32, groups: i32, mode: Option<&str>| {
        let mut policy = json!({ "name": "w", "subGroupSize": size, "minSubGroups": groups });
        if let Some(mode) = mode {
            policy["networkTopology"] = json!({ "mode": mode });
        }
        policy
    };
    let cases = [
        (policy(2, 2, None), true),
        (policy(2, 1, Some("soft")), true),
        (policy(2, 3, None), false),
        (policy(2, 2, Some("hard")), false),
        (json!({ "name": "other", "subGroupSize": 1, "minSubGroups": 1 }), false),
    ];
    for (policy, served) in cases {
        let spec = json!({ "minMember": 4, "minTaskMember": { "w": 4 }, "subGroupPolicy": [policy] });
        let group = json!({ "metadata": { "name": "g", "namespace": "ns" }, "spec": spec });
        let seen = facts::<PodGroup, PodGroupFacts>(group);
        assert_eq!(seen["unsupported"].is_null(), served, "{policy}: {seen}");
    }
}

#[test]
fn ties_of_a_pod() {
    let term = |more: Value| {
        let mut term = json!({ "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "x" } } });
        for (key, value) in more.as_object().into_iter().flatten() {
            term[key] = value.clone();
        }
        term
    };
    let requirement =
        |key: &str, operator: &str, values: Value| json!({ "key": key, "operator": operator, "values": values });
    let near = |namespaces: Value, labels: Value| json!({ "pods": { "namespaces": namespaces, "labels": labels }, "topology": "zone" });
    let app = || requirement("app", "In", json!(["x"]));
    for (given, expected) in [
        (term(json!({})), near(json!(["ns"]), json!([app()]))),
        (
            term(json!({ "namespaces": ["b", "a"] })),
            near(json!(["a", "b"]), json!([app()])),
        ),
        (
            term(json!({ "matchLabelKeys": ["v", "absent"], "mismatchLabelKeys": ["w"] })),
            near(
                json!(["ns"]),
                json!([
                    app(),
                    requirement("v", "In", json!(["1"])),
                    requirement("w", "NotIn", json!(["2"]))
                ]),
            ),
        ),
        (
            term(json!({ "labelSelector": { "matchExpressions": [
                { "key": "b", "operator": "NotIn", "values": ["2", "1"] }, { "key": "a", "operator": "Mars", "values": ["1"] },
            ] } })),
            near(
                json!(["ns"]),
                json!([{ "key": "a", "operator": "In" }, requirement("b", "NotIn", json!(["1", "2"]))]),
            ),
        ),
    ] {
        let pod = json!({ "metadata": { "name": "p", "namespace": "ns", "labels": { "v": "1", "w": "2" } }, "spec": {
            "affinity": {
                "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [given] },
                "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 7, "podAffinityTerm": given }] },
            },
            "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }, { "name": "e", "ephemeral": {} }],
        } });
        let seen = facts::<slim::Pod, PodFacts>(pod);
        let expected = json!({ "near": [expected], "wishes": [[-7, expected]], "claims": ["ns/c", "ns/p-e"] });
        assert_eq!(seen["ties"], expected, "{given}");
    }
}

#[test]
fn claims_volumes_and_their_classes() {
    let claim = json!({
        "metadata": { "name": "c", "namespace": "ns", "annotations": { "volume.kubernetes.io/selected-node": "n" } },
        "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "s", "volumeName": "v", "resources": { "requests": { "storage": "1Ki" } } },
        "status": { "phase": "Pending" },
    });
    let expected = json!({ "key": "ns/c", "class": "s", "bytes": 1024, "modes": ["ReadWriteOnce"], "node": "n" });
    assert_eq!(
        facts::<core::PersistentVolumeClaim, ClaimFacts>(claim.clone()),
        expected
    );
    let mut bound = claim;
    bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
    assert_eq!(
        facts::<core::PersistentVolumeClaim, ClaimFacts>(bound)["volume"],
        json!("v")
    );

    let volume = json!({
        "metadata": { "name": "v", "labels": { "topology.kubernetes.io/zone": "z" } },
        "spec": { "capacity": { "storage": "2Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "s", "volumeMode": "Block",
            "claimRef": { "namespace": "ns", "name": "c" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "h", "operator": "Exists" }] }] } } },
        "status": { "phase": "Available" },
    });
    let expected = json!({
        "name": "v", "class": "s", "bytes": 2_147_483_648_i64, "modes": ["ReadWriteOnce"], "block": true, "available": true, "claim": "ns/c",
        "labels": { "topology.kubernetes.io/zone": "z" }, "nodes": [[{ "key": "h", "operator": "Exists" }]],
    });
    assert_eq!(facts::<core::PersistentVolume, VolumeFacts>(volume), expected);

    let class = json!({ "metadata": { "name": "s" }, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "z", "values": ["b", "a"] }] }] });
    let expected =
        json!({ "name": "s", "waits": true, "topologies": [[{ "key": "z", "operator": "In", "values": ["a", "b"] }]] });
    assert_eq!(facts::<StorageClass, StorageFacts>(class), expected);
}

#[test]
fn images_ports_and_strategies() {
    let pod = json!({ "metadata": { "name": "p", "namespace": "ns", "annotations": {
        "volcano.sh/resource-strategy-scoring-type": "MostAllocated", "volcano.sh/resource-strategy-weight": "{\"cpu\": 2}" } },
        "spec": {
            "initContainers": [{ "name": "i", "image": "host:5000/init" }],
            "containers": [
                { "name": "a", "image": "app@sha256:0", "ports": [{ "hostPort": 80, "hostIP": "0.0.0.0" }, { "containerPort": 1 }] },
                { "name": "b", "image": "app:2", "ports": [{ "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1" }] },
            ],
        } });
    let expected = json!({
        "images": ["app:2", "app@sha256:0", "host:5000/init:latest"],
        "ports": [{ "port": 53, "protocol": "UDP", "address": "10.0.0.1" }, { "port": 80, "protocol": "TCP" }],
        "strategy": { "most": true, "weights": { "cpu": 2 } },
    });
    assert_eq!(facts::<slim::Pod, PodFacts>(pod)["constraints"], expected);
}

#[test]
fn locks_of_a_queue() {
    let queue = |deleted: Value| {
        json!({
            "metadata": {"name": "q", "deletionTimestamp": deleted},
            "spec": {"weight": 1, "guarantee": {"policy": "Guaranteed"}},
            "status": {"reservation": {"nodes": ["n2", "n1", "n2"], "target": {"cpu": "1500m"}, "waitingFor": 3}},
        })
    };
    let held = facts::<Queue, QueueFacts>(queue(Value::Null));
    assert_eq!(held["locks"], json!(["n1", "n2"]));
    assert_eq!(held["target"], json!({"cpu": 1500}));
    assert_eq!(held["evicts"], json!(true));
    let leaving = facts::<Queue, QueueFacts>(queue(json!("2026-01-01T00:00:00Z")));
    assert_eq!((leaving.get("locks"), leaving.get("target")), (None, None));
}

/// Who is of its node, and who goes to every node.
#[test]
fn daemons_and_static_pods() {
    let check = |kind: &str, controller: bool, toleration: Value, annotations: Value, expected: (bool, bool)| {
        let pod = json!({
            "metadata": {
                "name": "p", "namespace": "ns", "annotations": annotations,
                "ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": "o", "uid": "o", "controller": controller}],
            },
            "spec": {"containers": [], "tolerations": [toleration]},
        });
        let pod: slim::Pod = serde_json::from_value(pod).expect("a pod");
        let facts = PodFacts::from(&pod);
        assert_eq!(
            (facts.fixed, facts.constraints.everywhere),
            expected,
            "{kind} {toleration}"
        );
    };
    let all = || json!({"operator": "Exists"});
    let none = || json!({});
    check("DaemonSet", true, all(), none(), (true, true));
    check(
        "DaemonSet",
        true,
        json!({"operator": "Exists", "key": "", "effect": ""}),
        none(),
        (true, true),
    );
    check(
        "DaemonSet",
        true,
        json!({"operator": "Exists", "key": "k"}),
        none(),
        (true, false),
    );
    check(
        "DaemonSet",
        true,
        json!({"operator": "Exists", "effect": "NoExecute"}),
        none(),
        (true, false),
    );
    check("DaemonSet", false, all(), none(), (false, false));
    check("ReplicaSet", true, all(), none(), (false, false));
    check(
        "Node",
        true,
        all(),
        json!({"kubernetes.io/config.mirror": "x"}),
        (true, false),
    );
}
