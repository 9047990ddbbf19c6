//! `PodGroup.status`: phase, counters, conditions and the reasons for which a group waits, and events about them.
//!
//! The scheduler is the only writer of these fields, so what was published last is what the object says; only
//! differences are written.

mod condition;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use basalt_api::podgroup::{PodGroup, PodGroupStatus};
use basalt_api::reason::{Code, Reason};
use basalt_api::{Change, EventType};
use basalt_engine::Engine;
use basalt_engine::facts::Phase;
use basalt_engine::plan::{Plan, Transaction, Waiting, WaitingList};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::json;

use self::condition::{
    READY, SCHEDULED, UNSCHEDULABLE, describe_reasons, has_condition, is_last_condition, set_condition,
    unschedulable_message, unschedulable_reason,
};
use crate::command::{CommandOutbox, StatusWriter, pod_group_ref};
use crate::input::{ObjectEvent, StatusWriteOutcome};
use crate::pending_write::PendingWrites;
use crate::token_bucket::TokenBucket;

/// Numbers in a group's reasons may change with every cycle; people need them now and then.
const RENEW_NUMBERS_EVERY: SignedDuration = SignedDuration::from_secs(5);
/// Groups per second whose numbers are published again.
const RENEWALS_PER_SECOND: u32 = 50;
/// The count of running pods changes with every one of them; people need it when there are few, or all have started.
const COUNTS_DELAY: Duration = Duration::from_secs(1);
/// A group that has too few pods is most likely still being created: it is reported only when no pod has come for this
/// long.
const CREATION_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// A group that has no pods at all gets more time: whoever creates them has much to do.
const FIRST_POD_PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// What was last published of one group.
#[derive(Debug)]
struct PublishedStatus {
    uid: String,
    status: PodGroupStatus,
    /// When its reasons were last published.
    reasoned_at: Timestamp,
    /// Whether the group's minimum was placed at some time.
    was_scheduled: bool,
}

/// Publishes the statuses of PodGroups.
#[derive(Debug)]
pub(crate) struct PodGroupStatusReporter {
    pending: PendingWrites,
    published: BTreeMap<String, PublishedStatus>,
    /// Groups whose published status has reasons.
    with_reasons: BTreeSet<String>,
    waiting: Arc<WaitingList>,
    /// Groups that have too few pods and were not reported yet: how many they have, and since when.
    incomplete: BTreeMap<Arc<str>, (u32, Timestamp)>,
    renewals: TokenBucket,
    /// When something has to be published by time alone.
    due: Option<Timestamp>,
}

impl Default for PodGroupStatusReporter {
    fn default() -> Self {
        Self {
            pending: PendingWrites::default(),
            published: BTreeMap::new(),
            with_reasons: BTreeSet::new(),
            waiting: Arc::default(),
            incomplete: BTreeMap::new(),
            renewals: TokenBucket::new(RENEWALS_PER_SECOND),
            due: None,
        }
    }
}

impl PodGroupStatusReporter {
    /// Learns what a PodGroup's status says: of one that is new, and where somebody else has written.
    pub(crate) fn observe(&mut self, key: &str, event: &ObjectEvent<'_, PodGroup>) {
        match event {
            ObjectEvent::Applied(group) => {
                let uid = group.uid().unwrap_or_default();
                let before = self.published.get(key).filter(|known| known.uid == uid);
                // What the watch shows may be older than what was written, even after that was answered.
                let version = group.metadata.resource_version.as_deref();
                if before.is_some() && self.pending.is_ahead_of(key, version) {
                    return;
                }
                if before.is_none() {
                    self.pending.forget(key);
                }
                let status = group.status.clone().unwrap_or_default();
                let reasoned_at = before.map_or(Timestamp::UNIX_EPOCH, |known| known.reasoned_at);
                let was_scheduled = before.is_some_and(|known| known.was_scheduled);
                let published = PublishedStatus {
                    uid,
                    was_scheduled: was_scheduled || has_condition(&status, SCHEDULED),
                    status,
                    reasoned_at,
                };
                self.remember(key.to_owned(), published);
            }
            ObjectEvent::Deleted { uid, .. } => {
                if self.published.get(key).is_some_and(|known| known.uid == *uid) {
                    self.pending.forget(key);
                    self.published.remove(key);
                    self.with_reasons.remove(key);
                }
            }
        }
    }

    /// Takes note of the answer to a write. Returns whether a write to a group that still exists was rejected.
    pub(crate) fn write_answered(&mut self, key: &str, sequence: u64, outcome: StatusWriteOutcome) -> bool {
        self.pending.answer(key, sequence);
        if !self.published.contains_key(key) {
            return false;
        }
        if let StatusWriteOutcome::Written {
            resource_version: Some(version),
        } = outcome
        {
            self.pending.record_version(key, version);
        }
        outcome == StatusWriteOutcome::Rejected
    }

