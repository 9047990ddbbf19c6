//! Jobs, pods and PodGroups, and where each counts.

use std::sync::Arc;

use basalt_api::podgroup::PodGroupPhase;
use basalt_api::slim::Pod;
use basalt_api::{Job, NamespacedName, PodGroup, names};
use kube::{Resource, ResourceExt};

use super::tallies::Thing;
use super::{Work, World};
use crate::cache::Origin;
use crate::key::Uid;
use crate::object;
use crate::pod::PodRecord;
use crate::queue::tally::Fact;

fn owner_uid(object: &impl Resource) -> Option<&str> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.as_str())
}

fn owner_job(object: &impl Resource) -> Option<NamespacedName> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    object::is_a::<Job>(owner).then(|| NamespacedName::new(&object.namespace().unwrap_or_default(), &owner.name))
}

/// A queue by its name; none means `default`.
pub(super) fn queue_named(name: &str) -> String {
    if name.is_empty() { names::DEFAULT_QUEUE } else { name }.to_owned()
}

/// The queue of a pod that has no PodGroup.
pub(super) fn queue_of_lone(pod: &PodRecord) -> Option<&str> {
    let ours = pod.marked || pod.plain.is_some();
    pod.queue.as_deref().or(ours.then_some(names::DEFAULT_QUEUE))
}

impl World {
    /// Takes in a Job; returns what has to be looked at.
    pub fn upsert_job(&mut self, job: Job, origin: Origin) -> Vec<Work> {
        let key = NamespacedName::of(&job);
        let before = self.jobs.get(&key).map(|job| queue_named(&job.spec.queue));
        let queue = queue_named(&job.spec.queue);
        if !self.jobs.upsert(job, origin) {
            return Vec::new();
        }
        if let Some(before) = before.filter(|before| *before != queue) {
            self.jobs_of_queue.remove(&before, &key);
        }
        self.jobs_of_queue.add(&queue, &key);
        self.note_job(&key, origin);
        let mut work = self.recount([Thing::Job(key.clone())]);
        work.push(Work::Job(key));
        work
    }

    /// A Job is gone.
    pub fn remove_job(&mut self, key: &NamespacedName, uid: &str) -> Vec<Work> {
        let uid = Uid::from(uid);
        self.jobs.bury(&uid);
        self.forget_job(key, &uid)
    }

    fn forget_job(&mut self, key: &NamespacedName, uid: &Uid) -> Vec<Work> {
        let Some(job) = self.jobs.forget(key, uid) else {
            return Vec::new();
        };
        self.jobs_of_queue.remove(&queue_named(&job.spec.queue), key);
        let orphans = self.unnote_job(key, &job);
        let mut work = self.recount([Thing::Job(key.clone())]);
        work.extend(orphans);
        work
    }

    /// Takes in a pod.
    pub fn upsert_pod(&mut self, pod: Pod, origin: Origin) -> Vec<Work> {
        let key = NamespacedName::of(&pod);
        let key = self.pods.shared_key(&key).unwrap_or_else(|| Arc::new(key));
        let (node, footprint) = (
            self.reserving.node(&pod),
            self.reserving.footprint(&pod, &self.schedulers),
        );
        let mut record = PodRecord::new(Arc::clone(&key), pod, &self.schedulers, &mut self.words);
        (record.node, record.footprint) = (node, footprint);
        let needs_group = record.plain.is_some();
        self.note_return(&record);
        let mut work = self.change_pod(&key, |world| {
            world.pods.upsert(record, origin);
        });
        if needs_group {
            work.push(Work::Pod((*key).clone()));
        }
        work
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, key: &NamespacedName, uid: &str) -> Vec<Work> {
        let uid = Uid::from(uid);
        self.note_loss(key, &uid);
        self.pods.bury(&uid);
        self.forget_pod(key, &uid)
    }

    fn forget_pod(&mut self, key: &NamespacedName, uid: &Uid) -> Vec<Work> {
        let owner = self.pods.get(key).and_then(|pod| pod.owner.clone());
        let heirs = self.heirs(key);
        let mut work = self.change_pod(key, |world| {
            world.pods.forget(key, uid);
        });
        work.extend(heirs);
        work.extend(self.idle_owner(&key.namespace, owner.as_deref()));
        work
    }

