//! Tells the world what the engine decided: `PodGroup.status`, `Queue.status.allocated`, events.
//!
//! The scheduler is the one writer of these fields, so what was told last is what stands; only differences are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use basalt_api::podgroup::{PodGroup, PodGroupCondition, PodGroupPhase, PodGroupStatus};
use basalt_api::reason::Reason;
use basalt_controllers::{Change, EventType, Target};
use basalt_engine::facts::Phase;
use basalt_engine::plan::{Plan, QueueState, Waiting, split_key};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::json;

use crate::live::feed::{FeedEvent, ObjectKey};
use crate::live::latest::Latest;

const API_VERSION: &str = "scheduling.volcano.sh/v1beta1";
const UNSCHEDULABLE: &str = "Unschedulable";
const SCHEDULED: &str = "Scheduled";

/// What was last told of one group.
struct Told {
    uid: String,
    status: PodGroupStatus,
}

/// Where the news leaves.
#[derive(Clone, Default)]
pub(super) struct Outlets {
    /// Statuses of PodGroups.
    pub(super) groups: Latest,
    /// Statuses of queues.
    pub(super) queues: Latest,
    /// Events.
    pub(super) events: Latest,
}

/// Keeps what was told, and tells what differs.
pub(super) struct Narrator {
    outlets: Outlets,
    told: BTreeMap<String, Told>,
    /// Groups of which reasons stand.
    reasoned: BTreeSet<String>,
    waiting: Arc<Vec<Arc<Waiting>>>,
    queues: Arc<Vec<QueueState>>,
}

impl Narrator {
    pub(super) fn new(outlets: Outlets) -> Self {
        Self {
            outlets,
            told: BTreeMap::new(),
            reasoned: BTreeSet::new(),
            waiting: Arc::default(),
            queues: Arc::default(),
        }
    }