    fn remember(&mut self, key: String, published: PublishedStatus) {
        if published.status.reasons.is_empty() {
            self.with_reasons.remove(&key);
        } else {
            self.with_reasons.insert(key.clone());
        }
        self.published.insert(key, published);
    }

    /// Forgets what a group's status says, because a write was rejected: everything will be published again.
    pub(crate) fn invalidate(&mut self, key: &str) {
        if let Some(published) = self.published.get_mut(key) {
            // Conditions are history: none of them may be lost.
            published.status = PodGroupStatus {
                conditions: std::mem::take(&mut published.status.conditions),
                ..PodGroupStatus::default()
            };
            self.with_reasons.remove(key);
            self.due = Some(Timestamp::UNIX_EPOCH);
        }
    }

    /// Returns why a group waits, as one text; none if it does not.
    pub(crate) fn waiting_message(&self, key: &str) -> Option<String> {
        let reasons = &self.published.get(key)?.status.reasons;
        (!reasons.is_empty()).then(|| describe_reasons(reasons))
    }

    /// Returns whether a group's minimum was placed at some time.
    pub(crate) fn was_scheduled(&self, key: &str) -> bool {
        self.published.get(key).is_some_and(|published| published.was_scheduled)
    }

    /// Returns when something has to be published by time alone.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Writes what differs from what was published before; returns the groups that have new reasons.
    pub(crate) fn publish(
        &mut self,
        plan: &Plan,
        engine: &Engine,
        now: Timestamp,
        outbox: &mut CommandOutbox,
    ) -> Vec<String> {
        let mut drafts: BTreeMap<&str, PodGroupStatus> = BTreeMap::new();
        for transaction in &plan.transactions {
            if let Some(status) = self.draft(&mut drafts, &transaction.pod_group) {
                apply_transaction(status, transaction, now);
            }
        }
        let before = std::mem::replace(&mut self.waiting, Arc::clone(&plan.waiting));
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
        }
        let resolved = if Arc::ptr_eq(&before, &plan.waiting) && !is_due {
            Vec::new()
        } else {
            self.incomplete.retain(|key, _| plan.waiting.get(key).is_some());
            for waiting in plan.waiting.iter() {
                self.draft_reasons(&mut drafts, waiting, engine, now);
            }
            self.groups_that_wait_no_longer(&plan.waiting)
        };
        for key in &resolved {
            if let Some(status) = self.draft(&mut drafts, key) {
                status.reasons = Vec::new();
                if is_minimum_scheduled(engine, key) {
                    set_condition(status, SCHEDULED, READY.to_owned(), String::new(), now);
                }
            }
        }
        let drafts: Vec<(String, PodGroupStatus)> = drafts.into_iter().map(|(key, s)| (key.to_owned(), s)).collect();
        let written = drafts
            .into_iter()
            .filter_map(|(key, status)| self.write(key, status, now, outbox));
        written.collect()
    }

    /// Returns the groups whose published reasons no longer hold.
    fn groups_that_wait_no_longer(&self, waiting: &WaitingList) -> Vec<String> {
        let resolved = self.with_reasons.iter().filter(|key| waiting.get(key).is_none());
        resolved.cloned().collect()
    }

    /// Drafts a group's reasons. A change of numbers alone can wait a little.
    fn draft_reasons<'p>(
        &mut self,
        drafts: &mut BTreeMap<&'p str, PodGroupStatus>,
        waiting: &'p Waiting,
        engine: &Engine,
        now: Timestamp,
    ) {
        let Some(published) = self.published.get(&*waiting.pod_group) else {
            return;
        };
        if *published.status.reasons == *waiting.reasons {
            return;
        }
        let codes = |reasons: &[Reason]| reasons.iter().map(|reason| reason.code.clone()).collect::<Vec<_>>();
        let only_numbers = codes(&published.status.reasons) == codes(&waiting.reasons);
        let (is_first, reasoned_at) = (published.status.reasons.is_empty(), published.reasoned_at);
        if is_first && self.is_being_created(waiting, engine, now) {
            return;
        }
        if only_numbers && !drafts.contains_key(&*waiting.pod_group) {
            let due = reasoned_at.saturating_add(RENEW_NUMBERS_EVERY).unwrap_or(now);
            if due > now || !self.renewals.take(now) {
                self.wake_at(due.max(self.renewals.next_refill()));
                return;
            }
        }
        if let Some(status) = self.draft(drafts, &waiting.pod_group) {
            status.reasons = waiting.reasons.to_vec();
            let group = engine.group(&waiting.pod_group);
            if group.is_some_and(basalt_engine::PodGroupView::is_minimum_scheduled) {
                // Pods beyond the minimum wait; the gang itself has what it needs.
                set_condition(status, SCHEDULED, READY.to_owned(), String::new(), now);
            } else if !group.is_some_and(basalt_engine::PodGroupView::is_minimum_ready) {
                let (reason, message) = (unschedulable_reason(waiting), unschedulable_message(engine, waiting));
                set_condition(status, UNSCHEDULABLE, reason, message, now);
            }
        }
    }

    /// Returns whether a group lacks nothing but pods, and has lacked them for a short time only.
    fn is_being_created(&mut self, waiting: &Waiting, engine: &Engine, now: Timestamp) -> bool {
        let lacks_pods = |reason: &Reason| reason.code == Code::GangNotReady;
        if !waiting.reasons.iter().all(lacks_pods) {
            return false;
        }
        let pods = engine
            .group(&waiting.pod_group)
            .map_or(0, basalt_engine::PodGroupView::pod_count);
        let known = self.incomplete.entry(waiting.pod_group.clone()).or_insert((pods, now));
        if known.0 != pods {
            *known = (pods, now);
        }
        let pause = if pods == 0 { FIRST_POD_PAUSE } else { CREATION_PAUSE };
        let due = known.1.saturating_add(pause).unwrap_or(now);
        if due > now {
            self.wake_at(due);
        }
        due > now
    }

    fn wake_at(&mut self, due: Timestamp) {
        self.due = Some(self.due.map_or(due, |sooner| sooner.min(due)));
    }

    /// Returns the status of `key` to be changed: as drafted in this round, or as published before.
    fn draft<'a, 'p>(
        &self,
        drafts: &'a mut BTreeMap<&'p str, PodGroupStatus>,
        key: &'p str,
    ) -> Option<&'a mut PodGroupStatus> {
        let published = self.published.get(key)?;
        Some(drafts.entry(key).or_insert_with(|| published.status.clone()))
    }

    /// Writes a status if it differs; returns the key if the group has new reasons.
    fn write(
        &mut self,
        key: String,
        status: PodGroupStatus,
        now: Timestamp,
        outbox: &mut CommandOutbox,
    ) -> Option<String> {
        let published = self.published.get(&key).filter(|known| known.status != status)?;
        let (before, uid) = (&published.status, published.uid.clone());
        let target = pod_group_ref(&key);
        let has_new_reasons = before.reasons != status.reasons && !status.reasons.is_empty();
        if has_new_reasons && is_last_condition(&status, UNSCHEDULABLE) {
            let message = describe_reasons(&status.reasons);
            outbox.record_event(target.clone(), &uid, UNSCHEDULABLE, message, EventType::Warning);
        } else if is_last_condition(&status, SCHEDULED) && !is_last_condition(before, SCHEDULED) {
            let message = "pod group is ready".to_owned();
            outbox.record_event(target.clone(), &uid, SCHEDULED, message, EventType::Normal);
        }
        let mut merge = json!({"status": status});
        if status.reasons.is_empty() {
            merge["status"]["reasons"] = serde_json::Value::Null; // an absent list would keep the stored one
        }
        let change = Change::Patch {
            target: target.clone(),
            subresource: None,
            uid: Some(uid.clone()),
            resource_version: None,
            merge,
        };
        let delay = if can_wait(before, &status) {
            COUNTS_DELAY
        } else {
            Duration::ZERO
        };
        let published = PublishedStatus {
            uid,
            reasoned_at: if has_new_reasons { now } else { published.reasoned_at },
            was_scheduled: published.was_scheduled || has_condition(&status, SCHEDULED),
            status,
        };
        self.remember(key.clone(), published);
        let sequence = outbox.write_status(StatusWriter::PodGroups, target, change, delay);
        self.pending.add(&key, sequence);
        has_new_reasons.then_some(key)
    }
}

/// Returns whether a status contains nothing new but counters, or that a group waits no longer: more pods will run in a
/// moment, and the pods of a group that waits no longer are bound.
fn can_wait(before: &PodGroupStatus, after: &PodGroupStatus) -> bool {
    before.phase == after.phase
        && before.conditions == after.conditions
        && (after.reasons.is_empty() || before.reasons == after.reasons)
}

fn apply_transaction(status: &mut PodGroupStatus, transaction: &Transaction, now: Timestamp) {
    if let Some(phase) = transaction.phase {
        status.phase = Some(phase);
        if phase == Phase::Running {
            set_condition(status, SCHEDULED, READY.to_owned(), String::new(), now);
        }
    }
    if let Some(tally) = transaction.tally {
        let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        status.running = count(tally.running);
        status.succeeded = count(tally.succeeded);
        status.failed = count(tally.failed);
    }
}

fn is_minimum_scheduled(engine: &Engine, key: &str) -> bool {
    engine
        .group(key)
        .is_some_and(basalt_engine::PodGroupView::is_minimum_scheduled)
}
