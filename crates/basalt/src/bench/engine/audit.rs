//! The outcome as raw objects, for the auditor: it shares nothing with the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_audit::Objects;
use basalt_engine::facts::{PodFacts, PodGroupFacts, PodPhase, Resources, quantity};
use basalt_engine::{Event, Plan};
use serde_json::{Map, Value, json};

/// How many promises are broken after these plans were carried out.
pub(super) fn findings(events: impl Iterator<Item = Event>, plans: &[&Plan]) -> usize {
    let (mut binds, mut phases, mut evicted) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for transaction in plans.iter().flat_map(|plan| &plan.transactions) {
        binds.extend(
            transaction
                .binds
                .iter()
                .map(|bind| (bind.pod.clone(), bind.node.clone())),
        );
        phases.extend(transaction.phase.map(|phase| (transaction.pod_group.clone(), phase)));
        evicted.extend(transaction.evictions.iter().map(|eviction| eviction.pod.clone()));
    }
    evicted.sort();
    let mut objects = Objects::default();
    let mut groups: BTreeMap<Arc<str>, u32> = BTreeMap::new();
    for event in events {
        let object = match event {
            Event::Node(node) => json!({
                "kind": "Node", "metadata": {"name": node.name, "uid": node.name},
                "status": {"allocatable": list(&node.allocatable)},
            }),
            Event::Queue(queue) => json!({
                "kind": "Queue", "metadata": {"name": queue.name, "uid": queue.name},
                "spec": {"parent": queue.parent, "weight": queue.weight, "deserved": list(&queue.deserved)},
                "status": {"state": "Open"},
            }),
            Event::PodGroup(group) => {
                *groups.entry(group.queue.clone()).or_default() += 1;
                let phase = phases.get(&group.key).copied().unwrap_or(group.phase);
                group_object(&PodGroupFacts { phase, ..group })
            }
            Event::Pod(pod) if evicted.binary_search(&pod.key).is_err() => pod_object(&pod, binds.get(&pod.key)),
            _ => continue,
        };
        objects.insert(object);
    }
    // The queue controller counts groups that are not of a Job.
    for queue in &mut objects.queues {
        let name = queue.pointer("/metadata/name").and_then(Value::as_str);
        let count = name.and_then(|name| groups.get(name));
        queue["status"]["unknown"] = json!(count);
    }
    let findings = basalt_audit::check(&objects);
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

fn split(key: &str) -> (&str, &str) {
    basalt_engine::plan::split_key(key)
}

fn group_object(group: &PodGroupFacts) -> Value {
    let (namespace, name) = split(&group.key);
    json!({
        "kind": "PodGroup", "metadata": {"namespace": namespace, "name": name, "uid": group.uid},
        "spec": {"minMember": group.min_member, "queue": group.queue},
        "status": {"phase": group.phase},
    })
}

fn pod_object(pod: &PodFacts, bound: Option<&Arc<str>>) -> Value {
    let (namespace, name) = split(&pod.key);
    let group = pod.group.as_deref().map_or("", |group| split(group).1);
    let node = bound.or(pod.node.as_ref());
    let phase = if bound.is_some() { PodPhase::Running } else { pod.phase };
    json!({
        "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": name, "uid": pod.uid,
            "annotations": {"scheduling.k8s.io/group-name": group},
        },
        "spec": {
            "nodeName": node, "schedulerName": pod.scheduler,
            "containers": [{"name": "main", "resources": {"requests": list(&pod.requests)}}],
        },
        "status": {"phase": format!("{phase:?}")},
    })
}
