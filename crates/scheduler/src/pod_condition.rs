//! Conditions of pods that wait: `PodScheduled=False`, with the reason of their group.
//!
//! A hundred thousand pods may wait, and the numbers in their group's reasons may change with every cycle. So a group's
//! pods are examined a moment after its reasons came up, or its last pod (most groups do not wait that long, and one
//! whose pods are still being created will have other reasons when it is complete). A pod without the condition gets it
//! soon, one whose message is merely old gets the new one when there is time. Both are limited to a rate.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use basalt_api::slim::{Pod, PodCondition};
use basalt_api::{Change, EventType, ObjectRef, WorkQueue};
use basalt_engine::Engine;
use basalt_engine::plan::Bind;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use rustc_hash::{FxHashMap, FxHasher};
use serde_json::json;

use crate::command::{CommandOutbox, StatusWriter, pod_ref};
use crate::input::ObjectEvent;
use crate::pending_write::PendingWrites;
use crate::token_bucket::TokenBucket;

/// A group waits this long before its pods get the condition.
const SETTLE_TIME: SignedDuration = SignedDuration::from_secs(3);
/// Pods that keep coming postpone that no longer than this.
const GROWTH_MAX: SignedDuration = SignedDuration::from_secs(30);
/// Pods per second that get the condition for the first time.
const FIRST_PER_SECOND: u32 = 500;
/// Pods per second that get a newer message.
const RENEWED_PER_SECOND: u32 = 20;
/// The pods of a group get a newer message at most this often.
const RENEW_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// Pods of one group that get an event too; the group's own event stands for the rest.
const EVENTS_PER_GROUP: usize = 10;

/// A pod that has no node.
#[derive(Debug)]
struct UnboundPod {
    uid: Box<str>,
    /// The hash of the message in its condition.
    message_hash: Option<u64>,
    first_seen: Timestamp,
}

/// When pods came to a group whose pods got no condition since: the first and the last of them.
#[derive(Debug, Clone, Copy)]
struct GroupGrowth {
    first: Timestamp,
    last: Timestamp,
}

impl GroupGrowth {
    /// Returns when the group counts as complete.
    fn settles_at(self) -> Timestamp {
        let settled = self.last.saturating_add(SETTLE_TIME).unwrap_or(self.last);
        settled.min(self.first.saturating_add(GROWTH_MAX).unwrap_or(self.first))
    }
}

/// Publishes the condition `PodScheduled=False` of pods that wait.
#[derive(Debug)]
pub(crate) struct PodConditionReporter {
    pending: PendingWrites,
    unbound: FxHashMap<Arc<str>, UnboundPod>,
    /// The groups whose pods have to be examined.
    groups: WorkQueue<Arc<str>>,
    growth: FxHashMap<Arc<str>, GroupGrowth>,
    first_writes: TokenBucket,
    renewals: TokenBucket,
    /// When a group's pods last got a newer message.
    renewed_at: BTreeMap<Arc<str>, Timestamp>,
}

fn hash_message(message: &str) -> u64 {
    let mut hasher = FxHasher::default();
    message.hash(&mut hasher);
    hasher.finish()
}

/// Returns the hash of the message in a pod's condition, if the pod has the condition.
fn condition_hash(pod: &Pod) -> Option<u64> {
    let is_unschedulable =
        |condition: &&PodCondition| condition.condition_type == "PodScheduled" && condition.status == "False";
    let condition = pod.status.conditions.iter().find(is_unschedulable)?;
    Some(hash_message(&condition.message))
}

impl Default for PodConditionReporter {
    fn default() -> Self {
        Self {
            pending: PendingWrites::default(),
            unbound: FxHashMap::default(),
            groups: WorkQueue::default(),
            growth: FxHashMap::default(),
            first_writes: TokenBucket::new(FIRST_PER_SECOND),
            renewals: TokenBucket::new(RENEWED_PER_SECOND),
            renewed_at: BTreeMap::new(),
        }
    }
}

