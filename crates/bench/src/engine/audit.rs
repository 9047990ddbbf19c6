//! The outcome as raw objects, for the auditor: it shares nothing with the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use basalt_audit::{Rules, World, judge};
use basalt_engine::facts::{PodFacts, PodGroupFacts, Resources, quantity};
use basalt_engine::plan::split_key;
use basalt_engine::{Event, Plan};
use serde_json::{Map, Value, json};

/// How many promises a plan breaks that was made for the cluster that these events tell of, less the pods that are gone.
pub(super) fn findings(
    events: impl Iterator<Item = Event>,
    gone: &BTreeSet<Arc<str>>,
    plan: &Plan,
    rules: &Rules,
) -> usize {
    let mut world = World::default();
    for event in events {
        let object = match event {
            Event::Node(node) => json!({
                "kind": "Node", "metadata": {"name": node.name, "uid": node.name},
                "status": {"allocatable": list(&node.allocatable)},
            }),
            Event::Queue(queue) => json!({
                "kind": "Queue", "metadata": {"name": queue.name, "uid": queue.name},
                "spec": {"parent": queue.parent, "weight": queue.weight, "deserved": list(&queue.deserved)},
                "status": {"reservation": {"nodes": queue.locks, "target": list(&queue.target)}},
            }),
            Event::PodGroup(group) => group_object(&group),
            Event::Pod(pod) if !gone.contains(&pod.key) => pod_object(&pod),
            _ => continue,
        };
        world.insert(&object);
    }
    let findings = judge(&world, rules, &basalt_sim::decision(plan));
    for finding in findings.iter().take(5) {
        eprintln!("audit: {finding}");
    }
    findings.len()
}

fn list(resources: &Resources) -> Map<String, Value> {
    let amounts = resources.iter();
    amounts
        .map(|(name, &amount)| (name.to_string(), json!(quantity(name, amount))))
        .collect()
}

fn group_object(group: &PodGroupFacts) -> Value {
    let (namespace, name) = split_key(&group.key);
    json!({
        "kind": "PodGroup", "metadata": {"namespace": namespace, "name": name, "uid": group.uid},
        "spec": {
            "minMember": group.min_member, "queue": group.queue,
            "minResources": group.min_resources.as_ref().map(list),
        },
        "status": {"phase": group.phase},
    })
}

fn pod_object(pod: &PodFacts) -> Value {
    let (namespace, name) = split_key(&pod.key);
    let group = pod.group.as_deref().map_or("", |group| split_key(group).1);
    json!({
        "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": name, "uid": pod.uid,
            "annotations": {"scheduling.k8s.io/group-name": group},
        },
        "spec": {
            "nodeName": pod.node, "schedulerName": pod.scheduler,
            "containers": [{"name": "main", "resources": {"requests": list(&pod.requests)}}],
        },
        "status": {"phase": format!("{:?}", pod.phase)},
    })
}
