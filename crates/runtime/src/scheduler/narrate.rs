//! Tells the world what the engine decided: statuses of PodGroups, queues and pods, and events.
//!
//! The scheduler is the one writer of these fields, so what was told last is what stands; only differences are sent.

mod bucket;
mod nominations;
mod pods;
mod queues;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use basalt_api::podgroup::{PodGroup, PodGroupCondition, PodGroupStatus};
use basalt_api::reason::{Code, Reason};
use basalt_api::{NamespacedName, ObjectRef, resource_kind};
use basalt_controllers::{Change, EventType};
use basalt_engine::facts::Phase;
use basalt_engine::ledger::Counts;
use basalt_engine::plan::{Plan, Transaction, Waiting, WaitingList, split_key};
use basalt_engine::session::State;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::json;

use self::bucket::Bucket;
pub(super) use self::nominations::Nominations;
pub(super) use self::pods::PodConditions;
pub(super) use self::queues::QueueStatuses;
use crate::watch::feed::FeedEvent;
use crate::write::coalescing::{Latest, Pace};

const UNSCHEDULABLE: &str = "Unschedulable";
const SCHEDULED: &str = "Scheduled";
/// Numbers in a group's reasons may change with every cycle; people need them now and then.
const NUMBERS_EVERY: SignedDuration = SignedDuration::from_secs(5);
/// Groups whose numbers are told again, a second.
const NUMBERS_PER_SECOND: u32 = 50;
/// Queues' numbers change with every cycle; people need them a few times a second, or, where the server has much to do, once.
const QUEUES: Pace = Pace {
    gives_way: Some(Duration::from_millis(800)),
    ..Pace::after(Duration::from_millis(200))
};
/// How many pods of a group run changes with every one of them; people need it when they are few, or have all started.
const COUNTS_PAUSE: Duration = Duration::from_secs(1);

/// A group that has too few pods is most likely still being made: it says so only when no pod has come for so long.
const GATHERING: SignedDuration = SignedDuration::from_secs(5);
/// And if it has none at all, they are on their way, and whoever makes them has much to do.
const UNMADE: SignedDuration = SignedDuration::from_secs(30);

/// What was last told of one group.
struct Told {
    uid: String,
    status: PodGroupStatus,
    /// When its reasons were last told.
    reasoned_at: Timestamp,
}

/// Where the news leaves.
#[derive(Clone)]
pub(super) struct Outlets {
    /// Statuses of PodGroups.
    pub(super) groups: Latest,
    /// Statuses of queues.
    pub(super) queues: Latest,
    /// Conditions of pods.
    pub(super) pods: Latest,
    /// Nodes that are being cleared for pods.
    pub(super) nominations: Latest,
    /// Events.
    pub(super) events: Latest,
}

impl Default for Outlets {
    fn default() -> Self {
        Self {
            groups: Latest::new(Pace::AT_ONCE).remembering(),
            queues: Latest::new(QUEUES),
            pods: Latest::new(Pace::after(Duration::ZERO)),
            nominations: Latest::new(Pace::AT_ONCE),
            events: Latest::new(Pace::EVENTS),
        }
    }
}

impl Outlets {
    /// How many writes wait, and were dropped, by outlet.
    pub(super) fn backlog(&self) -> Vec<(&'static str, (usize, u64))> {
        vec![
            ("podgroups", self.groups.backlog()),
            ("queues", self.queues.backlog()),
            ("pods", self.pods.backlog()),
            ("nominations", self.nominations.backlog()),
            ("events", self.events.backlog()),
        ]
    }

    /// Tells people of something.
    pub(super) fn event(&self, regarding: ObjectRef, uid: &str, reason: &str, message: String, event_type: EventType) {
        let change = Change::Event {
            regarding: regarding.clone(),
            uid: uid.to_owned(),
            reason: reason.to_owned(),
            message,
            event_type,
        };
        self.events.put(regarding, change);
    }
}

/// The address of a PodGroup by its key.
pub(super) fn group_target(key: &str) -> ObjectRef {
    let (namespace, name) = split_key(key);
    ObjectRef::new(resource_kind::POD_GROUP, namespace, name)
}

/// The address of a pod by its key.
pub(super) fn pod_target(key: &str) -> ObjectRef {
    let (namespace, name) = split_key(key);
    ObjectRef::new(resource_kind::POD, namespace, name)
}

