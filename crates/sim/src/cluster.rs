//! A cluster of raw objects, the scheduler that serves it, and the auditor that looks on.

use std::collections::BTreeMap;

use basalt_api::json::string_at;
use basalt_audit::{Decision, Finding, History, Rules, World, judge};
use basalt_engine::conf::is_supported_plugin;
use basalt_engine::facts::{PodFacts, PodGroupFacts};
use basalt_engine::offline::OfflineCluster;
use basalt_engine::plan::{Plan, split_key};
use basalt_engine::{Conf, ConfError, Engine, Event, Options};
use serde_json::{Value, json};

use crate::decision;

/// What owners of pods do when one is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Nothing: the pod is gone.
    LetGo,
    /// They make it again, under its name.
    MakeAgain,
}

/// An object that the scheduler cannot read.
#[derive(Debug)]
pub struct UnknownObject(pub String);

/// One cycle: what was decided, and what is wrong with it.
#[derive(Clone, Debug)]
pub struct Cycle {
    /// The plan.
    pub plan: Plan,
    /// The same, in the auditor's words.
    pub decision: Decision,
    /// What the auditor found.
    pub findings: Vec<Finding>,
}

/// Kind, namespace, name.
type Key = (String, String, String);

/// A cluster with its scheduler. Nothing happens in it that is not asked for.
pub struct Cluster {
    /// The scheduler, with what it is told; `objects` says the same as raw objects.
    offline: OfflineCluster,
    rules: Rules,
    history: History,
    objects: BTreeMap<Key, Value>,
    now_ms: i64,
    seed: u64,
    made: u64,
}

/// What a configuration promises: plugins that the scheduler does not have promise nothing.
pub fn rules(conf: &str) -> Result<Rules, ConfError> {
    let mut raw: Value = serde_saphyr::from_str(conf).map_err(|error| ConfError::Yaml(error.to_string()))?;
    for tier in raw["tiers"].as_array_mut().into_iter().flatten() {
        if let Some(plugins) = tier["plugins"].as_array_mut() {
            plugins.retain(|plugin| is_supported_plugin(string_at(plugin, "/name")));
        }
    }
    Ok(Rules::read(&raw))
}

impl Cluster {
    /// An empty cluster under a scheduler's configuration (YAML).
    pub fn new(conf: &str, seed: u64) -> Result<Self, ConfError> {
        let parsed = Conf::parse(conf)?;
        Ok(Self {
            offline: OfflineCluster::new(Engine::new(parsed, Options::default())).with_history(),
            rules: rules(conf)?,
            history: History::default(),
            objects: BTreeMap::new(),
            now_ms: 0,
            seed,
            made: 0,
        })
    }

    /// All objects, by kind, namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    /// Adds or replaces an object, and tells the scheduler.
    pub fn put(&mut self, object: Value) -> Result<(), UnknownObject> {
        let event = Event::from_manifest(&object).map_err(|error| UnknownObject(error.to_string()))?;
        if let Some(event) = event {
            self.offline.apply(event);
        }
        let part = |pointer| string_at(&object, pointer).to_owned();
        let key = (part("/kind"), part("/metadata/namespace"), part("/metadata/name"));
        self.objects.insert(key, object);
        Ok(())
    }

    /// One cycle, judged; nothing is carried out yet.
    pub fn cycle(&mut self) -> Cycle {
        self.now_ms += 1_000;
        let world = World::read(self.objects.values());
        let plan = self.offline.engine_mut().cycle(self.now_ms, self.seed);
        let decision = decision(&plan);
        let mut findings = judge(&world, &self.rules, &decision);
        let objects = &self.objects;
        findings.extend(self.history.observe(&decision, |pod| group_of(objects, pod)));
        Cycle {
            plan,
            decision,
            findings,
        }
    }

    /// Something happens from outside: evictions that were right before need not be right now.
    pub fn outside_event(&mut self) {
        self.history.outside_event();
    }

    /// Carries a plan out at once: bound pods run, evicted ones are gone, and their owners react.
    pub fn carry_out(&mut self, plan: &Plan, owners: Owners) -> Result<(), UnknownObject> {
        self.offline.take_history();
        self.offline.carry_out(plan);
        let mut gone = Vec::new();
        for event in self.offline.take_history() {
            match event {
                Event::Pod(pod) => self.write_pod(&pod),
                Event::PodGroup(group) => self.write_group(&group),
                Event::PodGone { key, .. } => gone.extend(self.objects.remove(&pod_key(&key))),
                _ => {}
            }
        }
        if owners == Owners::MakeAgain {
            gone.into_iter().try_for_each(|pod| self.recreate_pod(pod))?;
        }
        Ok(())
    }

    /// Writes a pod's node, phase and nomination into its raw object.
    fn write_pod(&mut self, pod: &PodFacts) {
        let Some(object) = self.objects.get_mut(&pod_key(&pod.key)) else {
            return;
        };
        if let Some(node) = &pod.node {
            object["spec"]["nodeName"] = json!(**node);
        }
        object["status"]["phase"] = json!(pod.phase);
        match (&pod.nominated, object["status"].as_object_mut()) {
            (Some(node), Some(status)) => drop(status.insert("nominatedNodeName".to_owned(), json!(**node))),
            (None, Some(status)) => drop(status.remove("nominatedNodeName")),
            (_, None) => {}
        }
    }

    /// Writes a pod group's phase and counters into its raw object.
    fn write_group(&mut self, group: &PodGroupFacts) {
        let (namespace, name) = split_key(&group.key);
        let key = ("PodGroup".to_owned(), namespace.to_owned(), name.to_owned());
        let Some(object) = self.objects.get_mut(&key) else {
            return;
        };
        let status = &mut object["status"];
        status["phase"] = json!(group.phase);
        status["running"] = json!(group.tally.running);
        status["succeeded"] = json!(group.tally.succeeded);
        status["failed"] = json!(group.tally.failed);
    }

    /// Creates an evicted pod again, under its name and with another uid.
    fn recreate_pod(&mut self, mut object: Value) -> Result<(), UnknownObject> {
        self.made += 1;
        object["metadata"]["uid"] = json!(format!("made-{}", self.made));
        object["spec"]["nodeName"] = json!("");
        object["status"] = json!({"phase": "Pending"});
        self.put(object)
    }
}

fn pod_key(pod: &str) -> Key {
    let (namespace, name) = split_key(pod);
    ("Pod".to_owned(), namespace.to_owned(), name.to_owned())
}

/// The pod group of a pod.
fn group_of(objects: &BTreeMap<Key, Value>, pod: &str) -> Option<String> {
    let (namespace, _) = split_key(pod);
    let name = string_at(
        objects.get(&pod_key(pod))?,
        "/metadata/annotations/scheduling.k8s.io~1group-name",
    );
    (!name.is_empty()).then(|| format!("{namespace}/{name}"))
}