    /// Learns what stands in a PodGroup: of one that is new to us, and where somebody else has written.
    pub(super) fn observe(&mut self, event: &FeedEvent<PodGroup>) {
        match event {
            FeedEvent::Upsert(group) => {
                let key = ObjectKey::of(&**group);
                let uid = group.uid().unwrap_or_default();
                let target = Target::new(API_VERSION, "PodGroup", &key.namespace, &key.name);
                let key = key.to_string();
                let ours = self.told.get(&key).is_some_and(|told| told.uid == uid);
                // While a write of ours is under way, what the watch shows is older than what we told.
                if !ours || !self.outlets.groups.is_pending(&target) {
                    self.stands(
                        key,
                        Told {
                            uid,
                            status: group.status.clone().unwrap_or_default(),
                        },
                    );
                }
            }
            FeedEvent::Delete { key, uid } => {
                let key = key.to_string();
                if self.told.get(&key).is_some_and(|told| told.uid == *uid) {
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
        }
    }

    /// Sends what differs from what was told before.
    pub(super) fn tell(&mut self, plan: &Plan, now: Timestamp) {
        let mut drafts: BTreeMap<&str, PodGroupStatus> = BTreeMap::new();
        for transaction in &plan.transactions {
            let Some(status) = self.draft(&mut drafts, &transaction.pod_group) else {
                continue;
            };
            if let Some(phase) = transaction.phase {
                status.phase = Some(phase_word(phase));
            }
            if let Some(tally) = transaction.tally {
                status.running = count(tally.running);
                status.succeeded = count(tally.succeeded);
                status.failed = count(tally.failed);
            }
        }
        let before = std::mem::replace(&mut self.waiting, Arc::clone(&plan.waiting));
        let reasoned: Vec<String> = if Arc::ptr_eq(&before, &plan.waiting) {
            Vec::new()
        } else {
            let waits: BTreeSet<&str> = plan.waiting.iter().map(|waiting| &*waiting.pod_group).collect();
            self.reasoned
                .iter()
                .filter(|key| !waits.contains(key.as_str()))
                .cloned()
                .collect()
        };
        for key in &reasoned {
            if let Some(status) = self.draft(&mut drafts, key) {
                give_reasons(status, &[], now);
            }
        }
        if !Arc::ptr_eq(&before, &plan.waiting) {
            for waiting in plan.waiting.iter() {
                if let Some(status) = self.draft(&mut drafts, &waiting.pod_group) {
                    give_reasons(status, &waiting.reasons, now);
                }
            }
        }
        let drafts: Vec<(String, PodGroupStatus)> = drafts.into_iter().map(|(key, s)| (key.to_owned(), s)).collect();
        for (key, status) in drafts {
            self.send(&key, status);
        }
        self.tell_queues(&plan.queues);
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

    fn send(&mut self, key: &str, status: PodGroupStatus) {
        let Some(told) = self.told.get_mut(key).filter(|told| told.status != status) else {
            return;
        };
        let (namespace, name) = split_key(key);
        let target = Target::new(API_VERSION, "PodGroup", namespace, name);
        if told.status.reasons != status.reasons && !status.reasons.is_empty() {
            let change = Change::Event {
                regarding: target.clone(),
                uid: told.uid.clone(),
                reason: UNSCHEDULABLE.to_owned(),
                message: sentence(&status.reasons),
                event_type: EventType::Warning,
            };
            self.outlets.events.put(target.clone(), change);
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
        let uid = told.uid.clone();
        self.stands(key.to_owned(), Told { uid, status });
        self.outlets.groups.put(target, change);
    }

    fn tell_queues(&mut self, queues: &Arc<Vec<QueueState>>) {
        let before = std::mem::replace(&mut self.queues, Arc::clone(queues));
        if Arc::ptr_eq(&before, queues) {
            return;
        }
        let former: BTreeMap<&str, &QueueState> = before.iter().map(|queue| (&*queue.name, queue)).collect();
        for queue in queues.iter().filter(|queue| former.get(&*queue.name) != Some(queue)) {
            let mut allocated: BTreeMap<&str, serde_json::Value> = BTreeMap::new();
            // A dimension that fell to nothing is taken out of the stored map.
            for (name, _) in former
                .get(&*queue.name)
                .map(|former| former.allocated.iter())
                .into_iter()
                .flatten()
            {
                allocated.insert(name, serde_json::Value::Null);
            }
            for (name, amount) in &queue.allocated {
                allocated.insert(name, json!(basalt_engine::facts::quantity(name, *amount)));
            }
            let target = Target::new(API_VERSION, "Queue", "", &queue.name);
            let change = Change::Patch {
                target: target.clone(),
                subresource: Some("status".to_owned()),
                uid: None,
                resource_version: None,
                merge: json!({"status": {"allocated": allocated}}),
            };
            self.outlets.queues.put(target, change);
        }
    }
}

fn phase_word(phase: Phase) -> PodGroupPhase {
    match phase {
        Phase::Pending => PodGroupPhase::Pending,
        Phase::Inqueue => PodGroupPhase::Inqueue,
        Phase::Running => PodGroupPhase::Running,
        Phase::Unknown => PodGroupPhase::Unknown,
        Phase::Completed => PodGroupPhase::Completed,
    }
}

fn count(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn sentence(reasons: &[Reason]) -> String {
    let sentences: Vec<String> = reasons.iter().map(Reason::message).collect();
    sentences.join("; ")
}

/// Writes the reasons and Volcano's condition that belongs to them.
fn give_reasons(status: &mut PodGroupStatus, reasons: &[Reason], now: Timestamp) {
    if status.reasons == reasons {
        return;
    }
    status.reasons = reasons.to_vec();
    let waits = !reasons.is_empty();
    let (condition_type, reason, message) = if waits {
        (UNSCHEDULABLE, reasons[0].code.to_string(), sentence(reasons))
    } else {
        (
            SCHEDULED,
            "tasks in gang are ready to be scheduled".to_owned(),
            String::new(),
        )
    };
    let changed = status
        .conditions
        .last()
        .is_none_or(|last| last.condition_type != condition_type);
    let since = status
        .conditions
        .iter()
        .find(|c| c.condition_type == condition_type && !changed);
    let last_transition_time = since.map_or(Some(Time(now)), |condition| condition.last_transition_time.clone());
    status
        .conditions
        .retain(|condition| condition.condition_type != condition_type);
    for condition in &mut status.conditions {
        "False".clone_into(&mut condition.status);
    }
    status.conditions.push(PodGroupCondition {
        condition_type: condition_type.to_owned(),
        status: "True".to_owned(),
        transition_id: String::new(),
        last_transition_time,
        reason,
        message,
    });
}