/// Keeps what was told of PodGroups, and tells what differs.
pub(super) struct Narrator {
    outlets: Outlets,
    told: BTreeMap<String, Told>,
    /// Groups of which reasons stand.
    reasoned: BTreeSet<String>,
    waiting: Arc<WaitingList>,
    /// Groups that have too few pods, of which nothing was told yet: how many they have, and since when.
    gathering: BTreeMap<Arc<str>, (u32, Timestamp)>,
    numbers: Bucket,
    /// Some numbers are older than they should be: look again then.
    stale_until: Option<Timestamp>,
}

impl Narrator {
    pub(super) fn new(outlets: Outlets) -> Self {
        Self {
            outlets,
            told: BTreeMap::new(),
            reasoned: BTreeSet::new(),
            waiting: Arc::default(),
            gathering: BTreeMap::new(),
            numbers: Bucket::new(NUMBERS_PER_SECOND),
            stale_until: None,
        }
    }

    /// Learns what stands in a PodGroup: of one that is new to us, and where somebody else has written.
    pub(super) fn observe(&mut self, event: &FeedEvent<PodGroup>) {
        match event {
            FeedEvent::Upsert(group) => {
                let key = NamespacedName::of(&**group).to_string();
                let uid = group.uid().unwrap_or_default();
                let ours = self.told.get(&key).is_some_and(|told| told.uid == uid);
                // What the watch shows may be older than what we told, even after that was answered.
                let version = group.metadata.resource_version.as_deref();
                if !ours || !self.outlets.groups.is_ahead(&group_target(&key), version) {
                    let status = group.status.clone().unwrap_or_default();
                    let before = self.told.get(&key).filter(|told| told.uid == uid);
                    let reasoned_at = before.map_or(Timestamp::UNIX_EPOCH, |told| told.reasoned_at);
                    self.stands(
                        key,
                        Told {
                            uid,
                            status,
                            reasoned_at,
                        },
                    );
                }
            }
            FeedEvent::Delete { key, uid } => {
                let key = key.to_string();
                if self.told.get(&key).is_some_and(|told| told.uid == *uid) {
                    self.outlets.groups.forget(&group_target(&key));
                    self.told.remove(&key);
                    self.reasoned.remove(&key);
                }
            }
            FeedEvent::Synced => {}
        }
    }

    fn stands(&mut self, key: String, told: Told) {
        if told.status.reasons.is_empty() {
            self.reasoned.remove(&key);
        } else {
            self.reasoned.insert(key.clone());
        }
        self.told.insert(key, told);
    }

    /// What was told last did not arrive: nothing is known to stand there, so everything will be told again.
    pub(super) fn unsaid(&mut self, key: &str) {
        if let Some(told) = self.told.get_mut(key) {
            told.status = PodGroupStatus::default();
            self.reasoned.remove(key);
            self.stale_until = Some(Timestamp::UNIX_EPOCH);
        }
    }

    /// Why a group waits, as one text; none if it does not.
    pub(super) fn why(&self, key: &str) -> Option<String> {
        let reasons = &self.told.get(key)?.status.reasons;
        (!reasons.is_empty()).then(|| sentence(reasons))
    }

    /// Whether all that a group needs was once placed. No condition is ever taken back, only made untrue.
    pub(super) fn was_scheduled(&self, key: &str) -> bool {
        let told = self.told.get(key);
        let is_it = |condition: &PodGroupCondition| condition.condition_type == SCHEDULED;
        told.is_some_and(|told| told.status.conditions.iter().any(is_it))
    }

