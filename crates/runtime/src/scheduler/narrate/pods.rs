//! Conditions of pods that wait: `PodScheduled=False`, with the reason of their group.
//!
//! A hundred thousand pods may wait, and their group's numbers may change with every cycle. So a group's pods are looked
//! at a moment after its reasons came up, or its last pod (most groups do not wait that long, and one that is still being
//! made will say something else when it is whole); a pod without the condition gets it soon, one
//! whose sentence is merely old gets the new one when there is time. Both are limited to so many writes a second.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use basalt_api::slim::Pod;
use basalt_api::{NamespacedName, ObjectRef, WorkQueue};
use basalt_controllers::{Change, EventType};
use basalt_engine::ledger::Status;
use basalt_engine::model::TaskId;
use basalt_engine::plan::Bind;
use basalt_engine::session::State;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::json;

use super::bucket::Bucket;
use super::{Outlets, pod_target};
use crate::watch::feed::FeedEvent;

/// A group waits this long before its pods say so.
const PATIENCE: SignedDuration = SignedDuration::from_secs(3);
/// But pods that keep coming hold that up no longer than this.
const GROWTH_MAX: SignedDuration = SignedDuration::from_secs(30);
/// Pods a second that get the condition for the first time.
const FIRST_PER_SECOND: u32 = 500;
/// Pods a second that get a newer sentence.
const AGAIN_PER_SECOND: u32 = 20;
/// A group's pods get a newer sentence at most this often.
const AGAIN_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// Pods of one group that get an event too; the group's own event speaks for the rest.
const EVENTS_PER_GROUP: usize = 10;

/// What is known of a pod that has no node.
struct Known {
    uid: Box<str>,
    /// A hash of the sentence that stands in it.
    says: Option<u64>,
    seen: Instant,
}

/// When pods came to a group of which nothing was said since: the first and the last of them.
#[derive(Clone, Copy)]
struct Growth {
    first: Timestamp,
    last: Timestamp,
}

impl Growth {
    /// Until when its pods say nothing.
    fn settles(self) -> Timestamp {
        let settled = self.last.saturating_add(PATIENCE).unwrap_or(self.last);
        settled.min(self.first.saturating_add(GROWTH_MAX).unwrap_or(self.first))
    }
}

/// The pods that have no node, and which of their groups have to be looked at.
pub(in crate::scheduler) struct PodConditions {
    outlets: Outlets,
    known: HashMap<Arc<str>, Known>,
    work_queue: WorkQueue<Arc<str>>,
    growth: HashMap<Arc<str>, Growth>,
    first: Bucket,
    again: Bucket,
    /// When a group's pods last got a newer sentence.
    renewed: BTreeMap<Arc<str>, Timestamp>,
}

fn digest(sentence: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    sentence.hash(&mut hasher);
    hasher.finish()
}

/// The digest of what a pod says of not being scheduled, if it says so.
fn says(pod: &Pod) -> Option<u64> {
    let is_ours = |condition: &&basalt_api::slim::PodCondition| {
        condition.condition_type == "PodScheduled" && condition.status == "False"
    };
    let condition = pod.status.conditions.iter().find(is_ours)?;
    Some(digest(&condition.message))
}

impl PodConditions {
    pub(in crate::scheduler) fn new(outlets: Outlets) -> Self {
        Self {
            outlets,
            known: HashMap::new(),
            work_queue: WorkQueue::default(),
            growth: HashMap::new(),
            first: Bucket::new(FIRST_PER_SECOND),
            again: Bucket::new(AGAIN_PER_SECOND),
            renewed: BTreeMap::new(),
        }
    }

