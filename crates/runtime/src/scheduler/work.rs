//! One cycle, and what it sets in motion.

use std::sync::Arc;
use std::time::Instant;

use basalt_controllers::{Change, EventType};
use basalt_engine::facts::{Event, Phase};
use basalt_engine::plan::{Bind, Eviction, Plan, Transaction};
use jiff::Timestamp;

use super::evict::{self, Fate};
use super::metrics::milliseconds;
use super::mirror::Look;
use super::narrate::{group_target, pod_target};
use super::{Loop, News, recheck};
use crate::event_loop::{Frame, Sink};
use crate::write::binder::{Binder, Failed};

impl Loop {
    /// Decides, tells, and sets in motion what still holds.
    pub(super) fn cycle(&mut self, frame: &mut Frame<News>) {
        let now = Timestamp::now();
        if self.metrics.ready.get() == 0 {
            let was_scheduled = |group: &str| self.narrator.was_scheduled(group);
            self.short.survey(&self.engine, was_scheduled, now);
            self.metrics.ready.set(1);
            tracing::info!("the caches are complete");
        }
        for facts in self.reborn.settle(&self.engine, now) {
            self.engine.apply(&Event::Node(facts));
        }
        for target in self.outlets.groups.take_lost() {
            self.refused.note(format!("{}/{}", target.namespace, target.name), now);
        }
        for group in self.refused.due(now) {
            self.narrator.unsaid(&group);
            self.engine.phase_failed(&group);
        }
        let busy = self.engine.needs_cycle();
        let begun = Instant::now();
        let mut plan = self.decide(now);
        let took = begun.elapsed();
        if busy {
            self.metrics.cycle.observe(milliseconds(took));
            self.last_cycle = (Instant::now(), took);
            self.count(&plan);
        }
        for group in self.narrator.tell(&plan, self.engine.state(), now) {
            self.pods.ask(&group, now);
        }
        self.queues.tell(&plan.queues);
        self.nominations.tell(&plan, self.engine.state());
        self.pods
            .tell(self.engine.state(), |group| self.narrator.why(group), now);
        let transactions = std::mem::take(&mut plan.transactions);
        self.plan = plan;
        // What came in meanwhile may speak against what was just decided.
        frame.rest(|news| self.take_in(news));
        for transaction in transactions {
            self.set_in_motion(transaction, frame);
        }
        self.judge_short_gangs(frame, now);
        if let Some(look) = self.mirror.begin() {
            let sink = self.sink.clone();
            frame.spawn(async move {
                let _alive = sink.send(looked(look).await).await;
            });
        }
    }

    /// Asks the engine, with a watch in hand.
    fn decide(&mut self, now: Timestamp) -> Plan {
        let metrics = Arc::clone(&self.metrics);
        let mut since = Instant::now();
        self.engine
            .cycle_observed(now.as_millisecond(), self.seed, &mut |stage| {
                let took = since.elapsed();
                since = Instant::now();
                match stage {
                    "open" => metrics.open.observe(milliseconds(took)),
                    action => metrics.action(action, took),
                }
            })
    }

    fn count(&self, plan: &Plan) {
        let transactions = &plan.transactions;
        let placed = transactions
            .iter()
            .filter(|transaction| !transaction.binds.is_empty())
            .count();
        self.metrics.attempted("scheduled", placed);
        self.metrics.attempted("unschedulable", plan.waiting.len());
        let evictors = transactions
            .iter()
            .filter(|transaction| !transaction.evictions.is_empty());
        let (groups, victims) = evictors.fold((0, 0), |(groups, victims), t| (groups + 1, victims + t.evictions.len()));
        if groups > 0 {
            self.metrics.preemptions.inc_by(groups);
            self.metrics.victims.set(i64::try_from(victims).unwrap_or(i64::MAX));
        }
        let model = &self.engine.state().model;
        let now = Timestamp::now().as_millisecond();
        for transaction in transactions.iter().filter(|t| t.phase == Some(Phase::Running)) {
            if let Some(job) = model.jobs.find(&transaction.pod_group) {
                let waited = now.saturating_sub(model.jobs[job].created_ms).max(0);
                self.metrics.jobs.observe(waited as f64);
            }
        }
    }

    fn set_in_motion(&mut self, transaction: Transaction, frame: &mut Frame<News>) {
        for eviction in &transaction.evictions {
            let Some(permits) = self.evictor.begin(eviction) else {
                continue;
            };
            let (executor, sink, eviction) = (self.executor.clone(), self.sink.clone(), Box::new(eviction.clone()));
            frame.work(async move {
                let fate = evict::evict(executor, permits, &eviction).await;
                let _alive = sink.send(News::Evicted(eviction, fate)).await;
            });
        }
        if transaction.binds.is_empty() {
            return;
        }
        if recheck::stands(&self.engine, &transaction) {
            let whole_before = self.short.was_whole(&self.engine, &transaction);
            let busy = self
                .pods
                .hush(&transaction.pod_group, &transaction.binds, Timestamp::now());
            let (outlet, binder, sink) = (self.outlets.pods.clone(), self.binder.clone(), self.sink.clone());
            frame.work(async move {
                outlet.silence(&busy).await;
                carry_out(binder, transaction, whole_before, sink).await;
            });
        } else {
            tracing::debug!(group = &*transaction.pod_group, "decided on a view that is old by now");
            self.metrics.outdated.inc();
            for bind in &transaction.binds {
                self.engine.bind_failed(&bind.pod, &bind.uid);
            }
        }
    }