    /// When there is something to tell by time alone.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.stale_until
    }

    /// Sends what differs from what was told before; returns the groups of which new reasons stand.
    pub(super) fn tell(&mut self, plan: &Plan, state: &State, now: Timestamp) -> Vec<String> {
        let mut drafts: BTreeMap<&str, PodGroupStatus> = BTreeMap::new();
        for transaction in &plan.transactions {
            if let Some(status) = self.draft(&mut drafts, &transaction.pod_group) {
                give_phase(status, transaction, now);
            }
        }
        let before = std::mem::replace(&mut self.waiting, Arc::clone(&plan.waiting));
        let stale = self.stale_until.is_some_and(|due| due <= now);
        if stale {
            self.stale_until = None;
        }
        let cleared = if Arc::ptr_eq(&before, &plan.waiting) && !stale {
            Vec::new()
        } else {
            self.gathering.retain(|key, _| plan.waiting.get(key).is_some());
            for waiting in plan.waiting.iter() {
                self.draft_reasons(&mut drafts, waiting, state, now);
            }
            self.no_longer_reasoned(&plan.waiting)
        };
        for key in &cleared {
            if let Some(status) = self.draft(&mut drafts, key) {
                status.reasons = Vec::new();
                if is_scheduled(state, key) {
                    set_condition(status, SCHEDULED, READY.to_owned(), String::new(), now);
                }
            }
        }
        let drafts: Vec<(String, PodGroupStatus)> = drafts.into_iter().map(|(key, s)| (key.to_owned(), s)).collect();
        let sent = drafts
            .into_iter()
            .filter_map(|(key, status)| self.send(key, status, now));
        sent.collect()
    }

    /// Groups of which reasons stand that no longer hold.
    fn no_longer_reasoned(&self, waiting: &WaitingList) -> Vec<String> {
        let reasoned = self.reasoned.iter().filter(|key| waiting.get(key).is_none());
        reasoned.cloned().collect()
    }

    /// Drafts a group's reasons. Where only numbers changed, that can wait a little.
    fn draft_reasons<'p>(
        &mut self,
        drafts: &mut BTreeMap<&'p str, PodGroupStatus>,
        waiting: &'p Waiting,
        state: &State,
        now: Timestamp,
    ) {
        let Some(told) = self.told.get(&*waiting.pod_group) else {
            return;
        };
        if *told.status.reasons == *waiting.reasons {
            return;
        }
        let codes = |reasons: &[Reason]| reasons.iter().map(|reason| reason.code.clone()).collect::<Vec<_>>();
        let only_numbers = codes(&told.status.reasons) == codes(&waiting.reasons);
        let (is_first, reasoned_at) = (told.status.reasons.is_empty(), told.reasoned_at);
        if is_first && self.is_gathering(waiting, state, now) {
            return;
        }
        if only_numbers && !drafts.contains_key(&*waiting.pod_group) {
            let due = reasoned_at.saturating_add(NUMBERS_EVERY).unwrap_or(now);
            if due > now || !self.numbers.take(now) {
                self.look_again(due.max(self.numbers.next()));
                return;
            }
        }
        if let Some(status) = self.draft(drafts, &waiting.pod_group) {
            status.reasons = waiting.reasons.to_vec();
            if is_scheduled(state, &waiting.pod_group) {
                // Pods beyond the minimum wait; the gang itself has what it needs.
                set_condition(status, SCHEDULED, READY.to_owned(), String::new(), now);
            } else if !is_ready(state, &waiting.pod_group) {
                let (reason, message) = (volcanos_reason(waiting), volcanos_message(state, waiting));
                set_condition(status, UNSCHEDULABLE, reason, message, now);
            }
        }
    }

    /// Whether a group lacks nothing but pods, and not for long.
    fn is_gathering(&mut self, waiting: &Waiting, state: &State, now: Timestamp) -> bool {
        let lacks_pods = |reason: &Reason| reason.code == Code::GangNotReady;
        if !waiting.reasons.iter().all(lacks_pods) {
            return false;
        }
        let job = state.model.jobs.find(&waiting.pod_group);
        let pods = job.map_or(0, |job| state.ledger.counts(job).total());
        let known = self.gathering.entry(waiting.pod_group.clone()).or_insert((pods, now));
        if known.0 != pods {
            *known = (pods, now);
        }
        let patience = if pods == 0 { UNMADE } else { GATHERING };
        let due = known.1.saturating_add(patience).unwrap_or(now);
        if due > now {
            self.look_again(due);
        }
        due > now
    }

    /// There is something to tell then.
    fn look_again(&mut self, due: Timestamp) {
        self.stale_until = Some(self.stale_until.map_or(due, |sooner| sooner.min(due)));
    }

    /// The status of `key` to be changed: as drafted in this round, or as told before.
    fn draft<'a, 'p>(
        &self,
        drafts: &'a mut BTreeMap<&'p str, PodGroupStatus>,
        key: &'p str,
    ) -> Option<&'a mut PodGroupStatus> {
        let told = self.told.get(key)?;
        Some(drafts.entry(key).or_insert_with(|| told.status.clone()))
    }

    /// Sends a status if it differs; returns the key if new reasons stand now.
    fn send(&mut self, key: String, status: PodGroupStatus, now: Timestamp) -> Option<String> {
        let told = self.told.get_mut(&key).filter(|told| told.status != status)?;
        let target = group_target(&key);
        let new_reasons = told.status.reasons != status.reasons && !status.reasons.is_empty();
        let is_courtesy = is_courtesy(&told.status, &status);
        let is = |status: &PodGroupStatus, kind: &str| {
            let last = status.conditions.last();
            last.is_some_and(|condition| condition.condition_type == kind)
        };
        if new_reasons && is(&status, UNSCHEDULABLE) {
            let message = sentence(&status.reasons);
            self.outlets
                .event(target.clone(), &told.uid, UNSCHEDULABLE, message, EventType::Warning);
        } else if is(&status, SCHEDULED) && !is(&told.status, SCHEDULED) {
            let message = "pod group is ready".to_owned();
            self.outlets
                .event(target.clone(), &told.uid, SCHEDULED, message, EventType::Normal);
        }
        let mut merge = json!({"status": status});
        if status.reasons.is_empty() {
            merge["status"]["reasons"] = serde_json::Value::Null; // an absent list would keep the stored one
        }
        let change = Change::Patch {
            target: target.clone(),
            subresource: None,
            uid: Some(told.uid.clone()),
            resource_version: None,
            merge,
        };
        let told = Told {
            uid: told.uid.clone(),
            reasoned_at: if new_reasons { now } else { told.reasoned_at },
            status,
        };
        let wait = if is_courtesy { COUNTS_PAUSE } else { Duration::ZERO };
        self.stands(key.clone(), told);
        self.outlets.groups.put_later(target, change, wait);
        new_reasons.then_some(key)
    }
}

