//! All that the controllers know, with the indexes that make a view without searching.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::slim::Pod;
use basalt_api::{Job, PodGroup, Queue, names};
use jiff::Timestamp;
use kube::{Resource, ResourceExt};

use crate::cache::{Cache, Origin};
use crate::change::Outcome;
use crate::job::{self, JobView};
use crate::key::ObjectKey;
use crate::podgroup::{self, PodView};
use crate::queue::{self, GroupFacts, QueueView};

/// Keys by what they belong to.
#[derive(Debug, Default)]
struct Index(BTreeMap<String, BTreeSet<ObjectKey>>);

impl Index {
    fn add(&mut self, owner: &str, key: &ObjectKey) {
        self.0.entry(owner.to_owned()).or_default().insert(key.clone());
    }

    fn remove(&mut self, owner: &str, key: &ObjectKey) {
        if let Some(keys) = self.0.get_mut(owner) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(owner);
            }
        }
    }

    fn of(&self, owner: &str) -> impl Iterator<Item = &ObjectKey> {
        self.0.get(owner).into_iter().flatten()
    }
}

/// Something that has to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// `root` and `default` must exist.
    StandardQueues,
    /// A Job.
    Job(ObjectKey),
    /// A pod that may need a PodGroup.
    Pod(ObjectKey),
    /// A queue's state and counters.
    Queue(String),
}

/// The objects that the controllers watch.
#[derive(Debug, Default)]
pub struct World {
    jobs: Cache<Job>,
    pods: Cache<Pod>,
    groups: Cache<PodGroup>,
    queues: Cache<Queue>,
    priorities: BTreeMap<String, i32>,
    /// Schedulers whose pods get a PodGroup.
    schedulers: BTreeSet<String>,
    pods_of_owner: Index,
    pods_of_group: Index,
    jobs_of_queue: Index,
    groups_of_queue: Index,
}

fn owner_uid(object: &impl Resource) -> Option<&str> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| owner.uid.as_str())
}

fn owner_job(object: &impl Resource) -> Option<ObjectKey> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    let is_job = owner.kind == Job::kind(&()) && owner.api_version == Job::api_version(&());
    is_job.then(|| ObjectKey {
        namespace: object.namespace().unwrap_or_default(),
        name: owner.name.clone(),
    })
}

fn group_of(pod: &Pod) -> Option<String> {
    let name = pod.pod_group().filter(|name| !name.is_empty())?;
    Some(format!("{}/{name}", pod.namespace().unwrap_or_default()))
}

/// A pod as the controllers keep it: with a hundred thousand of them, what nobody reads here adds up. A pod without a
/// node may still need a PodGroup, for which more is read.
fn lean(mut pod: Pod) -> Pod {
    pod.status.conditions = Vec::new();
    pod.status
        .container_statuses
        .retain(|container| container.state.terminated.is_some());
    pod.status.container_statuses.shrink_to_fit();
    if !pod.spec.node_name.is_empty() {
        pod.metadata.labels = None;
        if let Some(annotations) = &mut pod.metadata.annotations {
            annotations.retain(|key, _| key == names::GROUP_NAME || key == names::GROUP_NAME_ALIAS);
        }
        pod.spec = basalt_api::slim::PodSpec {
            node_name: pod.spec.node_name,
            ..Default::default()
        };
    }
    pod
}

impl World {
    /// An empty world in which pods of `schedulers` get PodGroups.
    pub fn new(schedulers: BTreeSet<String>) -> Self {
        Self {
            schedulers,
            ..Self::default()
        }
    }

    /// Takes in a Job; returns what has to be looked at.
    pub fn upsert_job(&mut self, job: Job, origin: Origin) -> Vec<Work> {
        let key = ObjectKey::of(&job);
        let before = self.jobs.get(&key).map(|job| job.spec.queue.clone());
        let queue = job.spec.queue.clone();
        if !self.jobs.upsert(job, origin) {
            return Vec::new();
        }
        if let Some(before) = before.as_deref().filter(|before| *before != queue) {
            self.jobs_of_queue.remove(before, &key);
        }
        self.jobs_of_queue.add(&queue, &key);
        vec![Work::Job(key), Work::Queue(queue)]
    }

    /// A Job is gone.
    pub fn remove_job(&mut self, key: &ObjectKey, uid: &str) -> Vec<Work> {
        self.jobs.bury(uid);
        self.forget_job(key, uid)
    }