    /// Changes what is known of a pod, and all that follows from it.
    fn change_pod(&mut self, key: &NamespacedName, change: impl FnOnce(&mut Self)) -> Vec<Work> {
        let stay = self.stay(key);
        let before = self.link_pod(key, false);
        change(self);
        let after = self.link_pod(key, true); // of a removal, too: another incarnation may be there already
        let moved = self.move_pod(stay, key);
        let things = [&before.group, &after.group].into_iter().flatten().cloned();
        let mut work = self.recount(things.map(Thing::Group).chain([Thing::Pod(key.clone())]));
        work.extend([before.job, after.job].into_iter().flatten().map(Work::Job));
        work.extend(moved);
        work
    }

    /// Enters a pod into the indexes, or takes it out; returns who looks at it.
    fn link_pod(&mut self, key: &NamespacedName, enter: bool) -> Kin {
        let Some(pod) = self.pods.get(key) else {
            return Kin::default();
        };
        let apply = |index: &mut super::Index<Arc<NamespacedName>>, owner: &str| {
            if enter {
                index.add(owner, &pod.key);
            } else {
                index.remove(owner, &pod.key);
            }
        };
        if let Some(owner) = &pod.owner {
            apply(&mut self.pods_of_owner, owner);
        }
        let group = pod.group_key();
        if let Some(group) = &group {
            let name = group.to_string();
            apply(&mut self.pods_of_group, &name);
            if !pod.is_finished() {
                let living = self.living_of_group.entry(name.clone()).or_default();
                *living = if enter {
                    living.saturating_add(1)
                } else {
                    living.saturating_sub(1)
                };
                if *living == 0 {
                    self.living_of_group.remove(&name);
                }
            }
        }
        Kin {
            job: pod.job_key(),
            group,
        }
    }

    /// Takes in a PodGroup.
    pub fn upsert_group(&mut self, group: PodGroup, origin: Origin) -> Vec<Work> {
        let key = NamespacedName::of(&group);
        let known = self.groups.get(&key);
        let is_new = known.is_none();
        let before = known.map(|group| (queue_named(&group.spec.queue), owner_job(group)));
        let (queue, job) = (queue_named(&group.spec.queue), owner_job(&group));
        let same = known
            .is_some_and(|known| queue_named(&known.spec.queue) == queue && known.preemptable() == group.preemptable());
        let stays = if same { Vec::new() } else { self.stays_in(&key) };
        if !self.groups.upsert(group, origin) {
            return Vec::new();
        }
        let moved = self.move_pods(stays);
        let (before_queue, before_job) = before.unzip();
        if let Some(before) = before_queue.filter(|before| *before != queue) {
            self.groups_of_queue.remove(&before, &key);
        }
        self.groups_of_queue.add(&queue, &key);
        let before_job = before_job.flatten().filter(|before| job.as_ref() != Some(before));
        let jobs = job.iter().chain(&before_job).cloned().map(Thing::Job);
        let pods = if is_new { self.pods_in(&key) } else { Vec::new() };
        let things: Vec<Thing> = jobs
            .chain([Thing::Group(key)])
            .chain(pods.into_iter().map(Thing::Pod))
            .collect();
        let mut work = self.recount(things);
        work.extend(job.map(Work::Job));
        work.extend(moved);
        work
    }

    /// A PodGroup is gone; a Job may have to make it anew, and so may pods.
    pub fn remove_group(&mut self, key: &NamespacedName, uid: &str) -> Vec<Work> {
        let uid = Uid::from(uid);
        self.groups.bury(&uid);
        self.forget_group(key, &uid)
    }

