//! A cluster in memory, in which plans are carried out at once: the one executor of plans that needs no API server.
//!
//! `basalt plan`, scenarios, tests and measurements all use it. It answers a plan as an ideal cluster does: bound pods
//! run, evicted pods are gone, statuses are written, and the engine hears of each change before the next cycle.

mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::report::{OfflineRun, PlanReport, PodGroupReport, QueueUsageReport};
use crate::facts::{PodFacts, PodGroupFacts, PodPhase};
use crate::plan::{Bind, Eviction, Pipelined, Plan, Transaction};
use crate::session::is_meant;
use crate::{Engine, Event};

/// An engine, and the pods and pod groups of the cluster that its decisions lead to.
pub struct OfflineCluster {
    engine: Engine,
    pods: BTreeMap<Arc<str>, PodFacts>,
    groups: BTreeMap<Arc<str>, PodGroupFacts>,
    history: Option<Vec<Event>>,
}

impl OfflineCluster {
    /// Creates a cluster for an engine that does not know of any pods yet.
    pub fn new(engine: Engine) -> Self {
        OfflineCluster {
            engine,
            pods: BTreeMap::new(),
            groups: BTreeMap::new(),
            history: None,
        }
    }

    /// Creates a cluster for an engine to which these events have been applied already.
    pub fn with_known(engine: Engine, events: impl Iterator<Item = Event>) -> Self {
        let mut cluster = OfflineCluster::new(engine);
        events.for_each(|event| cluster.store(event));
        cluster
    }

    /// Keeps every change from now on, to be read with [`OfflineCluster::history`].
    #[must_use]
    pub fn with_history(self) -> Self {
        OfflineCluster {
            history: Some(Vec::new()),
            ..self
        }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the engine, to decide or to report failures to it.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Returns the pods as they are now, by `namespace/name`.
    pub fn pods(&self) -> &BTreeMap<Arc<str>, PodFacts> {
        &self.pods
    }

    /// Returns the pod groups as they are now, by `namespace/name`.
    pub fn groups(&self) -> &BTreeMap<Arc<str>, PodGroupFacts> {
        &self.groups
    }

    /// Returns the changes that were kept, in order.
    pub fn history(&self) -> &[Event] {
        self.history.as_deref().unwrap_or_default()
    }

    /// Takes the changes that were kept so far.
    pub fn take_history(&mut self) -> Vec<Event> {
        self.history.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Changes the cluster, and tells the engine.
    pub fn apply(&mut self, event: Event) {
        self.engine.apply(&event);
        if let Some(history) = &mut self.history {
            history.push(event.clone());
        }
        self.store(event);
    }

    fn store(&mut self, event: Event) {
        match event {
            Event::Pod(pod) => drop(self.pods.insert(pod.key.clone(), pod)),
            Event::PodGroup(group) => drop(self.groups.insert(group.key.clone(), group)),
            Event::PodGone { key, uid }
                if self
                    .pods
                    .get(&key)
                    .is_some_and(|pod| is_meant(uid.as_deref(), &pod.uid)) =>
            {
                self.pods.remove(&key);
            }
            Event::PodGroupGone { key, uid }
                if self
                    .groups
                    .get(&key)
                    .is_some_and(|group| is_meant(uid.as_deref(), &group.uid)) =>
            {
                self.groups.remove(&key);
            }
            _ => {}
        }
    }

    /// Changes a pod, if it exists.
    pub fn update_pod(&mut self, key: &str, edit: impl FnOnce(&mut PodFacts)) {
        if let Some(mut pod) = self.pods.get(key).cloned() {
            edit(&mut pod);
            self.apply(Event::Pod(pod));
        }
    }

    /// Binds a pod to its node, where it does not run yet.
    pub fn bind_pod(&mut self, bind: &Bind) {
        self.update_pod(&bind.pod, |pod| {
            pod.node = Some(bind.node.clone());
            pod.nominated = None;
        });
    }

    /// Binds a pod to its node, where it runs at once.
    pub fn start_pod(&mut self, bind: &Bind) {
        self.update_pod(&bind.pod, |pod| {
            pod.node = Some(bind.node.clone());
            pod.nominated = None;
            pod.phase = PodPhase::Running;
        });
    }

    /// Writes the node that is being cleared for a pod.
    pub fn nominate_node(&mut self, pipelined: &Pipelined) {
        self.update_pod(&pipelined.pod, |pod| pod.nominated = Some(pipelined.node.clone()));
    }

    /// Removes an evicted pod.
    pub fn evict_pod(&mut self, eviction: &Eviction) {
        self.apply(Event::PodGone {
            key: eviction.pod.clone(),
            uid: Some(eviction.uid.clone()),
        });
    }

    /// Writes the phase and the counters that were decided for a pod group.
    pub fn write_group_status(&mut self, transaction: &Transaction) {
        if let Some(group) = self.groups.get(&transaction.pod_group) {
            let written = PodGroupFacts {
                phase: transaction.phase.unwrap_or(group.phase),
                tally: transaction.tally.unwrap_or(group.tally),
                ..group.clone()
            };
            self.apply(Event::PodGroup(written));
        }
    }

    /// Carries out a plan: bound pods run, evicted pods are gone, nominations and statuses are written.
    pub fn carry_out(&mut self, plan: &Plan) {
        for transaction in &plan.transactions {
            for bind in &transaction.binds {
                self.start_pod(bind);
            }
            for pipelined in transaction.pipelined.iter().filter(|pipelined| pipelined.nominated) {
                self.nominate_node(pipelined);
            }
            for eviction in &transaction.evictions {
                self.evict_pod(eviction);
            }
            self.write_group_status(transaction);
        }
    }
}

#[cfg(test)]
mod tests;