    /// Learns of a pod. Returns since when it was known, if it has just got its node.
    pub(in crate::scheduler) fn observe(&mut self, event: &FeedEvent<Pod>, now: Timestamp) -> Option<Instant> {
        let pod = match event {
            FeedEvent::Upsert(pod) => pod,
            FeedEvent::Delete { key, uid } => {
                let key = key.to_string();
                if self.known.get(&*key).is_some_and(|known| *known.uid == **uid) {
                    self.known.remove(&*key);
                }
                return None;
            }
            FeedEvent::Synced => return None,
        };
        let key = NamespacedName::of(&**pod).to_string();
        if !pod.spec.node_name.is_empty() || pod.is_finished() {
            return self.known.remove(&*key).map(|known| known.seen);
        }
        let group = pod.pod_group()?;
        let (uid, says) = (pod.uid().unwrap_or_default(), says(pod));
        let before = self.known.get(&*key).filter(|known| *known.uid == *uid);
        // While a write of ours is under way, what the watch shows is older than what we told.
        if before.is_some_and(|known| known.says == says) || self.outlets.pods.is_pending(&pod_target(&key)) {
            return None;
        }
        let is_new = before.is_none();
        let known = Known {
            seen: before.map_or_else(Instant::now, |known| known.seen),
            uid: uid.into(),
            says,
        };
        self.known.insert(key.as_str().into(), known);
        let group: Arc<str> = format!("{}/{group}", pod.namespace().unwrap_or_default()).into();
        if is_new {
            let growth = Growth { first: now, last: now };
            self.growth.entry(Arc::clone(&group)).or_insert(growth).last = now;
        }
        self.ask(&group, now);
        None
    }

    /// New reasons stand in a group: its pods are looked at, in a moment.
    pub(in crate::scheduler) fn ask(&mut self, group: &str, now: Timestamp) {
        let at = now.saturating_add(PATIENCE).unwrap_or(now);
        self.work_queue.add(group.into(), at);
    }

    /// Pods of a group are about to be bound: what was to be said of their waiting must not arrive after that. Returns those of
    /// which something is being said right now. If they are not bound after all, they say it anew.
    pub(in crate::scheduler) fn hush(&mut self, group: &str, binds: &[Bind], now: Timestamp) -> Vec<ObjectRef> {
        if self.outlets.pods.is_idle() {
            return Vec::new();
        }
        let mut busy = Vec::new();
        for bind in binds {
            let target = pod_target(&bind.pod);
            if !self.outlets.pods.is_pending(&target) {
                continue;
            }
            if let Some(known) = self.known.get_mut(&bind.pod) {
                known.says = None;
            }
            self.ask(group, now);
            if self.outlets.pods.withdraw(&target) {
                busy.push(target);
            }
        }
        busy
    }

    /// How many pods without a node do not say so.
    pub(in crate::scheduler) fn silent(&self) -> usize {
        self.known.values().filter(|known| known.says.is_none()).count()
    }

    /// When the next group is due.
    pub(in crate::scheduler) fn next_due(&self) -> Option<Timestamp> {
        self.work_queue.next_due()
    }

    /// Looks at the groups that are due; `why` says what holds a group back.
    pub(in crate::scheduler) fn tell(&mut self, state: &State, why: impl Fn(&str) -> Option<String>, now: Timestamp) {
        while let Some(group) = self.work_queue.take(now) {
            let settles = self.growth.get(&group).map(|growth| growth.settles());
            if let Some(settles) = settles.filter(|settles| *settles > now) {
                self.work_queue.done(Arc::clone(&group), false, now);
                self.work_queue.add(group, settles);
                continue;
            }
            self.growth.remove(&group);
            let later = match (state.model.jobs.find(&group), why(&group)) {
                (Some(job), Some(sentence)) => {
                    let tasks = state.model.jobs[job].tasks.clone();
                    self.tell_group(state, &group, &tasks, &sentence, now)
                }
                (None, _) => {
                    self.renewed.remove(&group);
                    None
                }
                (Some(_), None) => None,
            };
            self.work_queue.done(Arc::clone(&group), false, now);
            if let Some(later) = later {
                self.work_queue.add(group, later);
            }
        }
    }