    fn forget_job(&mut self, key: &ObjectKey, uid: &str) -> Vec<Work> {
        let Some(job) = self.jobs.forget(key, uid) else {
            return Vec::new();
        };
        self.jobs_of_queue.remove(&job.spec.queue, key);
        vec![Work::Queue(job.spec.queue)]
    }

    /// Takes in a pod.
    pub fn upsert_pod(&mut self, pod: Pod, origin: Origin) -> Vec<Work> {
        let key = ObjectKey::of(&pod);
        let mut work = self.unlink_pod(&key);
        let needs_group = podgroup::concerns(&pod, &self.schedulers);
        self.pods.upsert(lean(pod), origin);
        work.extend(self.link_pod(&key));
        if needs_group {
            work.push(Work::Pod(key));
        }
        work
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, key: &ObjectKey, uid: &str) -> Vec<Work> {
        self.pods.bury(uid);
        self.forget_pod(key, uid)
    }

    fn forget_pod(&mut self, key: &ObjectKey, uid: &str) -> Vec<Work> {
        let work = self.unlink_pod(key);
        self.pods.forget(key, uid);
        let _ = self.link_pod(key); // another incarnation may be there already
        work
    }

    fn unlink_pod(&mut self, key: &ObjectKey) -> Vec<Work> {
        let Some(pod) = self.pods.get(key) else {
            return Vec::new();
        };
        if let Some(owner) = owner_uid(pod) {
            self.pods_of_owner.remove(owner, key);
        }
        if let Some(group) = group_of(pod) {
            self.pods_of_group.remove(&group, key);
        }
        self.concerned_by(pod)
    }

    fn link_pod(&mut self, key: &ObjectKey) -> Vec<Work> {
        let Some(pod) = self.pods.get(key) else {
            return Vec::new();
        };
        if let Some(owner) = owner_uid(pod) {
            self.pods_of_owner.add(owner, key);
        }
        if let Some(group) = group_of(pod) {
            self.pods_of_group.add(&group, key);
        }
        self.concerned_by(pod)
    }

    /// Who looks at a pod: its Job, and the queue of its group.
    fn concerned_by(&self, pod: &Pod) -> Vec<Work> {
        let job = owner_job(pod).map(Work::Job);
        let group = pod.pod_group().map(|name| ObjectKey {
            namespace: pod.namespace().unwrap_or_default(),
            name: name.to_owned(),
        });
        let queue = group
            .and_then(|group| self.groups.get(&group))
            .map(|group| Work::Queue(group.spec.queue.clone()));
        job.into_iter().chain(queue).collect()
    }

    /// Takes in a PodGroup.
    pub fn upsert_group(&mut self, group: PodGroup, origin: Origin) -> Vec<Work> {
        let key = ObjectKey::of(&group);
        let before = self.groups.get(&key).map(|group| group.spec.queue.clone());
        let queue = group.spec.queue.clone();
        let job = owner_job(&group);
        if !self.groups.upsert(group, origin) {
            return Vec::new();
        }
        let mut work = vec![Work::Queue(queue.clone())];
        if let Some(before) = before.filter(|before| *before != queue) {
            self.groups_of_queue.remove(&before, &key);
            work.push(Work::Queue(before));
        }
        self.groups_of_queue.add(&queue, &key);
        work.extend(job.map(Work::Job));
        work
    }

    /// A PodGroup is gone; a Job may have to make it anew, and so may pods.
    pub fn remove_group(&mut self, key: &ObjectKey, uid: &str) -> Vec<Work> {
        self.groups.bury(uid);
        self.forget_group(key, uid)
    }

    fn forget_group(&mut self, key: &ObjectKey, uid: &str) -> Vec<Work> {
        let Some(group) = self.groups.forget(key, uid) else {
            return Vec::new();
        };
        self.groups_of_queue.remove(&group.spec.queue, key);
        let job = owner_job(&group).map(Work::Job);
        let pods: Vec<Work> = self
            .pods_of_group
            .of(&key.to_string())
            .cloned()
            .map(Work::Pod)
            .collect();
        std::iter::once(Work::Queue(group.spec.queue))
            .chain(job)
            .chain(pods)
            .collect()
    }

    /// Takes in a queue; its kin look at each other's state.
    pub fn upsert_queue(&mut self, queue: Queue, origin: Origin) -> Vec<Work> {
        let key = ObjectKey::of(&queue);
        if !self.queues.upsert(queue, origin) {
            return Vec::new();
        }
        self.kin(&key.name)
    }

    /// A queue is gone.
    pub fn remove_queue(&mut self, key: &ObjectKey, uid: &str) -> Vec<Work> {
        self.queues.bury(uid);
        self.forget_queue(key, uid)
    }

