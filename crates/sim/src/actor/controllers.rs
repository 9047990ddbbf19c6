//! The controllers: the same world, work queue and decisions as in the live loop; its executor, one write at a time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use basalt_api::change::RefusalMeaning;
use basalt_api::json::string_at;
use basalt_api::{NamespacedName, ObjectRef, WorkQueue};
use basalt_controllers::Change;
use basalt_controllers::cache::Origin;
use basalt_controllers::world::{Rules, Work, World};
use basalt_engine::Conf;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Actor;
use crate::api::{Answer, Api, Key, Kind, Report, Request, Typed};
use crate::whim::Whim;

/// Work items in hands at the same time.
const HANDS: usize = 3;

/// A work item under way.
struct InHand {
    work: Work,
    left: VecDeque<Change>,
    written: Vec<Arc<Value>>,
}

/// The queue, job and podgroup controllers.
pub struct Controllers {
    world: World,
    work_queue: WorkQueue<Work>,
    in_hand: Vec<InHand>,
    /// Whose change was asked for last.
    asking: usize,
}

impl Controllers {
    /// Controllers beside a scheduler of that configuration, that know nothing yet.
    pub fn new(conf: &Conf) -> Self {
        let schedulers = ["volcano", "basalt", "default-scheduler"];
        let mut work_queue = WorkQueue::default();
        work_queue.add(Work::StandardQueues, Timestamp::UNIX_EPOCH);
        let mut world = World::new(schedulers.into_iter().map(str::to_owned).collect::<BTreeSet<_>>());
        let locks = conf
            .tiers
            .iter()
            .flatten()
            .any(|plugin| plugin.name == "node_reservation");
        // Nothing is known yet, so there is nothing to look at.
        world.set_reserving(locks.then(Rules::default));
        Self {
            world,
            work_queue,
            in_hand: Vec::new(),
            asking: 0,
        }
    }

    fn ask(&mut self, work: Vec<Work>, now: Timestamp) {
        for work in work {
            let at = now.saturating_add(self.world.pause(&work)).unwrap_or(now);
            self.work_queue.add(work, at);
        }
    }

    fn upsert(&mut self, kind: Kind, typed: &Typed, origin: Origin) -> Vec<Work> {
        let world = &mut self.world;
        match typed {
            Typed::Job(job) => world.upsert_job((**job).clone(), origin),
            Typed::Pod(pod) => world.upsert_pod((**pod).clone(), origin),
            Typed::PodGroup(group) => world.upsert_group((**group).clone(), origin),
            Typed::Queue(queue) => world.upsert_queue((**queue).clone(), origin),
            Typed::Command(command) => world.upsert_command((**command).clone(), origin),
            Typed::Node(node) => world.upsert_node(node),
            Typed::Companion(meta) => world.upsert_companion(kind.name(), meta, origin),
            Typed::Other => Vec::new(),
        }
    }

    fn remove(&mut self, report: &Report) -> Vec<Work> {
        let key = NamespacedName::new(&report.key.namespace, &report.key.name);
        let uid = string_at(&report.object, "/metadata/uid");
        let world = &mut self.world;
        match report.key.kind {
            Kind::Job => {
                let work = world.remove_job(&key, uid);
                if world.job_view(&key).is_none() {
                    self.work_queue.forget(&Work::Job(key));
                }
                work
            }
            Kind::Pod => world.remove_pod(&key, uid),
            Kind::PodGroup => world.remove_group(&key, uid),
            Kind::Queue => world.remove_queue(&key, uid),
            Kind::Command => world.remove_command(&key, uid),
            Kind::Node => world.remove_node(&key.name),
            kind if kind.is_companion() => world.remove_companion(kind.name(), &key, uid),
            _ => Vec::new(),
        }
    }

    /// Takes work into free hands.
    fn pick_up(&mut self, now: Timestamp, hands: usize) {
        while self.in_hand.len() < hands {
            let Some(work) = self.work_queue.take(now) else { return };
            let outcome = self.world.look_at(&work, now);
            if let Some(at) = outcome.wake_at {
                self.work_queue.add(work.clone(), at);
            }
            self.ask(outcome.queues.into_iter().map(Work::Queue).collect(), now);
            if outcome.changes.is_empty() {
                self.work_queue.done(work, false, now);
            } else {
                self.in_hand.push(InHand {
                    work,
                    left: outcome.changes.into(),
                    written: Vec::new(),
                });
            }
        }
    }