/// Whether a status says nothing new but how many pods run, and that nothing holds the group back any more: more pods
/// will run in a moment, and a group that nothing holds back has its pods bound.
fn is_courtesy(before: &PodGroupStatus, after: &PodGroupStatus) -> bool {
    before.phase == after.phase
        && before.conditions == after.conditions
        && (after.reasons.is_empty() || before.reasons == after.reasons)
}

/// Volcano's word for a gang that has what it needs.
const READY: &str = "tasks in gang are ready to be scheduled";

fn give_phase(status: &mut PodGroupStatus, transaction: &Transaction, now: Timestamp) {
    if let Some(phase) = transaction.phase {
        status.phase = Some(phase);
        if phase == Phase::Running {
            set_condition(status, SCHEDULED, READY.to_owned(), String::new(), now);
        }
    }
    if let Some(tally) = transaction.tally {
        status.running = count(tally.running);
        status.succeeded = count(tally.succeeded);
        status.failed = count(tally.failed);
    }
}

/// Whether the minimum of a group is placed, perhaps by binds that are still under way.
fn is_ready(state: &State, key: &str) -> bool {
    has_minimum(state, key, Counts::ready)
}

/// Whether the API shows the minimum of a group as placed.
fn is_scheduled(state: &State, key: &str) -> bool {
    has_minimum(state, key, Counts::scheduled)
}

fn has_minimum(state: &State, key: &str, count: fn(&Counts) -> u32) -> bool {
    let job = state.model.jobs.find(key);
    job.is_some_and(|job| count(state.ledger.counts(job)) >= state.model.jobs[job].min_member.max(1))
}

fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// All reasons as one text.
fn sentence(reasons: &[Reason]) -> String {
    let sentences: Vec<String> = reasons.iter().map(Reason::message).collect();
    sentences.join(" ")
}

/// The two words that Volcano has for this.
fn volcanos_reason(waiting: &Waiting) -> String {
    let few = waiting.reasons.iter().any(|reason| reason.code == Code::GangNotReady);
    if few { "NotEnoughTasks" } else { "NotEnoughResources" }.to_owned()
}

/// Volcano's sentence, with our reasons.
fn volcanos_message(state: &State, waiting: &Waiting) -> String {
    let why = sentence(&waiting.reasons);
    let Some(job) = state.model.jobs.find(&waiting.pod_group) else {
        return why;
    };
    let counts = state.ledger.counts(job);
    let short = state.model.jobs[job].min_member.saturating_sub(counts.ready()).max(1);
    match counts.total() {
        0 => why,
        total => format!("{}/{total} tasks in gang unschedulable: {why}", short.min(total)),
    }
}

/// Makes one condition the true one; it stands last, and keeps its time while it stays true.
fn set_condition(status: &mut PodGroupStatus, kind: &str, reason: String, message: String, now: Timestamp) {
    let is_last = |condition: &PodGroupCondition| condition.condition_type == kind && condition.status == "True";
    let since = status.conditions.last().filter(|last| is_last(last));
    let last_transition_time = since.map_or(Some(Time(now)), |condition| condition.last_transition_time.clone());
    status.conditions.retain(|condition| condition.condition_type != kind);
    for condition in &mut status.conditions {
        "False".clone_into(&mut condition.status);
    }
    status.conditions.push(PodGroupCondition {
        condition_type: kind.to_owned(),
        status: "True".to_owned(),
        transition_id: String::new(),
        last_transition_time,
        reason,
        message,
    });
}
