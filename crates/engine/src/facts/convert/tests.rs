//! Objects of the API in, facts out.

use basalt_api::{PodGroup, Queue, slim};
use serde_json::{Value, json};

use super::super::{NodeFacts, PodFacts, PodGroupFacts, QueueFacts};

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
