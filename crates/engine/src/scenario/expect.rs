//! The keys of `expect`: what the engine said under each, and whether that is what was expected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Mismatch;
use crate::facts::{PodFacts, PodPhase};
use crate::offline::PlanReport;

/// Nodes by leaf of the network's tree.
#[derive(Clone, Debug, Default)]
pub(super) struct HyperNodes(BTreeMap<String, BTreeSet<String>>);

impl HyperNodes {
    /// Notes a HyperNode that is made of nodes, which it names one by one.
    pub(super) fn add(&mut self, object: &Value) {
        if object.get("kind").and_then(Value::as_str) != Some("HyperNode") {
            return;
        }
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let members = object.pointer("/spec/members").and_then(Value::as_array);
        let nodes = members.into_iter().flatten().filter_map(|member| {
            let of_node = member.get("type").and_then(Value::as_str) == Some("Node");
            let name = member.pointer("/selector/exactMatch/name").and_then(Value::as_str);
            name.filter(|_| of_node).map(str::to_owned)
        });
        let nodes: BTreeSet<String> = nodes.collect();
        if !nodes.is_empty() {
            self.0.insert(name.unwrap_or_default().to_owned(), nodes);
        }
    }
}

/// What a run led to.
pub(super) struct Seen<'a> {
    pub(super) report: &'a PlanReport,
    /// The pods before the run.
    pub(super) pods: &'a BTreeMap<Arc<str>, PodFacts>,
    pub(super) hypernodes: &'a HyperNodes,
}

impl Seen<'_> {
    /// The difference between what was expected under a key and what was seen.
    pub(super) fn check(&self, key: &str, expected: &Value) -> Option<Mismatch> {
        let report = self.report;
        let (seen, same) = match key {
            "binds" => self.binds(expected),
            "bindCount" => exact(json!(report.binds.len()), expected),
            "boundPods" => same_set(json!(report.binds.keys().collect::<Vec<_>>()), expected),
            "bindCountByPodGroup" => self.counts(report.binds.keys(), expected),
            "bindCountsByHyperNode" => same_set(self.by_hypernode(), expected),
            "evicted" => same_set(json!(report.evicted), expected),
            "evictCountByPodGroup" => self.counts(report.evicted.iter(), expected),
            "pipelined" => self.pipelined(expected),
            "podGroupPhase" => by_name(expected, |group, _| {
                report
                    .pod_groups
                    .get(group)
                    .map_or(Value::Null, |group| json!(group.phase))
            }),
            "taskStatus" => by_name(expected, |group, _| json!(self.statuses(group))),
            "reasons" => self.reasons(expected),
            "queues" => by_name(expected, |queue, wanted| self.queue(queue, wanted)),
            _ => (Value::from("this key is not one of the format"), false),
        };
        (!same).then(|| Mismatch {
            key: key.to_owned(),
            expected: expected.clone(),
            seen,
        })
    }

    fn group(&self, pod: &str) -> Option<&Arc<str>> {
        self.pods.get(pod)?.group.as_ref()
    }

    /// Exactly these pods; a list of nodes means any one of them.
    fn binds(&self, expected: &Value) -> (Value, bool) {
        let wanted = expected.as_object();
        let seen = &self.report.binds;
        let same = wanted.is_some_and(|wanted| {
            wanted.len() == seen.len()
                && wanted.iter().all(|(pod, nodes)| {
                    seen.get(pod.as_str()).is_some_and(|node| match nodes {
                        Value::Array(any) => any.iter().any(|one| *one == **node),
                        one => *one == **node,
                    })
                })
        });
        (json!(seen), same)
    }

    /// How many of these pods each group has; a group that is not listed has none.
    fn counts<'p>(&self, pods: impl Iterator<Item = &'p Arc<str>>, expected: &Value) -> (Value, bool) {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for pod in pods {
            let group = self.group(pod).map_or("(none)", |group| group);
            *counts.entry(group).or_default() += 1;
        }
        let wanted = expected.as_object().into_iter().flatten();
        let wanted = wanted.filter(|(_, count)| count.as_u64() != Some(0));
        let wanted: BTreeMap<&str, u64> = wanted
            .map(|(group, count)| (group.as_str(), count.as_u64().unwrap_or(u64::MAX)))
            .collect();
        let same = expected.is_object() && wanted == counts;
        (json!(counts), same)
    }

    /// How many binds each leaf of the network has, leaving out those without.
    fn by_hypernode(&self) -> Value {
        let counts = self.hypernodes.0.values().map(|nodes| {
            let on = self.report.binds.values().filter(|node| nodes.contains(&***node));
            on.count()
        });
        json!(counts.filter(|&count| count > 0).collect::<Vec<_>>())
    }

    /// `[]`: no pod of the group; else at least one, and all on one of these nodes.
    fn pipelined(&self, expected: &Value) -> (Value, bool) {
        let mut nodes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (pod, node) in &self.report.pipelined {
            nodes
                .entry(self.group(pod).map_or("(none)", |group| group))
                .or_default()
                .insert(node);
        }
        let Some(wanted) = expected.as_object() else {
            return (json!(nodes), false);
        };
        let same = wanted.iter().all(|(group, any)| {
            let any: BTreeSet<&str> = any.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let on = nodes.get(group.as_str()).cloned().unwrap_or_default();
            on.is_empty() == any.is_empty() && on.is_subset(&any)
        });
        (json!(nodes), same)
    }

    /// Volcano's word for where each pod of a group stands at the end of the session.
    fn statuses(&self, group: &str) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for (key, pod) in self.pods.iter().filter(|(_, pod)| pod.group.as_deref() == Some(group)) {
            let status = if self.report.binds.contains_key(key) {
                "Binding"
            } else if self.report.evicted.contains(key) {
                "Releasing"
            } else if self.report.pipelined.contains_key(key) {
                "Pipelined"
            } else {
                standing(pod)
            };
            *counts.entry(status).or_default() += 1;
        }
        counts
    }

    /// The codes of the reasons for which each group waits, in any order; groups that are not listed may have any.
    fn reasons(&self, expected: &Value) -> (Value, bool) {
        let codes = |group: &str| -> BTreeSet<String> {
            let reasons = self.report.pod_groups.get(group).map(|group| group.reasons.as_slice());
            let reasons = reasons.unwrap_or_default().iter();
            reasons.map(|reason| reason.code.as_str().to_owned()).collect()
        };
        let wanted = expected.as_object().into_iter().flatten();
        let mut seen = Map::new();
        let mut same = expected.is_object();
        for (group, wanted) in wanted {
            let wanted: BTreeSet<String> = super::words(Some(wanted)).into_iter().collect();
            let codes = codes(group);
            same &= codes == wanted;
            seen.insert(group.clone(), json!(codes));
        }
        (seen.into(), same)
    }

    /// What a queue has, in the fields and dimensions that are asked for.
    fn queue(&self, queue: &str, wanted: &Value) -> Value {
        let seen = self.report.queues.get(queue).map_or(Value::Null, |queue| json!(queue));
        only(wanted, &seen)
    }
}

