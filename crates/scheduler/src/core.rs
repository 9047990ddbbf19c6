//! The scheduler without waiting: inputs in, commands out.

use std::sync::Arc;
use std::time::Duration;

use basalt_api::podgroup::PodGroup;
use basalt_api::queue::Queue;
use basalt_api::slim::{Node, Pod};
use basalt_api::{Change, EventType, NamespacedName, ObjectRef, names};
use basalt_engine::facts::{Event, NodeFacts, Phase, PodFacts, PodGroupFacts, QueueFacts};
use basalt_engine::plan::{Plan, Transaction};
use basalt_engine::{Conf, Engine, Options};
use jiff::{SignedDuration, Timestamp};

use crate::bind_recheck::is_still_valid;
use crate::command::{
    CommandOutbox, GangOutcome, SchedulerCommand, SchedulingMetric, StatusWriter, pod_group_ref, pod_ref, queue_ref,
};
use crate::eviction::EvictionsInFlight;
use crate::input::{FailedBind, ObjectEvent, SchedulerInput, StatusWriteOutcome};
use crate::nomination::NominationReporter;
use crate::partial_gang::{PartialGangs, ReleasedGang};
use crate::pod_condition::PodConditionReporter;
use crate::pod_group_status::PodGroupStatusReporter;
use crate::queue_status::QueueStatusReporter;
use crate::recreated_node::RecreatedNodes;
use crate::rejected_write::RejectedWrites;

/// What is not in the scheduler's configuration file.
#[derive(Debug, Clone)]
pub struct CoreOptions {
    /// Names of schedulers that pods may ask for, and limits.
    pub engine: Options,
    /// How long a gang of which only a part is bound may take to become whole.
    pub gang_grace: Duration,
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self {
            engine: Options::default(),
            gang_grace: Duration::from_secs(10),
        }
    }
}

/// Everything that a scheduler knows and decides. It has no clock and does nothing by itself: time is an argument, and
/// what has to be done is returned as [`SchedulerCommand`]s.
pub struct SchedulerCore {
    engine: Engine,
    /// The last plan; its transactions wait for [`SchedulerCore::dispatch`].
    plan: Plan,
    pod_groups: PodGroupStatusReporter,
    queues: QueueStatusReporter,
    pod_conditions: PodConditionReporter,
    nominations: NominationReporter,
    evictions: EvictionsInFlight,
    partial_gangs: PartialGangs,
    recreated_nodes: RecreatedNodes,
    rejected_writes: RejectedWrites,
    outbox: CommandOutbox,
}

impl SchedulerCore {
    /// Creates a scheduler that knows nothing of the cluster yet.
    pub fn new(conf: Conf, options: CoreOptions) -> Self {
        Self {
            partial_gangs: PartialGangs::new(options.gang_grace, &conf),
            engine: Engine::new(conf, options.engine),
            plan: Plan::default(),
            pod_groups: PodGroupStatusReporter::default(),
            queues: QueueStatusReporter::default(),
            pod_conditions: PodConditionReporter::default(),
            nominations: NominationReporter::default(),
            evictions: EvictionsInFlight::default(),
            recreated_nodes: RecreatedNodes::default(),
            rejected_writes: RejectedWrites::default(),
            outbox: CommandOutbox::default(),
        }
    }

    /// Returns the engine, to read from.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the last plan: queues and waiting groups, and the transactions that were not dispatched yet.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns how many pods without a node do not have the condition that says so.
    pub fn unreported_pod_count(&self) -> usize {
        self.pod_conditions.unreported_count()
    }

    /// Returns whether a PodGroup asks for another scheduler: its pods are neither placed nor reported.
    pub fn is_foreign(&self, group: &PodGroup) -> bool {
        let annotations = group.metadata.annotations.as_ref();
        let scheduler = annotations.and_then(|all| all.get(names::SCHEDULER));
        scheduler.is_some_and(|name| !self.engine.answers_to(name))
    }

    /// Returns whether a cycle would have anything to decide. Besides this, [`SchedulerCore::next_wake`] is a reason
    /// for one.
    pub fn needs_cycle(&self) -> bool {
        self.engine.needs_cycle()
    }

