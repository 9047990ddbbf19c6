//! Who is in which queue: Jobs, PodGroups that no Job stands for, and pods that no PodGroup stands for.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::json::{annotation, list_at, string_at};
use basalt_api::names;
use basalt_api::resource_kind::split_api_version;
use serde_json::Value;

/// Namespace and name.
type Key = (String, String);

/// Those in a queue that are not finished. Counting them costs nothing: there can be a hundred thousand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unfinished {
    jobs: BTreeSet<Key>,
    pods: BTreeSet<Key>,
    groups: BTreeSet<Key>,
}

impl Unfinished {
    fn of_kind(&mut self, kind: Kind) -> &mut BTreeSet<Key> {
        match kind {
            Kind::Job => &mut self.jobs,
            Kind::Pod => &mut self.pods,
            Kind::PodGroup => &mut self.groups,
        }
    }

    /// All of them.
    pub(crate) fn len(&self) -> usize {
        self.jobs()
            .saturating_add(self.pods.len())
            .saturating_add(self.groups.len())
    }

    /// The Jobs among them.
    pub(crate) fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// One of them in words, a Job if there is one.
    pub(crate) fn first(&self) -> Option<String> {
        let kinds = [("Job", &self.jobs), ("PodGroup", &self.groups), ("Pod", &self.pods)];
        kinds.into_iter().find_map(|(kind, keys)| {
            let (namespace, name) = keys.first()?;
            Some(format!("{kind} {namespace}/{name}"))
        })
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Job,
    Pod,
    PodGroup,
}

#[derive(Clone, Debug)]
struct Member {
    uid: String,
    queue: String,
    finished: bool,
}

/// Jobs, PodGroups and lone pods, and those of them that a queue still has to see through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holders {
    jobs: BTreeMap<Key, Member>,
    groups: BTreeMap<Key, Member>,
    /// Only pods that live, name a queue and have no PodGroup: few, however many pods there are.
    pods: BTreeMap<Key, Member>,
    unfinished: BTreeMap<String, Unfinished>,
}

/// The owners of an object that are Volcano Jobs.
pub(crate) fn job_owners(object: &Value) -> impl Iterator<Item = &Value> {
    let is_job = |owner: &&Value| {
        string_at(owner, "/kind") == "Job" && split_api_version(string_at(owner, "/apiVersion")).0 == names::BATCH_GROUP
    };
    list_at(object, "/metadata/ownerReferences").iter().filter(is_job)
}

/// The queue that a pod names, as long as no PodGroup speaks for it.
pub fn lone_pod_queue(pod: &Value) -> Option<&str> {
    let grouped = [names::GROUP_NAME, names::GROUP_NAME_ALIAS]
        .iter()
        .any(|key| !annotation(pod, key).is_empty());
    let queue = annotation(pod, names::QUEUE_NAME);
    (!grouped && !queue.is_empty()).then_some(queue)
}

fn key_of(object: &Value) -> Key {
    let part = |pointer| string_at(object, pointer).to_owned();
    (part("/metadata/namespace"), part("/metadata/name"))
}

fn member(object: &Value, finished: bool) -> Member {
    let queue = match string_at(object, "/spec/queue") {
        "" => names::DEFAULT_QUEUE,
        queue => queue,
    };
    Member {
        uid: string_at(object, "/metadata/uid").to_owned(),
        queue: queue.to_owned(),
        finished,
    }
}

impl Holders {
    /// An Aborted Job can be resumed, so it is not finished.
    pub(super) fn put_job(&mut self, job: &Value) {
        let phase = string_at(job, "/status/state/phase");
        let member = member(job, matches!(phase, "Completed" | "Failed" | "Terminated"));
        let key = key_of(job);
        self.count(Kind::Job, &key, Some(&member));
        self.jobs.insert(key, member);
    }

    pub(super) fn remove_job(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.count(Kind::Job, &key, None);
        self.jobs.remove(&key);
    }

    /// A group of a Job is not counted: its Job is.
    pub(super) fn put_group(&mut self, group: &Value) {
        let finished = string_at(group, "/status/phase") == "Completed" || job_owners(group).next().is_some();
        let member = member(group, finished);
        let key = key_of(group);
        self.count(Kind::PodGroup, &key, Some(&member));
        self.groups.insert(key, member);
    }

    pub(super) fn remove_group(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.count(Kind::PodGroup, &key, None);
        self.groups.remove(&key);
    }

    pub(super) fn put_pod(&mut self, pod: &Value) {
        let key = key_of(pod);
        let ended = matches!(string_at(pod, "/status/phase"), "Succeeded" | "Failed");
        let Some(queue) = lone_pod_queue(pod).filter(|_| !ended) else {
            self.forget_pod(key);
            return;
        };
        let member = Member {
            uid: string_at(pod, "/metadata/uid").to_owned(),
            queue: queue.to_owned(),
            finished: false,
        };
        self.count(Kind::Pod, &key, Some(&member));
        self.pods.insert(key, member);
    }

    pub(super) fn remove_pod(&mut self, namespace: &str, name: &str) {
        self.forget_pod((namespace.to_owned(), name.to_owned()));
    }

    fn forget_pod(&mut self, key: Key) {
        self.count(Kind::Pod, &key, None);
        self.pods.remove(&key);
    }

    /// Moves one from the queue that it was counted in to the one that it is in now.
    fn count(&mut self, kind: Kind, key: &Key, now: Option<&Member>) {
        let known = match kind {
            Kind::Job => &self.jobs,
            Kind::Pod => &self.pods,
            Kind::PodGroup => &self.groups,
        };
        if let Some(before) = known.get(key)
            && let Some(held) = self.unfinished.get_mut(&before.queue)
        {
            held.of_kind(kind).remove(key);
            if held.len() == 0 {
                self.unfinished.remove(&before.queue);
            }
        }
        if let Some(member) = now.filter(|member| !member.finished) {
            let held = self.unfinished.entry(member.queue.clone()).or_default();
            held.of_kind(kind).insert(key.clone());
        }
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = &Key> {
        self.jobs.keys()
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &Key> {
        self.groups.keys()
    }

    pub(super) fn pods(&self) -> impl Iterator<Item = &Key> {
        self.pods.keys()
    }

    /// Whether this very Job exists, in this queue.
    pub(crate) fn has_job(&self, namespace: &str, name: &str, uid: &str, queue: &str) -> bool {
        let job = self.jobs.get(&(namespace.to_owned(), name.to_owned()));
        job.is_some_and(|job| job.uid == uid && job.queue == queue)
    }

    /// Whether this very pod lives, in this queue, and waits for its PodGroup.
    pub(crate) fn has_pod(&self, namespace: &str, name: &str, uid: &str, queue: &str) -> bool {
        let pod = self.pods.get(&(namespace.to_owned(), name.to_owned()));
        pod.is_some_and(|pod| pod.uid == uid && pod.queue == queue)
    }

    /// Those in the queue that are not finished.
    pub(crate) fn unfinished(&self, queue: &str) -> &Unfinished {
        static NONE: Unfinished = Unfinished {
            jobs: BTreeSet::new(),
            pods: BTreeSet::new(),
            groups: BTreeSet::new(),
        };
        self.unfinished.get(queue).unwrap_or(&NONE)
    }
}
