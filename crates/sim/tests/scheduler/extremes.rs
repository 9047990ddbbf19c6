//! Whatever objects say, a cycle ends with a plan: no panic, no hang.

use basalt_sim::{Cluster, Owners};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::generate::conf;
use crate::properties::cases;

/// Quantities at, and beyond, the edge of what can be counted.
fn quantity() -> impl Strategy<Value = Value> {
    select(vec![
        json!("0"),
        json!("1"),
        json!("-1"),
        json!("-9E"),
        json!("9E"),
        json!("8Ei"),
        json!("9223372036854775807"),
        json!("9223372036854775807m"),
        json!("999999999999999999999999"),
        json!("1e18"),
        json!("1n"),
        json!("0.0001"),
        json!(1),
        json!("1e999"),
        json!("Gi"),
    ])
}

fn amounts() -> impl Strategy<Value = Value> {
    (quantity(), quantity(), quantity())
        .prop_map(|(cpu, memory, gpu)| json!({"cpu": cpu, "memory": memory, "x.io/gpu": gpu}))
}

fn node() -> impl Strategy<Value = Value> {
    (0..3_u32, amounts(), quantity()).prop_map(|(at, mut allocatable, pods)| {
        allocatable["pods"] = pods;
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{at}"), "uid": format!("n{at}")},
            "spec": {}, "status": {"allocatable": allocatable}})
    })
}

/// Parents may be missing, or in a circle.
fn queue() -> impl Strategy<Value = Value> {
    let number = || select(vec![0, 1, 2, -1, i32::MAX, i32::MIN]);
    let name = || select(vec!["q0", "q1", "q2", "q3", "root", "default"]);
    (name(), name(), number(), number(), amounts(), amounts(), amounts()).prop_map(
        |(name, parent, weight, priority, deserved, guarantee, capability)| {
            json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name, "uid": name},
                "spec": {"parent": parent, "weight": weight, "priority": priority, "deserved": deserved,
                    "guarantee": {"resource": guarantee}, "capability": capability}})
        },
    )
}

fn group() -> impl Strategy<Value = Value> {
    let number = || select(vec![0, 1, 2, -1, i32::MAX, i32::MIN]);
    let queue = select(vec!["q0", "q1", "q2", "q3", "root", "default", "none", ""]);
    (0..3_u32, queue, number(), number(), amounts()).prop_map(|(at, queue, min, role, needs)| {
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": format!("g{at}"), "namespace": "d", "uid": format!("g{at}")},
            "spec": {"minMember": min, "minTaskMember": {"w": role}, "queue": queue, "minResources": needs}})
    })
}

fn pod() -> impl Strategy<Value = Value> {
    let node = select(vec!["", "", "n0", "n1", "n9"]);
    let phase = select(vec!["Pending", "Running", "Unknown", "Succeeded", "Failed", ""]);
    let priority = select(vec![0, 1, -1, i32::MAX, i32::MIN]);
    (0..3_u32, 0..4_u32, node, phase, priority, amounts()).prop_map(|(group, at, node, phase, priority, requests)| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("g{group}-w-{at}"), "namespace": "d", "uid": format!("p{group}{at}"),
                "annotations": {"scheduling.k8s.io/group-name": format!("g{group}"), "volcano.sh/task-spec": "w"}},
            "spec": {"schedulerName": "volcano", "nodeName": node, "priority": priority,
                "containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": phase}})
    })
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn nothing_breaks_the_scheduler(
        conf in conf(),
        objects in prop::collection::vec(prop_oneof![2 => node(), 3 => queue(), 3 => group(), 6 => pod()], 1..30),
    ) {
        let mut cluster = Cluster::new(&conf, 0).expect("a configuration");
        for object in objects {
            // What cannot be read is refused, not swallowed: that is fine too.
            let _ = cluster.put(object);
        }
        for _ in 0..4 {
            let cycle = cluster.cycle();
            let _ = cluster.carry_out(&cycle.plan, Owners::MakeAgain);
        }
    }
}
