//! The scheduler: the engine, fed by watches; its plan is carried out as single writes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use basalt_api::json::string_at;
use basalt_api::quantity::ResourceList;
use basalt_audit::{Finding, Rules, World, judge};
use basalt_engine::facts::{ClaimFacts, Event, Resources, VolumeFacts, quantity};
use basalt_engine::plan::{Plan, QueueState, Transaction, split_key};
use basalt_engine::{Conf, Engine, Options};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Actor;
use super::controllers::with_conditions;
use crate::api::{Answer, Api, Key, Kind, Report, Request, Typed};
use crate::decision;
use crate::whim::Whim;

/// The fields of a queue's status that are the scheduler's.
#[derive(Clone, Debug, Default, PartialEq)]
struct Account {
    allocated: ResourceList,
    deserved: ResourceList,
    share: String,
}

/// Storage is not simulated: every claim has this volume, which all nodes reach.
const VOLUME: &str = "storage";

fn claim(key: Arc<str>, uid: Option<Arc<str>>, gone: bool) -> Event {
    if gone {
        return Event::ClaimGone { key, uid };
    }
    Event::Claim(ClaimFacts {
        key,
        uid: uid.unwrap_or_default(),
        volume: Some(VOLUME.into()),
        ..ClaimFacts::default()
    })
}

/// A write under way, and what it is part of.
enum Step {
    Bind(Transaction),
    Group(Arc<str>, Request),
    Evict(Arc<str>, Arc<str>, Request),
}

/// The scheduler.
pub struct Scheduler {
    engine: Engine,
    steps: VecDeque<Step>,
    /// What each queue's status says, with its uid.
    stands: BTreeMap<String, (String, Account)>,
    /// What they should say.
    told: Arc<Vec<QueueState>>,
    /// The queue whose account was written last.
    telling: Option<(String, Account)>,
    judge: Option<Judge>,
}

/// Looks at what the scheduler sees, and judges its decisions by that.
struct Judge {
    rules: Rules,
    seen: BTreeMap<Key, Arc<Value>>,
    /// Binds that the watch has not shown yet, and that are not known to have failed: pod, uid, node.
    believed: BTreeMap<Key, (Arc<str>, Arc<str>)>,
    judged: u64,
    findings: Vec<Finding>,
}

impl Judge {
    fn see(&mut self, report: &Report) {
        if report.gone || !string_at(&report.object, "/spec/nodeName").is_empty() {
            self.believed.remove(&report.key);
        }
        if report.gone {
            self.seen.remove(&report.key);
        } else {
            self.seen.insert(report.key.clone(), report.object.clone());
        }
    }

    fn believe(&mut self, transaction: &Transaction) {
        for bind in &transaction.binds {
            let (namespace, name) = split_key(&bind.pod);
            let key = Key::new(Kind::Pod, namespace, name);
            self.believed.insert(key, (bind.uid.clone(), bind.node.clone()));
        }
    }

    /// Only what a lock says is judged here.
    fn judge(&mut self, plan: &Plan) {
        let mut seen = self.seen.clone();
        for (key, (uid, node)) in &self.believed {
            if let Some(pod) = seen
                .get_mut(key)
                .filter(|pod| string_at(pod, "/metadata/uid") == &**uid)
            {
                Arc::make_mut(pod)["spec"]["nodeName"] = json!(node);
            }
        }
        let world = World::read(seen.values().map(|object| &**object));
        let findings = judge(&world, &self.rules, &decision(plan));
        let of_locks = |finding: &Finding| finding.invariant.starts_with('R');
        self.findings.extend(findings.into_iter().filter(of_locks));
        self.judged = self.judged.saturating_add(1);
    }
}

impl Scheduler {
    /// A scheduler under a configuration, that knows nothing of the cluster yet.
    pub fn new(conf: &Conf) -> Self {
        let mut engine = Engine::new(conf.clone(), Options::embedded());
        engine.apply(&Event::Volume(VolumeFacts {
            name: VOLUME.into(),
            ..VolumeFacts::default()
        }));
        Self {
            engine,
            steps: VecDeque::new(),
            stands: BTreeMap::new(),
            told: Arc::default(),
            telling: None,
            judge: None,
        }
    }

