//! Numbers for Prometheus, under Volcano's names; our own begin with `basalt_`.

mod example;
mod numbers;

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

pub use example::page;
pub(super) use numbers::Numbers;

/// Names and values of a metric's labels.
type Labels = Vec<(&'static str, String)>;
/// A family of histograms.
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// From a tenth of a millisecond to about a minute.
fn latencies() -> Histogram {
    Histogram::new(exponential_buckets(0.1, 2.0, 20))
}

/// Counts and times, kept as they happen. What can be read off the engine is added when somebody asks.
pub struct Metrics {
    registry: Mutex<Registry>,
    /// Times of whole cycles.
    pub(super) cycle: Histogram,
    /// Times from the start of a cycle to its first action.
    pub(super) open: Histogram,
    /// Times of actions, by action.
    actions: Histograms,
    /// From a pod's first sight to its node, by stage.
    tasks: Histograms,
    /// From a group's creation to its gang being placed.
    pub(super) jobs: Histogram,
    /// Tries to place a group, by how they ended.
    attempts: Family<Labels, Counter>,
    /// Groups for which pods were evicted.
    pub(super) preemptions: Gauge,
    /// Pods evicted in the last cycle that evicted any.
    pub(super) victims: Gauge,
    /// Failed binds by group.
    retries: Family<Labels, Gauge>,
    /// Evictions, by purpose and by how they ended.
    evictions: Family<Labels, Counter>,
    /// Gangs of which a part was bound, by what became of them.
    short_gangs: Family<Labels, Counter>,
    /// Decisions that the newest view no longer bore out.
    pub(super) outdated: Counter,
    /// 1: the configuration file is in force; 0: it cannot be used, and an earlier one is.
    pub(super) conf_good: Gauge,
    /// What the configuration says that is not understood.
    pub(super) conf_warnings: Gauge,
    /// Configurations that were put in force, or not, while running.
    reloads: Family<Labels, Counter>,
    /// What the auditor found at its last look.
    pub(super) audit_findings: Gauge,
    /// Looks of the auditor.
    pub(super) audits: Counter,
    /// Looks of the auditor that failed.
    pub(super) audit_failures: Counter,
    /// 1: everything is known, and the scheduler decides.
    pub(super) ready: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Mutex::default(),
            cycle: latencies(),
            open: latencies(),
            actions: Family::new_with_constructor(latencies),
            tasks: Family::new_with_constructor(latencies),
            jobs: latencies(),
            attempts: Family::default(),
            preemptions: Gauge::default(),
            victims: Gauge::default(),
            retries: Family::default(),
            evictions: Family::default(),
            short_gangs: Family::default(),
            outdated: Counter::default(),
            conf_good: Gauge::default(),
            conf_warnings: Gauge::default(),
            reloads: Family::default(),
            audit_findings: Gauge::default(),
            audits: Counter::default(),
            audit_failures: Counter::default(),
            ready: Gauge::default(),
        };
        let mut registry = Registry::default();
        metrics.register_volcanos(registry.sub_registry_with_prefix("volcano"));
        metrics.register_ours(registry.sub_registry_with_prefix("basalt"));
        Self {
            registry: Mutex::new(registry),
            ..metrics
        }
    }
}

impl Metrics {
    fn register_volcanos(&self, registry: &mut Registry) {
        registry.register(
            "e2e_scheduling_latency_milliseconds",
            "Time of a whole cycle",
            self.cycle.clone(),
        );
        registry.register(
            "open_session_duration_milliseconds",
            "Time from the start of a cycle to its first action",
            self.open.clone(),
        );
        registry.register(
            "action_scheduling_latency_milliseconds",
            "Time of an action in a cycle",
            self.actions.clone(),
        );
        registry.register(
            "task_scheduling_latency_milliseconds",
            "Time from a pod's first sight to its node",
            self.tasks.clone(),
        );
        registry.register(
            "e2e_job_scheduling_latency_milliseconds",
            "Time from a PodGroup's creation to its gang being placed",
            self.jobs.clone(),
        );
        registry.register(
            "schedule_attempts",
            "Tries to place a PodGroup, by result",
            self.attempts.clone(),
        );
        // Volcano's counters without the suffix that OpenMetrics gives to counters.
        registry.register(
            "total_preemption_attempts",
            "PodGroups for which pods were evicted",
            self.preemptions.clone(),
        );
        registry.register(
            "pod_preemption_victims",
            "Pods evicted in the last cycle that evicted any",
            self.victims.clone(),
        );
        registry.register("job_retry_counts", "Failed binds of a PodGroup", self.retries.clone());
    }

