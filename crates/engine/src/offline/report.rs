//! What a run in an offline cluster led to, in the form that `basalt plan` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::quantity::ResourceList;
use basalt_api::reason::Reason;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::OfflineCluster;
use crate::facts::{Phase, PodFacts, Resources, quantity};
use crate::plan::Plan;
use crate::{Conf, Engine, Event, Options};

/// An offline cluster, and a report of everything that was decided in it.
pub struct OfflineRun {
    cluster: OfflineCluster,
    report: PlanReport,
}

/// Everything that was decided in a run.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// The node of each pod that was bound.
    pub binds: BTreeMap<Arc<str>, Arc<str>>,
    /// The pods that were evicted.
    pub evicted: BTreeSet<Arc<str>>,
    /// The action that evicted each of these pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub evicted_by: BTreeMap<Arc<str>, &'static str>,
    /// After the last cycle, the pods that wait on a node for others to end.
    pub pipelined: BTreeMap<Arc<str>, Arc<str>>,
    /// The pod groups after the last cycle.
    pub pod_groups: BTreeMap<Arc<str>, PodGroupReport>,
    /// The queues after the last cycle.
    pub queues: BTreeMap<Arc<str>, QueueUsageReport>,
}

/// A pod group after the last cycle of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PodGroupReport {
    /// The group's phase; none where pods name a group that does not exist.
    pub phase: Option<Phase>,
    /// The reasons why the group waits, if it does.
    #[serde(serialize_with = "serialize_with_sorted_keys")]
    pub reasons: Vec<Reason>,
}

/// A queue after the last cycle of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueueUsageReport {
    /// What the queue's pods have.
    pub allocated: ResourceList,
    /// What the queue deserves.
    pub deserved: ResourceList,
    /// The largest allocated / deserved over all resources.
    #[serde(serialize_with = "serialize_six_decimals")]
    pub share: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
fn serialize_six_decimals<S: Serializer>(share: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let finite = if share.is_finite() { *share } else { f64::from(i32::MAX) };
    let number = RawValue::from_string(format!("{finite:.6}")).map_err(serde::ser::Error::custom)?;
    number.serialize(serializer)
}

fn serialize_with_sorted_keys<S: Serializer>(reasons: &[Reason], serializer: S) -> Result<S::Ok, S::Error> {
    let sorted = serde_json::to_value(reasons).map_err(serde::ser::Error::custom)?;
    sorted.serialize(serializer)
}

fn resource_list(resources: &Resources) -> ResourceList {
    let amounts = resources.iter();
    amounts
        .map(|(name, &amount)| (name.to_string(), quantity(name, amount)))
        .collect()
}

impl OfflineRun {
    /// Creates a run on an empty cluster.
    pub fn new(conf: Conf, options: Options) -> Self {
        OfflineRun {
            cluster: OfflineCluster::new(Engine::new(conf, options)),
            report: PlanReport::default(),
        }
    }

    /// Adds to the cluster, or changes it.
    pub fn apply(&mut self, event: Event) {
        self.cluster.apply(event);
    }

    /// Returns the pods as they are now, by `namespace/name`.
    pub fn pods(&self) -> &BTreeMap<Arc<str>, PodFacts> {
        self.cluster.pods()
    }

    /// Returns the report of all cycles so far.
    pub fn report(&self) -> &PlanReport {
        &self.report
    }

    /// Runs one cycle, reports what it decides, and carries it out.
    pub fn run_cycle(&mut self, now_ms: i64) {
        let plan = self.cluster.engine_mut().cycle(now_ms, 0);
        self.report.add_plan(&plan, &self.cluster);
        self.cluster.carry_out(&plan);
    }
}

impl PlanReport {
    /// Adds a plan that has not been carried out yet.
    fn add_plan(&mut self, plan: &Plan, cluster: &OfflineCluster) {
        self.pipelined.clear();
        for transaction in &plan.transactions {
            let (binds, pipelined) = (transaction.binds.iter(), transaction.pipelined.iter());
            self.binds
                .extend(binds.map(|bind| (bind.pod.clone(), bind.node.clone())));
            self.pipelined
                .extend(pipelined.map(|pod| (pod.pod.clone(), pod.node.clone())));
            for eviction in &transaction.evictions {
                self.evicted.insert(eviction.pod.clone());
                self.evicted_by.insert(eviction.pod.clone(), eviction.purpose.action());
            }
        }
        self.pod_groups = BTreeMap::new();
        for (key, group) in cluster.groups() {
            self.pod_groups.entry(key.clone()).or_default().phase = Some(group.phase);
        }
        for transaction in &plan.transactions {
            if transaction.phase.is_some() {
                let group = self.pod_groups.entry(transaction.pod_group.clone()).or_default();
                group.phase = transaction.phase;
            }
        }
        for waiting in plan.waiting.iter() {
            let group = self.pod_groups.entry(waiting.pod_group.clone()).or_default();
            group.reasons = waiting.reasons.to_vec();
        }
        let queues = plan.queues.iter().map(|queue| {
            let usage = QueueUsageReport {
                allocated: resource_list(&queue.allocated),
                deserved: resource_list(&queue.deserved),
                share: queue.share,
            };
            (queue.name.clone(), usage)
        });
        self.queues = queues.collect();
    }
}