    /// Binds were answered. What certainly did not happen is told to the engine, so that it frees the places that it holds
    /// for it; where the outcome is unknown the places stay held until the watch shows it, or their time runs out.
    pub(super) fn bound(&mut self, transaction: &Transaction, whole_before: bool, failed: &[Failed]) {
        let is_failed = |bind: &Bind| failed.iter().any(|failure| failure.bind.uid == bind.uid);
        for bind in transaction
            .binds
            .iter()
            .filter(|bind| failed.is_empty() || !is_failed(bind))
        {
            let message = format!("Successfully assigned {} to {}", bind.pod, bind.node);
            self.outlets.event(
                pod_target(&bind.pod),
                &bind.uid,
                "Scheduled",
                message,
                EventType::Normal,
            );
        }
        let (group, uid, pods) = (
            &transaction.pod_group,
            &transaction.uid,
            transaction.binds.iter().map(|bind| &bind.uid),
        );
        self.short.join(group, uid, pods.clone());
        let Some(first) = failed.first() else { return };
        tracing::warn!(
            pod = &*first.bind.pod,
            why = first.why,
            count = failed.len(),
            "not bound"
        );
        self.metrics.attempted("error", 1);
        self.metrics.retried(&transaction.pod_group);
        let some_may_be_bound = failed.len() < transaction.binds.len() || failed.iter().any(|failure| !failure.certain);
        if some_may_be_bound && !whole_before {
            self.short.note(group, uid, pods, Timestamp::now());
        }
        for failure in failed.iter().filter(|failure| failure.certain) {
            self.reborn.refused(&failure.bind);
            self.engine.bind_failed(&failure.bind.pod, &failure.bind.uid);
        }
    }

    /// An eviction was answered.
    pub(super) fn evicted(&mut self, eviction: &Eviction, fate: &Fate) {
        self.evictor.end(eviction);
        self.metrics.evicted(eviction.purpose.action(), fate.word());
        let why = evict::sentence(&eviction.purpose);
        let target = pod_target(&eviction.pod);
        match fate {
            Fate::Going => {
                let model = &self.engine.state().model;
                let job = model.tasks.find(&eviction.pod).map(|task| model.tasks[task].job);
                if let Some(job) = job.filter(|job| job.is_some()) {
                    let (group, uid) = (model.jobs.name(job), &model.jobs[job].uid);
                    let message = format!("Pod {} was {why}", eviction.pod);
                    self.outlets
                        .event(group_target(group), uid, "Evict", message, EventType::Normal);
                }
                self.outlets.event(
                    target,
                    &eviction.uid,
                    "Evict",
                    format!("Pod was {why}"),
                    EventType::Warning,
                );
            }
            Fate::Blocked(refusal) | Fate::Failed(refusal) => {
                tracing::warn!(pod = &*eviction.pod, refusal, "not evicted");
                let message = format!("Pod was to be {why}, which was refused: {refusal}");
                self.outlets
                    .event(target, &eviction.uid, "EvictionRefused", message, EventType::Warning);
                self.engine.evict_failed(&eviction.pod, &eviction.uid);
            }
            // The room stays promised until the watch shows the pod gone, or the promise's time runs out.
            Fate::Unknown(why) => tracing::warn!(pod = &*eviction.pod, why, "whether it is evicted is not known"),
        }
    }

    /// Lets go of gangs that did not become whole in time.
    fn judge_short_gangs(&mut self, frame: &mut Frame<News>, now: Timestamp) {
        let verdicts = self.short.judge(&self.engine, now);
        for _ in 0..verdicts.completed {
            self.metrics.short_gang("completed");
        }
        for (group, uid, members) in verdicts.released {
            self.metrics.short_gang("released");
            let message = format!(
                "the gang did not become whole in time; {} pods of it are deleted, and it waits as a whole",
                members.len()
            );
            tracing::warn!(group = &*group, "{message}");
            self.outlets
                .event(group_target(&group), &uid, "GangReleased", message, EventType::Warning);
            let deletes = members.iter().map(|(pod, uid)| Change::Delete {
                target: pod_target(pod),
                uid: uid.to_string(),
                resource_version: None,
            });
            let (executor, deletes) = (self.executor.clone(), deletes.collect::<Vec<_>>());
            frame.work(async move {
                if let (_, Some(error)) = executor.run(deletes).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "a part of a gang was not released"
                    );
                }
            });
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

/// Binds, and tells how it went.
async fn carry_out(binder: Binder, transaction: Transaction, whole_before: bool, sink: Sink<News>) {
    let failed = binder.bind(&transaction).await;
    let transaction = Box::new(transaction);
    let news = News::Bound {
        transaction,
        whole_before,
        failed,
    };
    let _alive = sink.send(news).await;
}