impl PodConditionReporter {
    /// Learns of a pod. Returns how long it was known, if it has just got its node.
    pub(crate) fn observe(
        &mut self,
        key: &str,
        event: &ObjectEvent<'_, Pod>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let pod = match event {
            ObjectEvent::Applied(pod) => pod,
            ObjectEvent::Deleted { uid, .. } => {
                if self.unbound.get(key).is_some_and(|known| *known.uid == **uid) {
                    self.unbound.remove(key);
                    self.pending.forget(key);
                }
                return None;
            }
        };
        if !pod.spec.node_name.is_empty() || pod.is_finished() {
            let known = self.unbound.remove(key)?;
            self.pending.forget(key);
            return Some(now.duration_since(known.first_seen));
        }
        let group = pod.pod_group()?;
        let (uid, message_hash) = (pod.uid().unwrap_or_default(), condition_hash(pod));
        let before = self.unbound.get(key).filter(|known| *known.uid == *uid);
        // While a write is unanswered, what the watch shows is older than what was written.
        if before.is_some_and(|known| known.message_hash == message_hash) || self.pending.is_pending(key) {
            return None;
        }
        let is_new = before.is_none();
        let known = UnboundPod {
            first_seen: before.map_or(now, |known| known.first_seen),
            uid: uid.into(),
            message_hash,
        };
        self.unbound.insert(key.into(), known);
        let group: Arc<str> = format!("{}/{group}", pod.namespace().unwrap_or_default()).into();
        if is_new {
            let growth = GroupGrowth { first: now, last: now };
            self.growth.entry(Arc::clone(&group)).or_insert(growth).last = now;
        }
        self.schedule(&group, now);
        None
    }

    /// Takes note of the answer to a write.
    pub(crate) fn write_answered(&mut self, key: &str, sequence: u64) {
        self.pending.answer(key, sequence);
    }

    /// Has the pods of a group examined in a moment: its reasons changed.
    pub(crate) fn schedule(&mut self, group: &str, now: Timestamp) {
        let at = now.saturating_add(SETTLE_TIME).unwrap_or(now);
        self.groups.add(group.into(), at);
    }

    /// Cancels the conditions of pods that are about to be bound: they must not arrive after the bind. Returns the pods
    /// that had an unanswered write. If they are not bound after all, they get the condition again.
    pub(crate) fn suspend(&mut self, group: &str, binds: &[Bind], now: Timestamp) -> Vec<ObjectRef> {
        if self.pending.is_empty() {
            return Vec::new();
        }
        let mut cancelled = Vec::new();
        for bind in binds {
            if !self.pending.cancel(&bind.pod) {
                continue;
            }
            if let Some(known) = self.unbound.get_mut(&bind.pod) {
                known.message_hash = None;
            }
            self.schedule(group, now);
            cancelled.push(pod_ref(&bind.pod));
        }
        cancelled
    }

    /// Returns how many pods without a node do not have the condition.
    pub(crate) fn unreported_count(&self) -> usize {
        self.unbound
            .values()
            .filter(|known| known.message_hash.is_none())
            .count()
    }

    /// Returns when the next group is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.groups.next_due()
    }

    /// Examines the groups that are due; `message_of` returns why a group waits.
    pub(crate) fn publish(
        &mut self,
        engine: &Engine,
        message_of: impl Fn(&str) -> Option<String>,
        now: Timestamp,
        outbox: &mut CommandOutbox,
    ) {
        while let Some(group) = self.groups.take(now) {
            let settles_at = self.growth.get(&group).map(|growth| growth.settles_at());
            if let Some(settles_at) = settles_at.filter(|settles_at| *settles_at > now) {
                self.groups.done(Arc::clone(&group), false, now);
                self.groups.add(group, settles_at);
                continue;
            }
            self.growth.remove(&group);
            let later = match (engine.group(&group), message_of(&group)) {
                (Some(_), Some(message)) => self.publish_group(engine, &group, &message, now, outbox),
                (None, _) => {
                    self.renewed_at.remove(&group);
                    None
                }
                (Some(_), None) => None,
            };
            self.groups.done(Arc::clone(&group), false, now);
            if let Some(later) = later {
                self.groups.add(group, later);
            }
        }
    }

    /// Writes what a group's pods lack; returns when to continue, if not all could be done.
    fn publish_group(
        &mut self,
        engine: &Engine,
        group: &Arc<str>,
        message: &str,
        now: Timestamp,
        outbox: &mut CommandOutbox,
    ) -> Option<Timestamp> {
        let message_hash = hash_message(message);
        let renewed_at = self.renewed_at.get(group);
        let is_renewable = renewed_at.is_none_or(|at| now.duration_since(*at) >= RENEW_EVERY);
        let (mut events, mut is_renewed, mut later) = (0, false, None);
        let pods = engine
            .group(group)
            .into_iter()
            .flat_map(basalt_engine::PodGroupView::pending_pods);
        for pod in pods {
            let (key, uid) = (pod.key(), pod.uid());
            let Some(known) = self.unbound.get_mut(key).filter(|known| *known.uid == **uid) else {
                continue;
            };
            if known.message_hash == Some(message_hash) {
                continue;
            }
            let is_first = known.message_hash.is_none();
            if !is_first && !is_renewable {
                later = later.or_else(|| now.saturating_add(RENEW_EVERY).ok());
                continue;
            }
            let bucket = if is_first {
                &mut self.first_writes
            } else {
                &mut self.renewals
            };
            if !bucket.take(now) {
                later = Some(bucket.next_refill());
                break;
            }
            known.message_hash = Some(message_hash);
            is_renewed |= !is_first;
            let sequence = write(key, uid, message, is_first.then_some(now), outbox);
            self.pending.add(key, sequence);
            if events < EVENTS_PER_GROUP {
                events += 1;
                let message = message.to_owned();
                outbox.record_event(pod_ref(key), uid, "FailedScheduling", message, EventType::Warning);
            }
        }
        // A round that the bucket cut off continues; a whole one rests.
        if is_renewed && later.is_none() {
            self.renewed_at.insert(Arc::clone(group), now);
        }
        later
    }
}

