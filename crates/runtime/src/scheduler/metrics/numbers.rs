//! What is read off the engine when somebody asks for metrics; nothing of it costs anything in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use basalt_engine::facts::Resources;
use basalt_engine::plan::{Plan, QueueState, WaitingList, split_key};
use basalt_engine::{Engine, Statistics};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Labels;

/// Groups that get series of their own at most; beyond it the sums still count all.
const GROUPS_MAX: usize = 5_000;

type Floats = Family<Labels, Gauge<f64, AtomicU64>>;

/// The engine's numbers at one moment.
pub(crate) struct Numbers {
    queues: Arc<Vec<QueueState>>,
    /// Weight, capability and what all pods ask for, by queue.
    limits: BTreeMap<Arc<str>, (u32, Resources, Resources)>,
    waiting: Arc<WaitingList>,
    /// The largest part of the cluster that a group has in any dimension.
    shares: Vec<(Arc<str>, f64)>,
    statistics: Statistics,
    /// Writes that wait, and that were dropped, by outlet.
    outlets: Vec<(&'static str, (usize, u64))>,
    /// Pods without a node that do not say so yet.
    silent: usize,
}

impl Numbers {
    /// Reads the engine.
    pub(crate) fn of(engine: &Engine, plan: &Plan, outlets: Vec<(&'static str, (usize, u64))>, silent: usize) -> Self {
        let limits = engine.queues().filter(|queue| queue.is_declared()).map(|queue| {
            let numbers = (queue.weight(), queue.capability(), queue.requested());
            (Arc::clone(queue.name()), numbers)
        });
        Self {
            queues: Arc::clone(&plan.queues),
            limits: limits.collect(),
            waiting: Arc::clone(&plan.waiting),
            shares: shares(engine),
            statistics: engine.statistics(),
            outlets,
            silent,
        }
    }

    /// As series.
    pub(super) fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        self.register_queues(registry.sub_registry_with_prefix("volcano"));
        self.register_groups(registry.sub_registry_with_prefix("volcano"));
        self.register_own(registry.sub_registry_with_prefix("basalt"));
        registry
    }

    fn register_queues(&self, registry: &mut Registry) {
        let (weight, share, overused) = (Floats::default(), Floats::default(), Floats::default());
        let mut kinds: BTreeMap<&str, [Floats; 3]> = BTreeMap::new();
        for queue in self.queues.iter() {
            let name = || vec![("queue_name", queue.name.to_string())];
            fill(kinds.entry("allocated").or_default(), &queue.name, &queue.allocated);
            if let Some((heavy, capability, asked)) = self.limits.get(&queue.name) {
                weight.get_or_create(&name()).set(f64::from(*heavy));
                fill(kinds.entry("capacity").or_default(), &queue.name, capability);
                fill(kinds.entry("request").or_default(), &queue.name, asked);
            }
            fill(kinds.entry("deserved").or_default(), &queue.name, &queue.deserved);
            share.get_or_create(&name()).set(queue.share);
            overused
                .get_or_create(&name())
                .set(f64::from(u8::from(queue.share > 1.0)));
        }
        for (kind, [cpu, memory, scalars]) in kinds {
            let help = |what: &str| format!("What a queue has as {kind}: {what}");
            registry.register(format!("queue_{kind}_milli_cpu"), help("cpu"), cpu);
            registry.register(format!("queue_{kind}_memory_bytes"), help("memory"), memory);
            registry.register(
                format!("queue_{kind}_scalar_resources"),
                help("other resources, in thousandths"),
                scalars,
            );
        }
        registry.register("queue_weight", "Weight of a queue", weight);
        registry.register("queue_share", "Largest allocated / deserved of a queue", share);
        registry.register("queue_overused", "1: the queue has more than it deserves", overused);
    }

    fn register_groups(&self, registry: &mut Registry) {
        let (tasks, jobs, shares): (Family<Labels, Gauge>, Gauge, Floats) = Default::default();
        jobs.set(count(self.waiting.len()));
        for waiting in self.waiting.iter().take(GROUPS_MAX) {
            let labels = vec![("job_id", waiting.pod_group.to_string())];
            tasks.get_or_create(&labels).set(i64::from(waiting.pods));
        }
        for (group, share) in self.shares.iter().take(GROUPS_MAX) {
            let (namespace, name) = split_key(group);
            let labels = vec![("job_ns", namespace.to_owned()), ("job_id", name.to_owned())];
            shares.get_or_create(&labels).set(*share);
        }
        registry.register("unschedule_task_count", "Pods of a PodGroup that wait", tasks);
        registry.register("unschedule_job_count", "PodGroups that wait", jobs);
        registry.register("job_share", "Largest part of the cluster that a PodGroup has", shares);
    }

    fn register_own(&self, registry: &mut Registry) {
        let held: Family<Labels, Gauge> = Family::default();
        let statistics = &self.statistics;
        for (kind, number) in [
            ("nodes", statistics.nodes),
            ("pods", statistics.pods),
            ("pod_groups", statistics.pod_groups),
            ("queues", statistics.queues),
            ("classes", statistics.classes),
            ("binds_under_way", statistics.assumed),
        ] {
            held.get_or_create(&vec![("kind", kind.to_owned())]).set(count(number));
        }
        registry.register("objects", "What the engine holds, by kind", held);
        let waiting_pods: Gauge = Gauge::default();
        waiting_pods.set(self.waiting.iter().map(|waiting| i64::from(waiting.pods)).sum());
        registry.register("waiting_pods", "Pods that wait for a node", waiting_pods);
        let silent: Gauge = Gauge::default();
        silent.set(count(self.silent));
        registry.register("silent_pods", "Pods without a node that do not say so yet", silent);
        let (waits, dropped): (Family<Labels, Gauge>, Family<Labels, Gauge>) = Default::default();
        for (outlet, (waiting, lost)) in &self.outlets {
            let labels = vec![("outlet", (*outlet).to_owned())];
            waits.get_or_create(&labels).set(count(*waiting));
            dropped
                .get_or_create(&labels)
                .set(i64::try_from(*lost).unwrap_or(i64::MAX));
        }
        registry.register(
            "writes_waiting",
            "Writes of statuses and events that have not left",
            waits,
        );
        registry.register("writes_dropped", "Writes of events that found no room", dropped);
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Puts amounts into the series for cpu, memory and the rest.
fn fill([cpu, memory, scalars]: &mut [Floats; 3], queue: &str, amounts: &Resources) {
    let name = || vec![("queue_name", queue.to_owned())];
    for (dimension, &amount) in amounts {
        let amount = amount as f64;
        match &**dimension {
            "cpu" => {
                cpu.get_or_create(&name()).set(amount);
            }
            "memory" => {
                memory.get_or_create(&name()).set(amount);
            }
            "pods" => {}
            other => {
                let labels = vec![("queue_name", queue.to_owned()), ("resource", other.to_owned())];
                scalars.get_or_create(&labels).set(amount * 1e3);
            }
        }
    }
}

/// Returns the groups that have something, the largest share first.
fn shares(engine: &Engine) -> Vec<(Arc<str>, f64)> {
    let groups = engine.groups().map(|group| (group.key(), group.dominant_share()));
    let mut shares: Vec<(Arc<str>, f64)> = groups
        .filter(|(_, share)| *share > 0.0)
        .map(|(key, share)| (Arc::clone(key), share))
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    shares
}