    fn register_ours(&self, registry: &mut Registry) {
        registry.register(
            "ready",
            "1: all caches are complete, and the scheduler decides",
            self.ready.clone(),
        );
        registry.register("evictions", "Evictions by purpose and result", self.evictions.clone());
        registry.register(
            "short_gangs",
            "Gangs of which only a part was bound, by what became of them",
            self.short_gangs.clone(),
        );
        registry.register(
            "outdated_decisions",
            "Decisions that the newest view no longer bore out",
            self.outdated.clone(),
        );
        registry.register(
            "conf_good",
            "1: the configuration file is in force; 0: it cannot be used, and an earlier one is",
            self.conf_good.clone(),
        );
        registry.register(
            "conf_warnings",
            "Keys and plugins of the configuration that are not understood",
            self.conf_warnings.clone(),
        );
        registry.register(
            "conf_reloads",
            "Changes of the configuration file by result",
            self.reloads.clone(),
        );
        registry.register(
            "audit_findings",
            "Broken promises that the auditor sees",
            self.audit_findings.clone(),
        );
        registry.register("audits", "Looks of the auditor", self.audits.clone());
        registry.register(
            "audit_failures",
            "Looks of the auditor that failed",
            self.audit_failures.clone(),
        );
    }

    /// An action took so long.
    pub(super) fn action(&self, action: &str, time: Duration) {
        let labels = vec![("action", action.to_owned())];
        self.actions.get_or_create(&labels).observe(milliseconds(time));
    }

    /// A pod reached a stage after so long.
    pub(super) fn task(&self, stage: &str, time: Duration) {
        let labels = vec![("stage", stage.to_owned())];
        self.tasks.get_or_create(&labels).observe(milliseconds(time));
    }

    /// Tries to place groups ended so: `scheduled`, `unschedulable` or `error`.
    pub(super) fn attempted(&self, result: &str, count: usize) {
        let labels = vec![("result", result.to_owned())];
        self.attempts.get_or_create(&labels).inc_by(count as u64);
    }

    /// A bind of a group failed.
    pub(super) fn retried(&self, group: &str) {
        self.retries.get_or_create(&vec![("job_id", group.to_owned())]).inc();
    }

    /// A group is gone, and its series with it.
    pub(super) fn forget_group(&self, group: &str) {
        self.retries.remove(&vec![("job_id", group.to_owned())]);
    }

    /// An eviction ended so: `done`, `blocked` or `failed`.
    pub(super) fn evicted(&self, purpose: &str, result: &str) {
        let labels = vec![("purpose", purpose.to_owned()), ("result", result.to_owned())];
        self.evictions.get_or_create(&labels).inc();
    }

    /// A gang that came out short was `completed` or `released`.
    pub(super) fn short_gang(&self, outcome: &str) {
        self.short_gangs
            .get_or_create(&vec![("outcome", outcome.to_owned())])
            .inc();
    }

    /// The configuration file changed, and was `applied` or `refused`.
    pub(super) fn reloaded(&self, result: &str) {
        self.reloads.get_or_create(&vec![("result", result.to_owned())]).inc();
    }

    /// Everything in the text form of OpenMetrics, with what the engine said of itself.
    pub(super) fn encode(&self, numbers: Option<&Numbers>) -> String {
        let mut out = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a text cannot fail.
        let mut result = text::encode_registry(&mut out, &registry);
        if let Some(numbers) = numbers {
            result = result.and_then(|()| text::encode_registry(&mut out, &numbers.registry()));
        }
        if let Err(error) = result.and_then(|()| text::encode_eof(&mut out)) {
            tracing::error!(%error, "metrics cannot be written down");
        }
        out
    }
}

/// A time as Volcano's metrics give it.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_volcanos() {
        let metrics = Metrics::default();
        metrics.cycle.observe(1.0);
        metrics.action("allocate", Duration::from_millis(2));
        metrics.attempted("scheduled", 3);
        metrics.preemptions.inc();
        metrics.retried("default/a");
        let text = metrics.encode(None);
        for line in [
            "volcano_e2e_scheduling_latency_milliseconds_count 1",
            "volcano_action_scheduling_latency_milliseconds_sum{action=\"allocate\"} 2.0",
            "volcano_schedule_attempts_total{result=\"scheduled\"} 3",
            "volcano_total_preemption_attempts 1",
            "volcano_job_retry_counts{job_id=\"default/a\"} 1",
            "basalt_audit_findings 0",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        metrics.forget_group("default/a");
        assert!(!metrics.encode(None).contains("default/a"));
    }
}