/// Writes the condition; returns the number of the write. A condition that is new gets a transition time.
fn write(pod: &str, uid: &str, message: &str, since: Option<Timestamp>, outbox: &mut CommandOutbox) -> u64 {
    let mut condition = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
    });
    if let Some(since) = since {
        condition["lastTransitionTime"] = json!(since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    }
    let target = pod_ref(pod);
    let change = Change::Strategic {
        target: target.clone(),
        subresource: Some("status".to_owned()),
        uid: uid.to_owned(),
        patch: json!({"status": {"conditions": [condition]}}),
    };
    outbox.write_status(StatusWriter::PodConditions, target, change, Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use basalt_engine::facts::{Event, PodFacts, PodGroupFacts};
    use basalt_engine::{Conf, Engine, Options};

    use super::*;
    use crate::command::SchedulerCommand;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a small time")
    }

    const WHY: fn(&str) -> Option<String> = |_| Some("there is no room".to_owned());

    fn pod(name: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": "a", "uid": name,
                "annotations": {"scheduling.k8s.io/group-name": "g"},
            },
            "spec": {"schedulerName": "volcano"},
        }))
        .expect("a pod")
    }

    fn engine() -> Engine {
        let group = PodGroupFacts {
            key: "a/g".into(),
            uid: "g".into(),
            ..PodGroupFacts::default()
        };
        let mut engine = Engine::new(Conf::embedded(), Options::default());
        engine.apply(&Event::PodGroup(group));
        engine
    }

    /// Pods of a group come at these seconds, and the group never gets room. How many pods have the condition, second by
    /// second?
    fn check_growth(comes: &[i64], silent_until: i64, then: usize) {
        let (mut engine, mut outbox) = (engine(), CommandOutbox::default());
        let mut reporter = PodConditionReporter::default();
        let mut written = 0;
        for second in 0..=silent_until {
            for (index, _) in comes.iter().enumerate().filter(|(_, at)| **at == second) {
                let pod = pod(&format!("p-{index}"));
                engine.apply(&Event::Pod(PodFacts::from(&pod)));
                reporter.observe(&format!("a/p-{index}"), &ObjectEvent::Applied(&pod), at(second));
            }
            reporter.publish(&engine, WHY, at(second), &mut outbox);
            let is_write = |command: &&SchedulerCommand| matches!(command, SchedulerCommand::WriteStatus(_));
            written += outbox.take().iter().filter(is_write).count();
            let expected = if second < silent_until { 0 } else { then };
            assert_eq!(written, expected, "{comes:?} at {second}");
        }
    }

    #[test]
    fn a_group_that_is_still_being_created_gets_no_conditions_for_a_while() {
        check_growth(&[0], 3, 1);
        check_growth(&[0, 2, 4], 7, 3);
        check_growth(&[0, 2, 6], 5, 2);
        let drip: Vec<i64> = (0..40).collect();
        check_growth(&drip, 30, 31);
    }

    #[test]
    fn the_condition_of_a_pod_that_is_about_to_be_bound_is_cancelled() {
        let (pod, mut engine, mut outbox) = (pod("p"), engine(), CommandOutbox::default());
        engine.apply(&Event::Pod(PodFacts::from(&pod)));
        let mut reporter = PodConditionReporter::default();
        reporter.observe("a/p", &ObjectEvent::Applied(&pod), at(0));
        let bind = Bind {
            pod: "a/p".into(),
            uid: "p".into(),
            node: "n".into(),
        };
        for round in [0, 10] {
            reporter.publish(&engine, WHY, at(round + 2), &mut outbox);
            assert!(round > 0 || outbox.take().is_empty(), "it may be bound soon");
            reporter.publish(&engine, WHY, at(round + 4), &mut outbox);
            assert!(!outbox.take().is_empty() && reporter.pending.is_pending("a/p"));
            assert_eq!(reporter.unreported_count(), 0);
            let cancelled = reporter.suspend("a/g", std::slice::from_ref(&bind), at(round + 4));
            assert_eq!(cancelled, [pod_ref("a/p")]);
            assert!(reporter.pending.is_empty());
            assert_eq!(
                reporter.unreported_count(),
                1,
                "if it is not bound, it gets the condition again"
            );
        }
    }
}
