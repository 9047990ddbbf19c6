//! A run without a cluster: what was decided is taken as carried out before the next cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::quantity::ResourceList;
use basalt_api::reason::Reason;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::facts::{Phase, PodFacts, PodGroupFacts, PodPhase, Resources, quantity};
use crate::plan::Plan;
use crate::{Conf, Engine, Event, Options};

/// An engine and the cluster that its decisions lead to.
pub struct Rehearsal {
    engine: Engine,
    pods: BTreeMap<Arc<str>, PodFacts>,
    groups: BTreeMap<Arc<str>, PodGroupFacts>,
    report: Report,
}

/// Everything that was decided, in the form that `basalt plan` prints.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The node of each pod that was bound.
    pub binds: BTreeMap<Arc<str>, Arc<str>>,
    /// Pods that were evicted.
    pub evicted: BTreeSet<Arc<str>>,
    /// Pods that wait on a node for others to end, after the last cycle.
    pub pipelined: BTreeMap<Arc<str>, Arc<str>>,
    /// Pod groups after the last cycle.
    pub pod_groups: BTreeMap<Arc<str>, GroupReport>,
    /// Queues after the last cycle.
    pub queues: BTreeMap<Arc<str>, QueueReport>,
}

/// A pod group.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupReport {
    /// Its phase; none where pods name a group that does not exist.
    pub phase: Option<Phase>,
    /// Why it waits, if it does.
    #[serde(serialize_with = "with_sorted_keys")]
    pub reasons: Vec<Reason>,
}

/// A queue.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueueReport {
    /// What it has.
    pub allocated: ResourceList,
    /// What it should get.
    pub deserved: ResourceList,
    /// Largest allocated / deserved.
    #[serde(serialize_with = "six_decimals")]
    pub share: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
fn six_decimals<S: Serializer>(share: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let finite = if share.is_finite() { *share } else { f64::from(i32::MAX) };
    let number = RawValue::from_string(format!("{finite:.6}")).map_err(serde::ser::Error::custom)?;
    number.serialize(serializer)
}

fn with_sorted_keys<S: Serializer>(reasons: &[Reason], serializer: S) -> Result<S::Ok, S::Error> {
    let sorted = serde_json::to_value(reasons).map_err(serde::ser::Error::custom)?;
    sorted.serialize(serializer)
}

fn list(resources: &Resources) -> ResourceList {
    let amounts = resources.iter();
    amounts
        .map(|(name, &amount)| (name.to_string(), quantity(name, amount)))
        .collect()
}

impl Rehearsal {
    /// A rehearsal on an empty cluster.
    pub fn new(conf: Conf, options: Options) -> Self {
        Rehearsal {
            engine: Engine::new(conf, options),
            pods: BTreeMap::new(),
            groups: BTreeMap::new(),
            report: Report::default(),
        }
    }

    /// Takes in a part of the cluster.
    pub fn apply(&mut self, event: Event) {
        self.engine.apply(&event);
        match event {
            Event::Pod(pod) => drop(self.pods.insert(pod.key.clone(), pod)),
            Event::PodGone { key, .. } => drop(self.pods.remove(&key)),
            Event::PodGroup(group) => drop(self.groups.insert(group.key.clone(), group)),
            Event::PodGroupGone { key, .. } => drop(self.groups.remove(&key)),
            _ => {}
        }
    }

    /// Decides once, and carries it out: bound pods run, evicted ones are gone.
    pub fn cycle(&mut self, now_ms: i64) -> Plan {
        let plan = self.engine.cycle(now_ms, 0);
        self.note(&plan);
        for transaction in &plan.transactions {
            for bind in &transaction.binds {
                let Some(pod) = self.pods.get(&bind.pod) else { continue };
                let running = PodFacts {
                    node: Some(bind.node.clone()),
                    phase: PodPhase::Running,
                    ..pod.clone()
                };
                self.apply(Event::Pod(running));
            }
            for claim in transaction.pipelined.iter().filter(|claim| claim.nominated) {
                let Some(pod) = self.pods.get(&claim.pod) else { continue };
                let nominated = Some(claim.node.clone());
                let pod = PodFacts {
                    nominated,
                    ..pod.clone()
                };
                self.apply(Event::Pod(pod));
            }
            for eviction in &transaction.evictions {
                self.apply(Event::PodGone {
                    key: eviction.pod.clone(),
                    uid: None,
                });
            }
            if let Some(group) = self.groups.get(&transaction.pod_group) {
                let written = PodGroupFacts {
                    phase: transaction.phase.unwrap_or(group.phase),
                    tally: transaction.tally.unwrap_or(group.tally),
                    ..group.clone()
                };
                self.apply(Event::PodGroup(written));
            }
        }
        plan
    }

    /// Everything that was decided so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The pods as they are now.
    pub fn pods(&self) -> &BTreeMap<Arc<str>, PodFacts> {
        &self.pods
    }

    fn note(&mut self, plan: &Plan) {
        let report = &mut self.report;
        report.pipelined.clear();
        for transaction in &plan.transactions {
            let (binds, pipelined) = (transaction.binds.iter(), transaction.pipelined.iter());
            report
                .binds
                .extend(binds.map(|bind| (bind.pod.clone(), bind.node.clone())));
            report
                .pipelined
                .extend(pipelined.map(|bind| (bind.pod.clone(), bind.node.clone())));
            report
                .evicted
                .extend(transaction.evictions.iter().map(|eviction| eviction.pod.clone()));
        }
        report.pod_groups = BTreeMap::new();
        for (key, group) in &self.groups {
            report.pod_groups.entry(key.clone()).or_default().phase = Some(group.phase);
        }
        for transaction in plan
            .transactions
            .iter()
            .filter(|transaction| transaction.phase.is_some())
        {
            let group = report.pod_groups.entry(transaction.pod_group.clone()).or_default();
            group.phase = transaction.phase;
        }
        for waiting in plan.waiting.iter() {
            let group = report.pod_groups.entry(waiting.pod_group.clone()).or_default();
            group.reasons = waiting.reasons.to_vec();
        }
        report.queues = plan
            .queues
            .iter()
            .map(|queue| {
                let state = QueueReport {
                    allocated: list(&queue.allocated),
                    deserved: list(&queue.deserved),
                    share: queue.share,
                };
                (queue.name.clone(), state)
            })
            .collect();
    }
}