    /// Returns when a cycle is due by time alone.
    pub fn next_wake(&self) -> Option<Timestamp> {
        let engine_wake = self.engine.next_wake();
        let due = [
            engine_wake.and_then(|ms| Timestamp::from_millisecond(ms).ok()),
            self.partial_gangs.next_due(),
            self.pod_conditions.next_due(),
            self.pod_groups.next_due(),
            self.recreated_nodes.next_due(),
            self.rejected_writes.next_due(),
        ];
        due.into_iter().flatten().min()
    }

    /// Returns the commands that accumulated since the last call, in order.
    pub fn take_commands(&mut self) -> Vec<SchedulerCommand> {
        self.outbox.take()
    }

    /// Learns something.
    pub fn observe(&mut self, input: SchedulerInput<'_>, now: Timestamp) {
        match input {
            SchedulerInput::Node(event) => self.observe_node(&event, now),
            SchedulerInput::Pod(event) => self.observe_pod(&event, now),
            SchedulerInput::PodGroup(event) => self.observe_pod_group(&event),
            SchedulerInput::Queue(event) => self.observe_queue(&event),
            SchedulerInput::Fact(event) => self.engine.apply(event),
            SchedulerInput::BindsAnswered { transaction, failed } => self.binds_answered(transaction, failed),
            SchedulerInput::EvictionAnswered { eviction, outcome } => {
                self.evictions
                    .answer(eviction, outcome, &mut self.engine, &mut self.outbox);
            }
            SchedulerInput::StatusWriteAnswered {
                writer,
                target,
                sequence,
                outcome,
            } => self.status_write_answered(writer, target, sequence, outcome, now),
            SchedulerInput::ConfigurationChanged(conf) => {
                self.partial_gangs.configure(&conf);
                self.engine.set_conf(conf);
            }
            SchedulerInput::ConfigurationRejected { message } => {
                let (target, message) = (queue_ref(names::ROOT_QUEUE), message.to_owned());
                self.outbox
                    .record_event(target, "", "BadConfiguration", message, EventType::Warning);
            }
        }
    }

    fn observe_node(&mut self, event: &ObjectEvent<'_, Node>, now: Timestamp) {
        match event {
            ObjectEvent::Applied(node) => {
                if let Some(facts) = self.recreated_nodes.node_applied(NodeFacts::from(*node)) {
                    self.engine.apply(&Event::Node(facts));
                }
            }
            ObjectEvent::Deleted { key, uid } => {
                self.recreated_nodes.node_deleted(&self.engine, &key.name, now);
                if let Some(node) = self.engine.node(&key.name) {
                    for pod in node.pods().filter(|pod| pod.is_placed()) {
                        self.partial_gangs.suspect(pod);
                    }
                }
                self.engine.apply(&Event::NodeGone {
                    name: Arc::clone(&key.name),
                    uid: Some((*uid).into()),
                });
            }
        }
    }

    fn observe_pod(&mut self, event: &ObjectEvent<'_, Pod>, now: Timestamp) {
        let key = match event {
            ObjectEvent::Applied(pod) => NamespacedName::of(*pod).to_string(),
            ObjectEvent::Deleted { key, .. } => key.to_string(),
        };
        if let Some(waited) = self.pod_conditions.observe(&key, event, now) {
            self.outbox.record_metric(SchedulingMetric::PodBound { waited });
        }
        match event {
            ObjectEvent::Applied(pod) => {
                self.nominations.observe(&key, pod);
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                let is_new = self.engine.pod(&key).is_none_or(|known| **known.uid() != *uid);
                self.engine.apply(&Event::Pod(PodFacts::from(*pod)));
                let bound = self.engine.pod(&key).filter(|pod| is_new && pod.is_placed());
                if let Some(pod) = bound {
                    self.partial_gangs.pod_came_bound(pod);
                }
                if let Some(pod) = self.engine.pod(&key).filter(|pod| pod.is_node_observed()) {
                    self.partial_gangs.suspect(pod);
                }
            }
            ObjectEvent::Deleted { uid, .. } => {
                if let Some(pod) = self.engine.pod(&key).filter(|pod| pod.is_node_observed()) {
                    self.partial_gangs.suspect(pod);
                }
                self.engine.apply(&Event::PodGone {
                    key: key.into(),
                    uid: Some((*uid).into()),
                });
                self.partial_gangs.pod_deleted(uid);
            }
        }
    }