    fn forget_group(&mut self, key: &NamespacedName, uid: &Uid) -> Vec<Work> {
        let stays = self.stays_in(key);
        let Some(group) = self.groups.forget(key, uid) else {
            return Vec::new();
        };
        let moved = self.move_pods(stays);
        self.groups_of_queue.remove(&queue_named(&group.spec.queue), key);
        let job = owner_job(&group);
        let pods = self.pods_in(key);
        let things = job.iter().cloned().map(Thing::Job).chain([Thing::Group(key.clone())]);
        let things: Vec<Thing> = things.chain(pods.iter().cloned().map(Thing::Pod)).collect();
        let mut work = self.recount(things);
        work.extend(job.map(Work::Job));
        work.extend(pods.into_iter().map(Work::Pod));
        work.extend(moved);
        work
    }

    pub(super) fn pods_in(&self, group: &NamespacedName) -> Vec<NamespacedName> {
        let name = group.to_string();
        let pods = self.pods_of_group.of(&name);
        pods.map(|key| (**key).clone()).collect()
    }

    /// Counts things anew; returns the queues to look at, and those above them that wait for them to be empty.
    fn recount(&mut self, things: impl IntoIterator<Item = Thing>) -> Vec<Work> {
        let mut work = Vec::new();
        for thing in things {
            let fact = match &thing {
                Thing::Job(key) => self.job_fact(key),
                Thing::Group(key) => self.group_fact(key),
                Thing::Pod(key) => self.pod_fact(key),
            };
            for queue in self.tallies.enter(thing, fact) {
                work.extend(self.settle(&queue).map(Work::Queue));
                work.push(Work::Queue(queue));
            }
        }
        work
    }

    fn job_fact(&self, key: &NamespacedName) -> Option<(String, Fact)> {
        let job = self.jobs.get(key)?;
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let group = self
            .groups
            .get(&key.in_same_namespace(&names::job_pod_group(&key.name, uid)));
        let phase = |group: &PodGroup| group.status.as_ref().and_then(|status| status.phase);
        let let_in =
            group.is_some_and(|group| owner_uid(group) == Some(uid) && phase(group) == Some(PodGroupPhase::Inqueue));
        let fact = Fact::Job {
            phase: job.phase(),
            let_in,
        };
        Some((queue_named(&job.spec.queue), fact))
    }

    fn group_fact(&self, key: &NamespacedName) -> Option<(String, Fact)> {
        let group = self.groups.get(key)?;
        let name = key.to_string();
        let pods = self.pods_of_group.count(&name);
        let living = self.living_of_group.get(&name).copied().unwrap_or(0);
        let completed = group.status.as_ref().and_then(|status| status.phase) == Some(PodGroupPhase::Completed);
        let fact = Fact::Group {
            foreign: owner_job(group).is_none(),
            done: living == 0 && (completed || pods > 0),
        };
        Some((queue_named(&group.spec.queue), fact))
    }

    /// A pod counts by itself as long as no PodGroup speaks for it.
    fn pod_fact(&self, key: &NamespacedName) -> Option<(String, Fact)> {
        let pod = self.pods.get(key).filter(|pod| !pod.is_finished())?;
        if pod.group_key().is_some_and(|group| self.groups.get(&group).is_some()) {
            return None;
        }
        Some((queue_of_lone(pod)?.to_owned(), Fact::Pod))
    }

    /// Right after a whole report of the watch: forgets jobs that it did not name.
    pub fn forget_unseen_jobs(&mut self) -> Vec<Work> {
        let unseen = self.jobs.take_unseen();
        unseen.iter().flat_map(|(key, uid)| self.forget_job(key, uid)).collect()
    }

    /// Right after a whole report of the watch: forgets pods that it did not name.
    pub fn forget_unseen_pods(&mut self) -> Vec<Work> {
        let unseen = self.pods.take_unseen();
        unseen.iter().flat_map(|(key, uid)| self.forget_pod(key, uid)).collect()
    }

    /// Right after a whole report of the watch: forgets groups that it did not name.
    pub fn forget_unseen_groups(&mut self) -> Vec<Work> {
        let unseen = self.groups.take_unseen();
        unseen
            .iter()
            .flat_map(|(key, uid)| self.forget_group(key, uid))
            .collect()
    }
}

/// Who looks at a pod.
#[derive(Default)]
struct Kin {
    job: Option<NamespacedName>,
    group: Option<NamespacedName>,
}
