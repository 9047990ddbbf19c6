//! Who is in which queue: Jobs, and PodGroups that no Job stands for.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::names;
use serde_json::Value;

use crate::read::{items, text};

/// Namespace and name.
type Key = (String, String);

/// One that is in a queue and not finished.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    /// `Job` or `PodGroup`.
    pub(crate) kind: &'static str,
    /// Namespace and name.
    pub(crate) key: Key,
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.key.0, self.key.1)
    }
}

#[derive(Clone, Debug)]
struct Member {
    uid: String,
    queue: String,
    finished: bool,
}

/// Jobs and PodGroups, and those of them that a queue still has to see through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holders {
    jobs: BTreeMap<Key, Member>,
    groups: BTreeMap<Key, Member>,
    unfinished: BTreeMap<String, BTreeSet<Held>>,
}

/// The owners of an object that are Volcano Jobs.
pub(crate) fn job_owners(object: &Value) -> impl Iterator<Item = &Value> {
    let is_job =
        |owner: &&Value| text(owner, "/kind") == "Job" && text(owner, "/apiVersion").starts_with("batch.volcano.sh/");
    items(object, "/metadata/ownerReferences").iter().filter(is_job)
}

fn key_of(object: &Value) -> Key {
    let part = |pointer| text(object, pointer).to_owned();
    (part("/metadata/namespace"), part("/metadata/name"))
}

fn member(object: &Value, finished: bool) -> Member {
    let queue = match text(object, "/spec/queue") {
        "" => names::DEFAULT_QUEUE,
        queue => queue,
    };
    Member {
        uid: text(object, "/metadata/uid").to_owned(),
        queue: queue.to_owned(),
        finished,
    }
}

impl Holders {
    /// An Aborted Job can be resumed, so it is not finished.
    pub(super) fn put_job(&mut self, job: &Value) {
        let phase = text(job, "/status/state/phase");
        let member = member(job, matches!(phase, "Completed" | "Failed" | "Terminated"));
        let key = key_of(job);
        self.count("Job", &key, Some(&member));
        self.jobs.insert(key, member);
    }

    pub(super) fn remove_job(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.count("Job", &key, None);
        self.jobs.remove(&key);
    }

    /// A group of a Job is not counted: its Job is.
    pub(super) fn put_group(&mut self, group: &Value) {
        let finished = text(group, "/status/phase") == "Completed" || job_owners(group).next().is_some();
        let member = member(group, finished);
        let key = key_of(group);
        self.count("PodGroup", &key, Some(&member));
        self.groups.insert(key, member);
    }

    pub(super) fn remove_group(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.count("PodGroup", &key, None);
        self.groups.remove(&key);
    }

    /// Moves one from the queue that it was counted in to the one that it is in now.
    fn count(&mut self, kind: &'static str, key: &Key, now: Option<&Member>) {
        let known = if kind == "Job" { &self.jobs } else { &self.groups };
        let held = Held { kind, key: key.clone() };
        if let Some(before) = known.get(key)
            && let Some(set) = self.unfinished.get_mut(&before.queue)
        {
            set.remove(&held);
            if set.is_empty() {
                self.unfinished.remove(&before.queue);
            }
        }
        if let Some(member) = now.filter(|member| !member.finished) {
            self.unfinished.entry(member.queue.clone()).or_default().insert(held);
        }
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = &Key> {
        self.jobs.keys()
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &Key> {
        self.groups.keys()
    }

    /// Whether this very Job exists, in this queue.
    pub(crate) fn has_job(&self, namespace: &str, name: &str, uid: &str, queue: &str) -> bool {
        let job = self.jobs.get(&(namespace.to_owned(), name.to_owned()));
        job.is_some_and(|job| job.uid == uid && job.queue == queue)
    }

    /// Those in the queue that are not finished: Jobs before PodGroups.
    pub(crate) fn unfinished(&self, queue: &str) -> impl Iterator<Item = &Held> {
        self.unfinished.get(queue).into_iter().flatten()
    }
}