    /// What was written is known at once, without waiting for the watch.
    fn finish(&mut self, at: usize, failed: bool, now: Timestamp) {
        let done = self.in_hand.remove(at);
        for object in done.written {
            let Some(kind) = Kind::of(string_at(&object, "/kind")) else {
                continue;
            };
            if let Ok(typed) = Typed::read(kind, &object) {
                let work = self.upsert(kind, &typed, Origin::Answer);
                self.ask(work, now);
            }
        }
        self.work_queue.done(done.work, failed, now);
    }
}

impl Actor for Controllers {
    fn name(&self) -> &'static str {
        "controllers"
    }

    fn watches(&self) -> &'static [Kind] {
        &[
            Kind::Job,
            Kind::Pod,
            Kind::PodGroup,
            Kind::Queue,
            Kind::Command,
            Kind::Node,
            Kind::PersistentVolumeClaim,
            Kind::Service,
            Kind::ConfigMap,
            Kind::Secret,
            Kind::NetworkPolicy,
        ]
    }

    fn take_in(&mut self, report: &Report, now: Timestamp) {
        let work = if report.gone {
            self.remove(report)
        } else {
            self.upsert(report.key.kind, &report.typed, Origin::Watch)
        };
        self.ask(work, now);
    }

    fn listed(&mut self, kind: Kind, now: Timestamp) {
        let work = match kind {
            Kind::Job => self.world.forget_unseen_jobs(),
            Kind::Pod => self.world.forget_unseen_pods(),
            Kind::PodGroup => self.world.forget_unseen_groups(),
            Kind::Queue => self.world.forget_unseen_queues(),
            kind if kind.is_companion() => self.world.forget_unseen_companions(kind.name()),
            _ => Vec::new(),
        };
        self.ask(work, now);
    }

    fn next(&mut self, _: &Api, now: Timestamp, whim: &mut Whim) -> Option<Request> {
        self.pick_up(now, if whim.is_none() { 1 } else { HANDS });
        self.asking = whim.below(self.in_hand.len());
        self.in_hand.get(self.asking)?.left.front().map(request)
    }

    fn answered(&mut self, _: &Request, answer: &Answer, now: Timestamp) {
        let Some(hand) = self.in_hand.get_mut(self.asking) else {
            return;
        };
        let Some(change) = hand.left.pop_front() else { return };
        let failed = match (&change, answer) {
            (Change::Event { .. }, _) | (Change::Delete { .. }, Ok(_)) => false,
            (_, Ok(object)) => {
                hand.written.push(object.clone());
                false
            }
            (change, Err(refusal)) => change.refusal_meaning(&refusal.reason, false) != RefusalMeaning::Done,
        };
        if failed || hand.left.is_empty() {
            self.finish(self.asking, failed, now);
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.work_queue.next_due()
    }
}

/// Returns the request that carries a change out.
pub(super) fn request(change: &Change) -> Request {
    let known = |target: &ObjectRef| Key::of(target).unwrap_or_else(|| Key::new(Kind::Namespace, "", &target.name));
    match change {
        Change::Create { target, object } => Request::Create {
            key: known(target),
            object: object.clone(),
        },
        Change::Patch {
            target,
            subresource,
            uid,
            resource_version,
            merge,
        } => {
            let conditions = [
                ("uid", uid.as_deref()),
                ("resourceVersion", resource_version.as_deref()),
            ];
            Request::Patch {
                key: known(target),
                status: subresource.is_some(),
                merge: with_conditions(merge.clone(), &conditions),
            }
        }
        Change::Strategic {
            target,
            subresource,
            uid,
            patch,
        } => Request::Strategic {
            key: known(target),
            status: subresource.is_some(),
            patch: with_conditions(patch.clone(), &[("uid", Some(uid))]),
        },
        Change::Delete {
            target,
            uid,
            resource_version,
        } => Request::Delete {
            key: known(target),
            uid: Some(uid.clone()),
            revision: resource_version.clone(),
            grace: None,
        },
        Change::Event { regarding, reason, .. } => Request::Event {
            key: known(regarding),
            reason: reason.clone(),
        },
    }
}

/// A merge patch that is refused where the object is another one.
pub(super) fn with_conditions(mut merge: Value, conditions: &[(&str, Option<&str>)]) -> Value {
    for (name, value) in conditions {
        if let Some(value) = value {
            merge["metadata"][*name] = json!(value);
        }
    }
    merge
}
