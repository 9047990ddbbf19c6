//! The live self-check: the auditor looks at what the watches have shown, and shares nothing with the engine.
//!
//! Of every placed pod a small record is kept beside the engine. Now and then, if anything has changed, the records become
//! raw objects, and the auditor recomputes the promises from them, on a thread of its own. Raw objects are twenty times as
//! large as the records, so they are made in parts: what shares a node, and then what shares a group, is looked at together.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use basalt_api::podgroup::PodGroup;
use basalt_api::slim::{Node, Pod};
use basalt_api::{NamespacedName, names};
use basalt_audit::{Auditor, Finding, Objects};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::watch::feed::FeedEvent;

/// Checking costs at most this part of the time.
const EFFORT: u32 = 200;
/// The promises about single pods and nodes, and those about groups, are each checked in so many parts.
const PARTS: u64 = 16;

/// What the auditor needs of a placed pod. Pods of one job share all but names.
#[derive(Clone)]
struct Placed {
    uid: Arc<str>,
    node: Arc<str>,
    phase: &'static str,
    leaving: bool,
    /// Namespace and name of its group; empty without one.
    group: Arc<str>,
    /// Annotations and containers, as JSON.
    shape: Arc<str>,
}

/// What the watches have shown, as far as the auditor looks at it.
#[derive(Clone, Default)]
struct Shown {
    pods: HashMap<Arc<str>, Placed>,
    nodes: BTreeMap<String, Value>,
    groups: BTreeMap<String, Value>,
}

/// The auditor and what it looks at.
pub(super) struct Mirror {
    every: Duration,
    shown: Shown,
    texts: BTreeSet<Arc<str>>,
    changed: bool,
    next: Instant,
    /// Away while a check is under way.
    auditor: Option<Box<Memory>>,
}

/// What is remembered from look to look.
#[derive(Default)]
pub(super) struct Memory {
    auditors: BTreeMap<Part, Auditor>,
    suspects: BTreeSet<Finding>,
}

/// Which of the objects are looked at together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Nodes, and the pods on them.
    Nodes(u64),
    /// Groups, and their pods.
    Groups(u64),
}

impl Part {
    fn all() -> impl Iterator<Item = Self> {
        (0..PARTS).map(Self::Nodes).chain((0..PARTS).map(Self::Groups))
    }

    fn holds(self, node: &str, group: &str) -> bool {
        let number = |name: &str| BuildHasherDefault::<DefaultHasher>::new().hash_one(name) % PARTS;
        match self {
            Self::Nodes(part) => number(node) == part,
            Self::Groups(part) => !group.is_empty() && number(group) == part,
        }
    }
}

/// What a look brought.
pub(super) struct Look {
    memory: Box<Memory>,
    pub(super) findings: Vec<Finding>,
    took: Duration,
}

impl Mirror {
    /// A mirror that is looked into every so often; never, if that is zero.
    pub(super) fn new(every: Duration) -> Self {
        Self {
            every,
            shown: Shown::default(),
            texts: BTreeSet::new(),
            changed: false,
            next: Instant::now() + every,
            auditor: Some(Box::default()),
        }
    }