    fn observe_pod_group(&mut self, event: &ObjectEvent<'_, PodGroup>) {
        match event {
            ObjectEvent::Applied(group) if self.is_foreign(group) => {}
            ObjectEvent::Applied(group) => {
                let key = NamespacedName::of(*group).to_string();
                self.pod_groups.observe(&key, event);
                self.partial_gangs.pod_group_changed(&key);
                self.engine.apply(&Event::PodGroup(PodGroupFacts::from(*group)));
            }
            ObjectEvent::Deleted { key, uid } => {
                let key = key.to_string();
                self.pod_groups.observe(&key, event);
                self.partial_gangs.pod_group_changed(&key);
                self.rejected_writes.forget(&key);
                self.engine.apply(&Event::PodGroupGone {
                    key: key.as_str().into(),
                    uid: Some((*uid).into()),
                });
                self.outbox
                    .record_metric(SchedulingMetric::PodGroupDeleted { pod_group: key });
            }
        }
    }

    fn observe_queue(&mut self, event: &ObjectEvent<'_, Queue>) {
        self.queues.observe(event);
        self.engine.apply(&match event {
            ObjectEvent::Applied(queue) => Event::Queue(QueueFacts::from(*queue)),
            ObjectEvent::Deleted { key, uid } => Event::QueueGone {
                name: Arc::clone(&key.name),
                uid: Some((*uid).into()),
            },
        });
    }

    fn status_write_answered(
        &mut self,
        writer: StatusWriter,
        target: &ObjectRef,
        sequence: u64,
        outcome: StatusWriteOutcome,
        now: Timestamp,
    ) {
        match writer {
            StatusWriter::PodGroups => {
                let key = target.to_string();
                if self.pod_groups.write_answered(&key, sequence, outcome) {
                    self.rejected_writes.add(key, now);
                }
            }
            StatusWriter::Queues => self.queues.write_answered(&target.name, sequence),
            StatusWriter::PodConditions => self.pod_conditions.write_answered(&target.to_string(), sequence),
            StatusWriter::Nominations => {}
        }
    }

    /// Takes note of answered binds. The engine frees the places of those that certainly did not happen; where the
    /// outcome is unknown the places stay taken until the watch shows it, or they time out.
    fn binds_answered(&mut self, transaction: &Transaction, failed: &[FailedBind]) {
        for bind in &transaction.binds {
            if failed.is_empty() || !failed.iter().any(|failure| failure.bind.uid == bind.uid) {
                let message = format!("Successfully assigned {} to {}", bind.pod, bind.node);
                self.outbox
                    .record_event(pod_ref(&bind.pod), &bind.uid, "Scheduled", message, EventType::Normal);
            }
        }
        let (pod_group, uid) = (&transaction.pod_group, &transaction.uid);
        self.partial_gangs.binds_answered(pod_group, uid, !failed.is_empty());
        if failed.is_empty() {
            return;
        }
        self.outbox.record_metric(SchedulingMetric::PodGroupsAttempted {
            result: "error",
            count: 1,
        });
        self.outbox.record_metric(SchedulingMetric::BindFailed {
            pod_group: Arc::clone(pod_group),
        });
        for failure in failed.iter().filter(|failure| failure.is_certain) {
            self.recreated_nodes.bind_rejected(&failure.bind);
            self.engine.bind_failed(&failure.bind.pod, &failure.bind.uid);
        }
    }

    /// Decides, and publishes what was decided. The decided transactions wait for [`SchedulerCore::dispatch`]. Calls
    /// `stage` when the cycle is open (`open`), after each action (its name) and when everything is decided (`close`),
    /// so that the caller, who has a clock, can measure.
    pub fn cycle(&mut self, now: Timestamp, seed: u64, stage: &mut dyn FnMut(&str)) {
        self.prepare(now);
        let is_busy = self.engine.needs_cycle();
        let plan = self.engine.cycle_observed(now.as_millisecond(), seed, stage);
        stage("close");
        if is_busy {
            self.measure(&plan, now);
        }
        self.partial_gangs.observe_plan(&plan);
        let was_scheduled = |group: &str| self.pod_groups.was_scheduled(group);
        self.partial_gangs.examine_groups(&self.engine, was_scheduled, now);
        self.partial_gangs.clear_suspects();
        let outbox = &mut self.outbox;
        for group in self.pod_groups.publish(&plan, &self.engine, now, outbox) {
            self.pod_conditions.schedule(&group, now);
        }
        self.queues.publish(&plan.queues, outbox);
        self.nominations.publish(&plan, &self.engine, outbox);
        let message_of = |group: &str| self.pod_groups.waiting_message(group);
        self.pod_conditions.publish(&self.engine, message_of, now, outbox);
        self.plan = plan;
    }