    /// Writes what a group's pods lack; returns when to go on, if not all could be done.
    fn tell_group(
        &mut self,
        state: &State,
        group: &Arc<str>,
        tasks: &[TaskId],
        sentence: &str,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let wanted = digest(sentence);
        let renewable = self
            .renewed
            .get(group)
            .is_none_or(|at| now.duration_since(*at) >= AGAIN_EVERY);
        let (mut events, mut renewed, mut later) = (0, false, None);
        for &task in tasks {
            let record = &state.model.tasks[task];
            if state.ledger.status(task) != Status::Pending || record.gated {
                continue;
            }
            let key = state.model.tasks.name(task);
            let Some(known) = self.known.get_mut(key).filter(|known| *known.uid == *record.uid) else {
                continue;
            };
            if known.says == Some(wanted) {
                continue;
            }
            let is_first = known.says.is_none();
            let bucket = if is_first { &mut self.first } else { &mut self.again };
            if !is_first && !renewable {
                later = later.or_else(|| now.saturating_add(AGAIN_EVERY).ok());
                continue;
            }
            if !bucket.take(now) {
                later = Some(bucket.next());
                break;
            }
            known.says = Some(wanted);
            renewed |= !is_first;
            self.write(key, &record.uid, sentence, is_first, now);
            if events < EVENTS_PER_GROUP {
                events += 1;
                let target = pod_target(key);
                let message = sentence.to_owned();
                self.outlets
                    .event(target, &record.uid, "FailedScheduling", message, EventType::Warning);
            }
        }
        // A round that the bucket cut off goes on; a whole one rests.
        if renewed && later.is_none() {
            self.renewed.insert(Arc::clone(group), now);
        }
        later
    }

    fn write(&self, pod: &str, uid: &str, sentence: &str, is_first: bool, now: Timestamp) {
        let mut condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": sentence,
        });
        if is_first {
            let since = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            condition["lastTransitionTime"] = json!(since);
        }
        let target = pod_target(pod);
        let change = Change::Strategic {
            target: target.clone(),
            subresource: Some("status".to_owned()),
            uid: uid.to_owned(),
            patch: json!({"status": {"conditions": [condition]}}),
        };
        self.outlets.pods.put(target, change);
    }
}

#[cfg(test)]
mod tests {
    use basalt_engine::facts::{Event, PodFacts, PodGroupFacts};
    use basalt_engine::{Conf, Engine, Options};

    use super::*;

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

    /// Pods of a group come at these seconds, and it never gets room. How many say so, second by second?
    fn check_growth(comes: &[i64], silent_until: i64, then: usize) {
        let (mut engine, outlets) = (engine(), Outlets::default()); // nobody empties them
        let mut pods = PodConditions::new(outlets.clone());
        for second in 0..=silent_until {
            for (index, _) in comes.iter().enumerate().filter(|(_, at)| **at == second) {
                let pod = pod(&format!("p-{index}"));
                engine.apply(&Event::Pod(PodFacts::from(&pod)));
                pods.observe(&FeedEvent::Upsert(Box::new(pod)), at(second));
            }
            pods.tell(engine.state(), WHY, at(second));
            let say = outlets.pods.backlog().0;
            let expected = if second < silent_until { 0 } else { then };
            assert_eq!(say, expected, "{comes:?} at {second}");
        }
    }

    #[test]
    fn a_group_that_is_still_being_made_says_nothing_for_a_while() {
        check_growth(&[0], 3, 1);
        check_growth(&[0, 2, 4], 7, 3);
        check_growth(&[0, 2, 6], 5, 2);
        let drip: Vec<i64> = (0..40).collect();
        check_growth(&drip, 30, 31);
    }

    #[test]
    fn a_pod_that_is_about_to_be_bound_does_not_say_that_it_waits() {
        let (pod, mut engine) = (pod("p"), engine());
        engine.apply(&Event::Pod(PodFacts::from(&pod)));
        let outlets = Outlets::default(); // nobody empties them
        let mut pods = PodConditions::new(outlets.clone());
        pods.observe(&FeedEvent::Upsert(Box::new(pod)), at(0));
        let bind = Bind {
            pod: "a/p".into(),
            uid: "p".into(),
            node: "n".into(),
        };
        for round in [0, 10] {
            pods.tell(engine.state(), WHY, at(round + 2));
            assert!(round > 0 || outlets.pods.is_idle(), "it may yet be bound soon");
            pods.tell(engine.state(), WHY, at(round + 4));
            assert!(outlets.pods.is_pending(&pod_target("a/p")), "it is to say so");
            assert_eq!(pods.silent(), 0);
            let busy = pods.hush("a/g", std::slice::from_ref(&bind), at(round + 4));
            assert!(busy.is_empty() && outlets.pods.is_idle(), "nothing has left");
            assert_eq!(pods.silent(), 1, "if it is not bound after all, it says it anew");
        }
    }
}