    fn intern(&mut self, text: String) -> Arc<str> {
        if let Some(known) = self.texts.get(text.as_str()) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    pub(super) fn pod(&mut self, event: &FeedEvent<Pod>) {
        if self.every.is_zero() {
            return;
        }
        match event {
            FeedEvent::Upsert(pod) => {
                let key = NamespacedName::of(&**pod).to_string();
                if pod.spec.node_name.is_empty() {
                    self.changed |= self.shown.pods.remove(&*key).is_some();
                    return;
                }
                let placed = Placed {
                    uid: pod.uid().unwrap_or_default().into(),
                    node: self.intern(pod.spec.node_name.clone()),
                    phase: match pod.status.phase {
                        Some(basalt_api::slim::PodPhase::Succeeded) => "Succeeded",
                        Some(basalt_api::slim::PodPhase::Failed) => "Failed",
                        Some(basalt_api::slim::PodPhase::Running) => "Running",
                        _ => "Pending",
                    },
                    leaving: pod.is_deleting(),
                    group: self.intern(group_of(pod)),
                    shape: self.intern(shape(pod).to_string()),
                };
                self.shown.pods.insert(key.into(), placed);
                self.changed = true;
            }
            FeedEvent::Delete { key, uid } => {
                let key = key.to_string();
                if self.shown.pods.get(&*key).is_some_and(|pod| *pod.uid == **uid) {
                    self.shown.pods.remove(&*key);
                    self.changed = true;
                }
            }
            FeedEvent::Synced => {}
        }
    }

    pub(super) fn node(&mut self, event: &FeedEvent<Node>) {
        match event {
            FeedEvent::Upsert(node) => {
                let name = node.name_any();
                let value = json!({
                    "kind": "Node", "metadata": {"name": name, "uid": node.uid()},
                    "status": {"allocatable": node.status.allocatable},
                });
                self.changed |= self.shown.nodes.insert(name, value.clone()) != Some(value);
            }
            FeedEvent::Delete { key, .. } => self.changed |= self.shown.nodes.remove(&*key.name).is_some(),
            FeedEvent::Synced => {}
        }
    }

    pub(super) fn group(&mut self, event: &FeedEvent<PodGroup>) {
        match event {
            FeedEvent::Upsert(group) => {
                let status = group.status.as_ref();
                let value = json!({
                    "kind": "PodGroup",
                    "metadata": {
                        "name": group.name_any(), "namespace": group.namespace(), "uid": group.uid(),
                        "deletionTimestamp": group.metadata.deletion_timestamp,
                    },
                    "spec": {"minMember": group.spec.min_member, "minTaskMember": group.spec.min_task_member},
                    "status": {"phase": status.and_then(|status| status.phase)},
                });
                let key = NamespacedName::of(&**group).to_string();
                self.changed |= self.shown.groups.insert(key, value.clone()) != Some(value);
            }
            FeedEvent::Delete { key, .. } => self.changed |= self.shown.groups.remove(&key.to_string()).is_some(),
            FeedEvent::Synced => {}
        }
    }

    /// Begins a look, if one is due: the returned work belongs on a thread of its own.
    pub(super) fn begin(&mut self) -> Option<impl FnOnce() -> Look + Send + use<>> {
        if self.every.is_zero() || !self.changed || Instant::now() < self.next {
            return None;
        }
        let mut memory = self.auditor.take()?;
        self.changed = false;
        // What nobody shares any more is let go.
        self.texts.retain(|text| Arc::strong_count(text) > 1);
        let shown = self.shown.clone();
        Some(move || {
            let begun = Instant::now();
            let findings = memory.look(&shown);
            Look {
                memory,
                findings,
                took: begun.elapsed(),
            }
        })
    }

    /// Takes back what a look needed.
    pub(super) fn end(&mut self, look: Look) {
        self.auditor = Some(look.memory);
        // Suspicions are followed up even if nothing else happens.
        self.changed |= self.auditor.as_ref().is_some_and(|memory| !memory.suspects.is_empty());
        self.next = Instant::now() + self.every.max(look.took.saturating_mul(EFFORT));
    }

    /// A look failed, and what was remembered went with it: the next one begins anew.
    pub(super) fn renew(&mut self) {
        self.auditor = Some(Box::default());
        self.changed = true;
        self.next = Instant::now() + self.every;
    }
}

impl Memory {
    fn look(&mut self, shown: &Shown) -> Vec<Finding> {
        let (mut lasting, mut passing) = (Vec::new(), BTreeSet::new());
        for part in Part::all() {
            let objects = shown.objects(part);
            let auditor = self.auditors.entry(part).or_default();
            match part {
                Part::Nodes(_) => lasting.extend(auditor.observe(&objects)),
                // A gang may be broken for a moment, while something is under way: it must be found broken twice.
                Part::Groups(_) => passing.extend(auditor.gangs(&objects)),
            }
        }
        lasting.extend(passing.intersection(&self.suspects).cloned());
        self.suspects = passing;
        lasting.sort();
        lasting.dedup();
        lasting
    }
}

/// The key of a pod's group; empty without one.
fn group_of(pod: &Pod) -> String {
    let group = pod.pod_group().filter(|name| !name.is_empty());
    group.map_or_else(String::new, |name| {
        let namespace = pod.namespace().unwrap_or_default();
        NamespacedName::new(&namespace, name).to_string()
    })
}

/// What of a pod the auditor reads, besides names.
fn shape(pod: &Pod) -> Value {
    let annotation = |key: &str| pod.annotation(key);
    json!({
        "annotations": {
            names::GROUP_NAME: pod.pod_group(), names::TASK_SPEC: annotation(names::TASK_SPEC),
        },
        "spec": {
            "containers": pod.spec.containers, "initContainers": pod.spec.init_containers,
            "overhead": pod.spec.overhead, "resources": pod.spec.resources,
        },
    })
}

impl Shown {
    fn objects(&self, part: Part) -> Objects {
        let mut objects = Objects::default();
        let mut shapes: HashMap<&str, Value> = HashMap::new();
        for (key, pod) in self.pods.iter().filter(|(_, pod)| part.holds(&pod.node, &pod.group)) {
            let shape = shapes
                .entry(&pod.shape)
                .or_insert_with(|| serde_json::from_str(&pod.shape).unwrap_or_default());
            objects.pods.push(pod.object(key, shape));
        }
        match part {
            Part::Nodes(_) => {
                let nodes = self.nodes.iter().filter(|(name, _)| part.holds(name, ""));
                objects.nodes.extend(nodes.map(|(_, node)| node.clone()));
            }
            Part::Groups(_) => {
                let groups = self.groups.iter().filter(|(key, _)| part.holds("", key));
                objects.pod_groups.extend(groups.map(|(_, group)| group.clone()));
            }
        }
        objects
    }
}

impl Placed {
    /// The raw object.
    fn object(&self, key: &str, shape: &Value) -> Value {
        let (namespace, name) = basalt_engine::plan::split_key(key);
        let mut spec = shape["spec"].clone();
        spec["nodeName"] = json!(&*self.node);
        let mut metadata = json!({
            "name": name, "namespace": namespace, "uid": &*self.uid, "annotations": shape["annotations"],
        });
        if self.leaving {
            metadata["deletionTimestamp"] = json!("");
        }
        json!({"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": self.phase}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<K: serde::de::DeserializeOwned>(value: Value) -> FeedEvent<K> {
        FeedEvent::Upsert(Box::new(serde_json::from_value(value).expect("an object")))
    }

    fn pod(name: &str, cpu: &str) -> FeedEvent<Pod> {
        read(json!({
            "metadata": {"name": name, "namespace": "a", "uid": name},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        }))
    }

    fn look(mirror: &mut Mirror) -> Option<Vec<String>> {
        mirror.next = Instant::now();
        let look = mirror.begin()?();
        let findings = look
            .findings
            .iter()
            .map(|finding| finding.invariant.to_string())
            .collect();
        mirror.end(look);
        Some(findings)
    }

    #[test]
    fn what_is_broken_is_seen_and_rest_is_left_alone() {
        let mut mirror = Mirror::new(Duration::from_secs(1));
        mirror.node(&read(
            json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "pods": "10"}}}),
        ));
        mirror.pod(&pod("one", "1"));
        assert_eq!(look(&mut mirror), Some(vec![]));
        assert_eq!(look(&mut mirror), None, "nothing has changed");
        mirror.pod(&pod("two", "1500m"));
        assert_eq!(look(&mut mirror), Some(vec!["I1".to_owned()]));
    }

    #[test]
    fn half_a_gang_is_found_at_the_second_look() {
        let mut mirror = Mirror::new(Duration::from_secs(1));
        mirror.group(&read(
            json!({"metadata": {"name": "g", "namespace": "a", "uid": "g"}, "spec": {"minMember": 2, "queue": "default"}}),
        ));
        mirror.pod(&read(json!({
            "metadata": {"name": "p", "namespace": "a", "uid": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}},
            "spec": {"nodeName": "n"},
        })));
        assert_eq!(look(&mut mirror), Some(vec![]), "it may be on its way");
        assert_eq!(look(&mut mirror), Some(vec!["I2".to_owned()]));
    }
}