    fn forget_queue(&mut self, key: &ObjectKey, uid: &str) -> Vec<Work> {
        let kin = self.kin(&key.name);
        self.queues.forget(key, uid);
        kin.into_iter().chain([Work::StandardQueues]).collect()
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

    /// Right after a whole report of the watch: forgets queues that it did not name.
    pub fn forget_unseen_queues(&mut self) -> Vec<Work> {
        let unseen = self.queues.take_unseen();
        unseen
            .iter()
            .flat_map(|(key, uid)| self.forget_queue(key, uid))
            .collect()
    }

    fn kin(&self, name: &str) -> Vec<Work> {
        let parent = self.queue(name).and_then(Queue::parent).map(str::to_owned);
        let children = self.children(name).into_iter().map(ResourceExt::name_any);
        std::iter::once(name.to_owned())
            .chain(parent)
            .chain(children)
            .map(Work::Queue)
            .collect()
    }

    fn queue(&self, name: &str) -> Option<&Queue> {
        self.queues.get(&ObjectKey {
            namespace: String::new(),
            name: name.to_owned(),
        })
    }

    fn children(&self, name: &str) -> Vec<&Queue> {
        self.queues
            .iter()
            .map(|(_, queue)| queue)
            .filter(|queue| queue.parent() == Some(name))
            .collect()
    }

    /// Whether a queue of that name exists.
    pub fn has_queue(&self, name: &str) -> bool {
        self.queue(name).is_some()
    }

    /// Notes the value of a priority class.
    pub fn set_priority(&mut self, name: String, value: i32) {
        self.priorities.insert(name, value);
    }

    /// Forgets a priority class.
    pub fn remove_priority(&mut self, name: &str) {
        self.priorities.remove(name);
    }

    /// What `work` asks for, decided from what is known; nothing where what it is about is gone.
    pub fn look_at(&self, work: &Work, now: Timestamp) -> Outcome {
        let outcome = match work {
            Work::StandardQueues => Some(queue::bootstrap(|name| self.has_queue(name))),
            Work::Job(key) => self.job_view(key).map(|view| job::reconcile(&view, now)),
            Work::Pod(key) => self.pod_view(key).map(|view| podgroup::reconcile(&view)),
            Work::Queue(name) => self.queue_view(name).map(|view| queue::reconcile(&view)),
        };
        outcome.unwrap_or_default()
    }

    /// What the job controller looks at.
    pub fn job_view(&self, key: &ObjectKey) -> Option<JobView<'_>> {
        let job = self.jobs.get(key)?;
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let group = names::job_pod_group(&key.name, uid);
        Some(JobView {
            job,
            pod_group: self.groups.get(&ObjectKey {
                namespace: key.namespace.clone(),
                name: group,
            }),
            pods: self
                .pods_of_owner
                .of(uid)
                .filter_map(|pod| self.pods.get(pod))
                .collect(),
            priorities: &self.priorities,
        })
    }

    /// What the podgroup controller looks at.
    pub fn pod_view(&self, key: &ObjectKey) -> Option<PodView<'_>> {
        let pod = self.pods.get(key)?;
        let name = podgroup::group_name(pod)?;
        let group = ObjectKey {
            namespace: key.namespace.clone(),
            name,
        };
        Some(PodView {
            pod,
            group_exists: self.groups.get(&group).is_some(),
            owner_annotations: None,
            schedulers: &self.schedulers,
        })
    }

    /// What the queue controller looks at.
    pub fn queue_view(&self, name: &str) -> Option<QueueView<'_>> {
        let queue = self.queue(name)?;
        let mut ancestors = Vec::new();
        let mut above = queue.parent();
        // A cycle must not hang us: no chain is longer than the number of queues.
        for _ in self.queues.keys() {
            let Some(parent) = above.and_then(|name| self.queue(name)) else {
                break;
            };
            ancestors.push(parent);
            above = parent.parent();
        }
        let facts = |key: &ObjectKey| {
            let group = self.groups.get(key)?;
            let members = key.to_string();
            let pods = || self.pods_of_group.of(&members).filter_map(|pod| self.pods.get(pod));
            Some(GroupFacts {
                group,
                pods: pods().count(),
                living: pods().filter(|pod| !pod.is_finished()).count(),
            })
        };
        Some(QueueView {
            queue,
            ancestors,
            children: self.children(name),
            jobs: self
                .jobs_of_queue
                .of(name)
                .filter_map(|key| self.jobs.get(key))
                .collect(),
            groups: self.groups_of_queue.of(name).filter_map(facts).collect(),
        })
    }
}
