//! One cycle, and the commands that it leads to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use basalt_api::{Change, ObjectRef};
use basalt_engine::plan::{Eviction, Transaction};
use basalt_scheduler::{SchedulerCommand, SchedulerInput, SchedulingMetric};
use jiff::{SignedDuration, Timestamp};

use super::evict::evict;
use super::metrics::{Metrics, milliseconds};
use super::mirror::Look;
use super::{Loop, News};
use crate::event_loop::Frame;

impl Loop {
    /// Decides, publishes, and sets in motion what still holds.
    pub(super) fn cycle(&mut self, frame: &mut Frame<News>) {
        let now = Timestamp::now();
        if self.metrics.ready.get() == 0 {
            self.metrics.ready.set(1);
            tracing::info!("the caches are complete");
        }
        self.pass_on_answers(now);
        let is_busy = self.core.needs_cycle();
        let took = self.decide(now);
        if is_busy {
            self.metrics.cycle.observe(milliseconds(took));
            self.last_cycle = (Instant::now(), took);
        }
        self.carry_out(frame);
        // What came in meanwhile may speak against what was just decided.
        frame.rest(|news| self.take_in(news));
        self.core.dispatch(now);
        self.carry_out(frame);
        if let Some(look) = self.mirror.begin() {
            let sink = self.sink.clone();
            frame.spawn(async move {
                let _alive = sink.send(looked(look).await).await;
            });
        }
    }

    /// Has the core decide; returns how long the decision took.
    fn decide(&mut self, now: Timestamp) -> Duration {
        let (metrics, begun) = (Arc::clone(&self.metrics), Instant::now());
        let (mut since, mut total) = (begun, Duration::ZERO);
        self.core.cycle(now, self.seed, &mut |stage| {
            let took = since.elapsed();
            since = Instant::now();
            match stage {
                "open" => metrics.open.observe(milliseconds(took)),
                "close" => total = begun.elapsed(),
                action => metrics.action(action, took),
            }
        });
        total
    }

    /// Tells the core which status writes were answered.
    pub(super) fn pass_on_answers(&mut self, now: Timestamp) {
        for (writer, answer) in self.writers.take_answers() {
            let input = SchedulerInput::StatusWriteAnswered {
                writer,
                target: &answer.target,
                sequence: answer.sequence,
                outcome: answer.outcome,
            };
            self.core.observe(input, now);
        }
    }

    /// Carries out what the core wants done.
    pub(super) fn carry_out(&mut self, frame: &mut Frame<News>) {
        for command in self.core.take_commands() {
            match command {
                SchedulerCommand::Bind {
                    transaction,
                    cancelled_conditions,
                } => self.bind(transaction, cancelled_conditions, frame),
                SchedulerCommand::Evict { eviction, message } => self.evict(eviction, message, frame),
                SchedulerCommand::ReleaseGang { pod_group, deletions } => self.release(&pod_group, deletions, frame),
                SchedulerCommand::WriteStatus(write) => self.writers.write(write),
                SchedulerCommand::RecordEvent { target, event } => self.writers.record_event(target, event),
                SchedulerCommand::RecordMetric(metric) => record(&self.metrics, metric),
            }
        }
    }

    pub(super) fn bind(&self, transaction: Box<Transaction>, cancelled: Vec<ObjectRef>, frame: &mut Frame<News>) {
        let sent = self.writers.cancel_conditions(cancelled);
        let (writers, binder, sink) = (self.writers.clone(), self.binder.clone(), self.sink.clone());
        frame.work(async move {
            writers.await_conditions(&sent).await;
            let failed = binder.bind(&transaction).await;
            let _alive = sink.send(News::Bound { transaction, failed }).await;
        });
    }

    fn evict(&self, eviction: Box<Eviction>, message: String, frame: &mut Frame<News>) {
        let (executor, slots) = (self.executor.clone(), Arc::clone(&self.eviction_slots));
        let sink = self.sink.clone();
        frame.work(async move {
            let outcome = evict(executor, slots, &eviction, &message).await;
            let _alive = sink.send(News::Evicted(eviction, outcome)).await;
        });
    }

    /// Deletes the bound pods of a gang. What stays is deleted again.
    fn release(&self, pod_group: &str, deletions: Vec<Change>, frame: &mut Frame<News>) {
        tracing::warn!(
            group = pod_group,
            pods = deletions.len(),
            "the gang did not become whole in time; deleting its bound pods"
        );
        let executor = self.executor.clone();
        frame.work(async move {
            if let (_, Some(error)) = executor.run(deletions).await {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "scheduler: deleting the bound pods of a gang failed"
                );
            }
        });
    }
}

/// Counts or measures something.
fn record(metrics: &Metrics, metric: SchedulingMetric) {
    let time = |waited: SignedDuration| Duration::try_from(waited).unwrap_or_default();
    match metric {
        SchedulingMetric::PodBound { waited } => metrics.task("Bound", time(waited)),
        SchedulingMetric::PodGroupScheduled { waited } => metrics.jobs.observe(milliseconds(time(waited))),
        SchedulingMetric::PodGroupsAttempted { result, count } => metrics.attempted(result, count),
        SchedulingMetric::BindFailed { pod_group } => metrics.retried(&pod_group),
        SchedulingMetric::PodGroupDeleted { pod_group } => metrics.forget_group(&pod_group),
        SchedulingMetric::VictimsSelected { preemptors, victims } => {
            metrics
                .preemptions
                .inc_by(i64::try_from(preemptors).unwrap_or(i64::MAX));
            metrics.victims.set(i64::try_from(victims).unwrap_or(i64::MAX));
        }
        SchedulingMetric::EvictionAnswered { action, result } => metrics.evicted(action, result),
        SchedulingMetric::PartialGangResolved(outcome) => metrics.short_gang(outcome.label()),
        SchedulingMetric::DecisionOutdated => {
            metrics.outdated.inc();
        }
    }
}

/// Lets the auditor look, on a thread of its own. If it stumbles, that is news, and no reason to stop scheduling.
pub(super) async fn looked(look: impl FnOnce() -> Look + Send + 'static) -> News {
    match tokio::task::spawn_blocking(look).await {
        Ok(look) => News::Audited(look),
        Err(error) => News::AuditFailed(error.to_string()),
    }
}