    /// The same, with somebody who judges every decision by these rules.
    #[must_use]
    pub fn judged_by(mut self, rules: Option<Rules>) -> Self {
        self.judge = rules.map(|rules| Judge {
            rules,
            seen: BTreeMap::new(),
            believed: BTreeMap::new(),
            judged: 0,
            findings: Vec::new(),
        });
        self
    }

    fn cycle(&mut self, now: Timestamp) {
        let plan = self.engine.cycle(now.as_millisecond(), 0);
        if let Some(judge) = &mut self.judge {
            judge.judge(&plan);
        }
        let Plan {
            transactions, queues, ..
        } = plan;
        self.told = queues;
        for transaction in transactions {
            self.steps.extend(group_status(&transaction));
            for eviction in &transaction.evictions {
                let (namespace, name) = split_key(&eviction.pod);
                let request = Request::Delete {
                    key: Key::new(Kind::Pod, namespace, name),
                    uid: Some(eviction.uid.to_string()),
                    revision: None,
                    grace: None,
                };
                self.steps
                    .push_back(Step::Evict(eviction.pod.clone(), eviction.uid.clone(), request));
            }
            if !transaction.binds.is_empty() {
                self.steps.push_back(Step::Bind(transaction));
            }
        }
    }

    /// The account of a queue that says something else than it should.
    fn account(&mut self) -> Option<Request> {
        for queue in self.told.iter() {
            let Some((uid, stands)) = self.stands.get(&*queue.name) else {
                continue;
            };
            let wanted = Account {
                allocated: list(&queue.allocated),
                deserved: list(&queue.deserved),
                share: format!("{:.6}", queue.share),
            };
            if *stands == wanted {
                continue;
            }
            let status = json!({
                "allocated": difference(&stands.allocated, &wanted.allocated),
                "deserved": difference(&stands.deserved, &wanted.deserved),
                "share": wanted.share,
            });
            let request = Request::Patch {
                key: Key::new(Kind::Queue, "", &queue.name),
                status: true,
                merge: with_conditions(json!({"status": status}), &[("uid", Some(uid))]),
            };
            self.telling = Some((queue.name.to_string(), wanted));
            return Some(request);
        }
        None
    }

    fn learn(&mut self, report: &Report) {
        let key: Arc<str> = match &*report.key.namespace {
            "" => report.key.name.clone(),
            namespace => format!("{namespace}/{}", report.key.name).into(),
        };
        let uid: Option<Arc<str>> = Some(string_at(&report.object, "/metadata/uid").into());
        let event = match (&*report.typed, report.gone) {
            (Typed::Pod(pod), false) => Event::Pod((&**pod).into()),
            (Typed::Pod(_), true) => Event::PodGone { key, uid },
            (Typed::PodGroup(group), false) => Event::PodGroup((&**group).into()),
            (Typed::PodGroup(_), true) => Event::PodGroupGone { key, uid },
            (Typed::Queue(queue), false) => Event::Queue((&**queue).into()),
            (Typed::Queue(_), true) => Event::QueueGone { name: key, uid },
            (Typed::Node(node), false) => Event::Node((&**node).into()),
            (Typed::Node(_), true) => Event::NodeGone { name: key, uid },
            (Typed::Companion(_), gone) if report.key.kind == Kind::PersistentVolumeClaim => claim(key, uid, gone),
            (Typed::Job(_) | Typed::Command(_) | Typed::Companion(_) | Typed::Other, _) => return,
        };
        self.engine.apply(&event);
    }
}

