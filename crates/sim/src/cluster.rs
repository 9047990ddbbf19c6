//! A cluster of raw objects, the scheduler that serves it, and the auditor that looks on.

use std::collections::BTreeMap;

use basalt_api::json::text;
use basalt_audit::{Decision, Finding, History, Rules, World, judge};
use basalt_engine::plan::{Plan, Transaction, split_key};
use basalt_engine::plugin::KNOWN;
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
    engine: Engine,
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
            plugins.retain(|plugin| KNOWN.contains(&text(plugin, "/name")));
        }
    }
    Ok(Rules::read(&raw))
}

impl Cluster {
    /// An empty cluster under a scheduler's configuration (YAML).
    pub fn new(conf: &str, seed: u64) -> Result<Self, ConfError> {
        let parsed = Conf::parse(conf)?;
        Ok(Self {
            engine: Engine::new(parsed, Options::default()),
            rules: rules(conf)?,
            history: History::default(),
            objects: BTreeMap::new(),
            now_ms: 0,
            seed,
            made: 0,
        })
    }

    /// The scheduler.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// All objects, by kind, namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.objects.values()
    }

    /// Adds or replaces an object, and tells the scheduler.
    pub fn put(&mut self, object: Value) -> Result<(), UnknownObject> {
        let event = Event::from_manifest(&object).map_err(|error| UnknownObject(error.to_string()))?;
        if let Some(event) = event {
            self.engine.apply(&event);
        }
        let part = |pointer| text(&object, pointer).to_owned();
        let key = (part("/kind"), part("/metadata/namespace"), part("/metadata/name"));
        self.objects.insert(key, object);
        Ok(())
    }

    /// One cycle, judged; nothing is carried out yet.
    pub fn cycle(&mut self) -> Cycle {
        self.now_ms += 1_000;
        let world = World::read(self.objects.values());
        let plan = self.engine.cycle(self.now_ms, self.seed);
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
        for transaction in &plan.transactions {
            self.write_status(transaction)?;
            for bind in &transaction.binds {
                self.change(&bind.pod, |pod| {
                    pod["spec"]["nodeName"] = json!(*bind.node);
                    pod["status"] = json!({"phase": "Running"});
                })?;
            }
            for wait in transaction.pipelined.iter().filter(|wait| wait.nominated) {
                self.change(&wait.pod, |pod| pod["status"]["nominatedNodeName"] = json!(*wait.node))?;
            }
            for eviction in &transaction.evictions {
                self.evict(&eviction.pod, owners)?;
            }
        }
        Ok(())
    }

    fn change(&mut self, pod: &str, edit: impl FnOnce(&mut Value)) -> Result<(), UnknownObject> {
        if let Some(mut object) = self.objects.get(&pod_key(pod)).cloned() {
            edit(&mut object);
            self.put(object)?;
        }
        Ok(())
    }

    fn write_status(&mut self, transaction: &Transaction) -> Result<(), UnknownObject> {
        let (namespace, name) = split_key(&transaction.pod_group);
        let key = ("PodGroup".to_owned(), namespace.to_owned(), name.to_owned());
        let Some(mut group) = self.objects.get(&key).cloned() else {
            return Ok(());
        };
        if let Some(phase) = transaction.phase {
            group["status"]["phase"] = json!(phase);
        }
        if let Some(tally) = transaction.tally {
            for (name, count) in [
                ("running", tally.running),
                ("succeeded", tally.succeeded),
                ("failed", tally.failed),
            ] {
                group["status"][name] = json!(count);
            }
        }
        self.put(group)
    }

    fn evict(&mut self, pod: &str, owners: Owners) -> Result<(), UnknownObject> {
        let Some(mut object) = self.objects.remove(&pod_key(pod)) else {
            return Ok(());
        };
        self.engine.apply(&Event::PodGone {
            key: pod.into(),
            uid: Some(text(&object, "/metadata/uid").into()),
        });
        if owners == Owners::LetGo {
            return Ok(());
        }
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
    let name = text(
        objects.get(&pod_key(pod))?,
        "/metadata/annotations/scheduling.k8s.io~1group-name",
    );
    (!name.is_empty()).then(|| format!("{namespace}/{name}"))
}