/// Those parts of `seen` that `wanted` has too.
fn only(wanted: &Value, seen: &Value) -> Value {
    match (wanted, seen) {
        (Value::Object(wanted), Value::Object(seen)) => wanted
            .iter()
            .map(|(key, wanted)| {
                (
                    key.clone(),
                    seen.get(key).map_or(Value::Null, |seen| only(wanted, seen)),
                )
            })
            .collect(),
        _ => seen.clone(),
    }
}

/// Where a pod stood before the session.
fn standing(pod: &PodFacts) -> &'static str {
    match pod.phase {
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
        PodPhase::Pending | PodPhase::Running if pod.terminating => "Releasing",
        PodPhase::Running => "Running",
        PodPhase::Pending if pod.node.is_some() => "Bound",
        PodPhase::Pending => "Pending",
        PodPhase::Unknown => "Unknown",
    }
}

fn exact(seen: Value, expected: &Value) -> (Value, bool) {
    let same = seen == *expected;
    (seen, same)
}

fn same_set(seen: Value, expected: &Value) -> (Value, bool) {
    let sorted = |value: &Value| {
        let mut texts: Vec<String> = value.as_array().into_iter().flatten().map(Value::to_string).collect();
        texts.sort();
        texts
    };
    let same = expected.is_array() && sorted(&seen) == sorted(expected);
    (seen, same)
}

/// Equal for every name that is listed.
fn by_name(expected: &Value, look: impl Fn(&str, &Value) -> Value) -> (Value, bool) {
    let Some(wanted) = expected.as_object() else {
        return (Value::from("a mapping was expected"), false);
    };
    let seen: Map<String, Value> = wanted
        .iter()
        .map(|(name, value)| (name.clone(), look(name, value)))
        .collect();
    let same = seen == *wanted;
    (seen.into(), same)
}