impl Actor for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn watches(&self) -> &'static [Kind] {
        &[
            Kind::Node,
            Kind::Queue,
            Kind::PodGroup,
            Kind::PersistentVolumeClaim,
            Kind::Pod,
        ]
    }

    fn lists_the_newest(&self) -> bool {
        true
    }

    fn judgement(&mut self) -> (u64, Vec<Finding>) {
        let taken = self.judge.as_mut().map(|judge| {
            let judged = std::mem::take(&mut judge.judged);
            (judged, std::mem::take(&mut judge.findings))
        });
        taken.unwrap_or_default()
    }

    fn take_in(&mut self, report: &Report, _: Timestamp) {
        self.learn(report);
        if let Some(judge) = &mut self.judge {
            judge.see(report);
        }
        let Typed::Queue(queue) = &*report.typed else { return };
        let name = report.key.name.to_string();
        if report.gone {
            self.stands.remove(&name);
            return;
        }
        let status = queue.status.clone().unwrap_or_default();
        let account = Account {
            allocated: status.allocated,
            deserved: status.deserved,
            share: status.share,
        };
        self.stands
            .insert(name, (queue.metadata.uid.clone().unwrap_or_default(), account));
    }

    fn listed(&mut self, _: Kind, _: Timestamp) {}

    fn next(&mut self, _: &Api, now: Timestamp, _: &mut Whim) -> Option<Request> {
        let due = self.engine.next_wake().is_some_and(|at| at <= now.as_millisecond());
        if self.steps.is_empty() && (due || self.engine.needs_cycle()) {
            self.cycle(now);
        }
        match self.steps.front() {
            Some(Step::Bind(transaction)) => Some(binding(transaction)),
            Some(Step::Group(_, request) | Step::Evict(_, _, request)) => Some(request.clone()),
            None => self.account(),
        }
    }

    fn answered(&mut self, _: &Request, answer: &Answer, _: Timestamp) {
        // What is not known to have failed is believed until the watch shows it, or its time runs out.
        let failed = answer.is_err() && !super::is_lost(answer);
        match self.steps.pop_front() {
            Some(Step::Bind(transaction)) if failed => {
                for bind in &transaction.binds {
                    self.engine.bind_failed(&bind.pod, &bind.uid);
                }
            }
            Some(Step::Bind(transaction)) => {
                if let Some(judge) = &mut self.judge {
                    judge.believe(&transaction);
                }
            }
            Some(Step::Group(group, _)) if answer.is_err() => self.engine.phase_failed(&group),
            Some(Step::Evict(pod, uid, _)) if failed => self.engine.evict_failed(&pod, &uid),
            Some(_) => {}
            None => {
                let Some((queue, account)) = self.telling.take() else {
                    return;
                };
                match answer {
                    Err(refusal) if matches!(refusal.code, 404 | 409) => drop(self.stands.remove(&queue)),
                    Err(_) => {}
                    Ok(_) => {
                        if let Some((_, stands)) = self.stands.get_mut(&queue) {
                            *stands = account;
                        }
                    }
                }
            }
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        let at = self.engine.next_wake()?;
        Timestamp::from_millisecond(at).ok()
    }
}

fn binding(transaction: &Transaction) -> Request {
    let (namespace, _) = split_key(&transaction.pod_group);
    let binds = transaction.binds.iter().map(|bind| {
        let (_, name) = split_key(&bind.pod);
        (name.to_owned(), bind.uid.to_string(), bind.node.to_string())
    });
    Request::Bind {
        namespace: namespace.to_owned(),
        binds: binds.collect(),
    }
}

/// The status of a group, where a transaction changes it.
fn group_status(transaction: &Transaction) -> Option<Step> {
    let mut status = Map::new();
    if let Some(phase) = transaction.phase {
        status.insert("phase".to_owned(), json!(phase));
    }
    if let Some(tally) = transaction.tally {
        status.insert("running".to_owned(), json!(tally.running));
        status.insert("succeeded".to_owned(), json!(tally.succeeded));
        status.insert("failed".to_owned(), json!(tally.failed));
    }
    if status.is_empty() {
        return None;
    }
    let (namespace, name) = split_key(&transaction.pod_group);
    let request = Request::Patch {
        key: Key::new(Kind::PodGroup, namespace, name),
        status: false,
        merge: with_conditions(json!({"status": status}), &[("uid", Some(&transaction.uid))]),
    };
    Some(Step::Group(transaction.pod_group.clone(), request))
}

fn list(resources: &Resources) -> ResourceList {
    let entries = resources.iter();
    entries
        .map(|(name, amount)| (name.to_string(), quantity(name, *amount)))
        .collect()
}

/// The whole new list, with the dimensions that fell away taken out.
fn difference(before: &ResourceList, after: &ResourceList) -> Value {
    let mut patch: Map<String, Value> = before.keys().map(|name| (name.clone(), Value::Null)).collect();
    patch.extend(after.iter().map(|(name, amount)| (name.clone(), json!(amount))));
    Value::Object(patch)
}