    /// Brings everything up to date that must be known before the engine decides.
    fn prepare(&mut self, now: Timestamp) {
        let was_scheduled = |group: &str| self.pod_groups.was_scheduled(group);
        self.partial_gangs.examine_groups(&self.engine, was_scheduled, now);
        for facts in self.recreated_nodes.release_nodes(&self.engine, now) {
            self.engine.apply(&Event::Node(facts));
        }
        for group in self.rejected_writes.take_due(now) {
            self.pod_groups.invalidate(&group);
            self.engine.phase_failed(&group);
        }
    }

    fn measure(&mut self, plan: &Plan, now: Timestamp) {
        let transactions = &plan.transactions;
        let placed = transactions.iter().filter(|decided| !decided.binds.is_empty()).count();
        for (result, count) in [("scheduled", placed), ("unschedulable", plan.waiting.len())] {
            self.outbox
                .record_metric(SchedulingMetric::PodGroupsAttempted { result, count });
        }
        let evicting = transactions.iter().filter(|decided| !decided.evictions.is_empty());
        let (preemptors, victims) = evicting.fold((0, 0), |(groups, pods), decided| {
            (groups + 1, pods + decided.evictions.len())
        });
        if preemptors > 0 {
            self.outbox
                .record_metric(SchedulingMetric::VictimsSelected { preemptors, victims });
        }
        for decided in transactions
            .iter()
            .filter(|decided| decided.phase == Some(Phase::Running))
        {
            if let Some(group) = self.engine.group(&decided.pod_group) {
                let waited = now.as_millisecond().saturating_sub(group.created_ms()).max(0);
                self.outbox.record_metric(SchedulingMetric::PodGroupScheduled {
                    waited: SignedDuration::from_millis(waited),
                });
            }
        }
    }

    /// Sets the decided transactions in motion, unless something was observed since the decision that speaks against
    /// them, and releases gangs whose time is over.
    pub fn dispatch(&mut self, now: Timestamp) {
        for transaction in std::mem::take(&mut self.plan.transactions) {
            for eviction in &transaction.evictions {
                self.evictions.start(eviction, &mut self.outbox);
            }
            if !transaction.binds.is_empty() {
                self.dispatch_binds(transaction, now);
            }
        }
        for _ in 0..self.partial_gangs.take_completed() {
            self.outbox
                .record_metric(SchedulingMetric::PartialGangResolved(GangOutcome::Completed));
        }
        for gang in self.partial_gangs.release_due(&self.engine, now) {
            self.release_gang(gang);
        }
    }

    fn dispatch_binds(&mut self, transaction: Transaction, now: Timestamp) {
        if !is_still_valid(&self.engine, &transaction) {
            self.outbox.record_metric(SchedulingMetric::DecisionOutdated);
            for bind in &transaction.binds {
                self.engine.bind_failed(&bind.pod, &bind.uid);
            }
            return;
        }
        self.partial_gangs.binds_started(&transaction.pod_group);
        let cancelled_conditions = self
            .pod_conditions
            .suspend(&transaction.pod_group, &transaction.binds, now);
        self.outbox.push(SchedulerCommand::Bind {
            transaction: Box::new(transaction),
            cancelled_conditions,
        });
    }

    fn release_gang(&mut self, gang: ReleasedGang) {
        self.outbox
            .record_metric(SchedulingMetric::PartialGangResolved(GangOutcome::Released));
        let count = gang.members.len();
        let pods = if count == 1 { "its bound pod" } else { "its bound pods" };
        let message =
            format!("the gang did not become whole in time: deleting {pods} ({count}), so that it waits as a whole");
        let target = pod_group_ref(&gang.pod_group);
        self.outbox
            .record_event(target, &gang.uid, "GangReleased", message, EventType::Warning);
        let deletions = gang.members.iter().map(|(pod, uid)| Change::Delete {
            target: pod_ref(pod),
            uid: uid.to_string(),
            resource_version: None,
        });
        self.outbox.push(SchedulerCommand::ReleaseGang {
            pod_group: Arc::clone(&gang.pod_group),
            deletions: deletions.collect(),
        });
    }
}
