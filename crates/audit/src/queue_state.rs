//! What a queue's state must be, worked out from raw objects alone.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::read::{ended, job_uid, leaving, meta, text};
use crate::{Finding, Invariant, Objects};

const ROOT: &str = "root";
const GROUP: &str = "scheduling.k8s.io/group-name";
const QUEUE: &str = "scheduling.volcano.sh/queue-name";

/// The queue above; empty for root.
pub(crate) fn parent(queue: &Value) -> &str {
    match (meta(queue, "name"), text(queue, &["spec", "parent"])) {
        (ROOT, _) => "",
        (_, "") => ROOT,
        (_, parent) => parent,
    }
}

/// What is known of the queues at one moment.
pub(crate) struct Queues<'a> {
    by_name: BTreeMap<&'a str, &'a Value>,
    children: BTreeMap<&'a str, Vec<&'a str>>,
    /// What holds a queue: something that was delivered to it and has not ended.
    held_by: BTreeMap<&'a str, String>,
}

impl<'a> Queues<'a> {
    pub(crate) fn read(objects: &'a Objects) -> Self {
        let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for queue in &objects.queues {
            children.entry(parent(queue)).or_default().push(meta(queue, "name"));
        }
        Self {
            by_name: objects
                .queues
                .iter()
                .map(|queue| (meta(queue, "name"), queue))
                .collect(),
            children,
            held_by: held_by(objects),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn children(&self, name: &str) -> &[&'a str] {
        self.children.get(name).map_or(&[], Vec::as_slice)
    }

    /// The first thing that was found to hold a queue.
    pub(crate) fn held_by(&self, name: &str) -> Option<&str> {
        self.held_by.get(name).map(String::as_str)
    }

    /// A queue and those above it, from itself upwards; a cycle ends where it closes.
    pub(crate) fn line(&self, name: &str) -> Vec<&'a str> {
        let mut line: Vec<&str> = Vec::new();
        let mut next = self.get(name);
        while let Some(here) = next.filter(|here| !line.contains(&meta(here, "name"))) {
            line.push(meta(here, "name"));
            next = self.get(parent(here));
        }
        line
    }

    /// The queue, itself or above, that asks for it to be closed.
    pub(crate) fn closed_by(&self, name: &str) -> Option<&'a str> {
        let mut seen = BTreeSet::new();
        let mut here = self.get(name)?;
        loop {
            let own = meta(here, "name");
            if own != ROOT && text(here, &["spec", "state"]) == "Closed" {
                return Some(own);
            }
            if !seen.insert(own) {
                return None;
            }
            here = self.get(parent(here))?;
        }
    }

    /// The state that a queue must have once everyone has seen everything.
    pub(crate) fn state(&self, name: &str) -> &'static str {
        self.state_below(name, &mut BTreeSet::new())
    }

    fn state_below(&self, name: &str, seen: &mut BTreeSet<String>) -> &'static str {
        if self.closed_by(name).is_none() {
            return "Open";
        }
        let fresh = seen.insert(name.to_owned());
        let below = |child: &&str| self.state_below(child, seen) == "Closed";
        if self.held_by(name).is_none() && (!fresh || self.children(name).iter().all(below)) {
            "Closed"
        } else {
            "Closing"
        }
    }
}

/// Whether a Job has ended for good; an aborted one can resume.
pub(crate) fn job_ended(job: &Value) -> bool {
    matches!(
        text(job, &["status", "state", "phase"]),
        "Completed" | "Failed" | "Terminated"
    )
}

fn held_by(objects: &Objects) -> BTreeMap<&str, String> {
    let mut held: BTreeMap<&str, String> = BTreeMap::new();
    let mut hold = |queue, what: &str, object: &Value| {
        held.entry(queue)
            .or_insert_with(|| format!("{what} {}/{}", meta(object, "namespace"), meta(object, "name")));
    };
    for job in objects.jobs.iter().filter(|job| !job_ended(job)) {
        hold(text(job, &["spec", "queue"]), "Job", job);
    }
    let pods = pods_of_groups(objects);
    for pod in objects.pods.iter().filter(|pod| !ended(pod)) {
        if text(pod, &["metadata", "annotations", GROUP]).is_empty() {
            hold(text(pod, &["metadata", "annotations", QUEUE]), "Pod", pod);
        }
    }
    for group in &objects.pod_groups {
        let queue = text(group, &["spec", "queue"]);
        let place = (meta(group, "namespace"), meta(group, "name"));
        let (count, living) = pods.get(&place).copied().unwrap_or_default();
        match living {
            Some(pod) => hold(queue, "Pod", pod),
            None if count > 0 || text(group, &["status", "phase"]) == "Completed" => {}
            None => hold(queue, "PodGroup", group),
        }
    }
    held
}

/// Pods of each group, by its namespace and name: how many, and one that lives.
fn pods_of_groups(objects: &Objects) -> BTreeMap<(&str, &str), (usize, Option<&Value>)> {
    let mut pods: BTreeMap<(&str, &str), (usize, Option<&Value>)> = BTreeMap::new();
    for pod in &objects.pods {
        let group = text(pod, &["metadata", "annotations", GROUP]);
        if !group.is_empty() {
            let entry = pods.entry((meta(pod, "namespace"), group)).or_default();
            entry.0 += 1;
            entry.1 = entry.1.or((!ended(pod)).then_some(pod));
        }
    }
    pods
}

/// Whether a PodGroup has ended: it says so, or all the pods that it had have.
pub(crate) fn group_ended(group: &Value, objects: &Objects) -> bool {
    let pods = pods_of_groups(objects);
    let place = (meta(group, "namespace"), meta(group, "name"));
    let (count, living) = pods.get(&place).copied().unwrap_or_default();
    living.is_none() && (count > 0 || text(group, &["status", "phase"]) == "Completed")
}

/// L1: at rest, every queue says what it must.
pub(crate) fn settled(objects: &Objects, findings: &mut Vec<Finding>) {
    let queues = Queues::read(objects);
    for queue in objects.queues.iter().filter(|queue| !leaving(queue)) {
        let name = meta(queue, "name");
        let (is, must) = (text(queue, &["status", "state"]), queues.state(name));
        if is != must {
            let why = match (queues.closed_by(name), queues.held_by(name)) {
                (None, _) => "nobody wants it closed".to_owned(),
                (Some(by), None) => format!("queue {by} wants it closed"),
                (Some(by), Some(what)) => format!("queue {by} wants it closed, and {what} holds it"),
            };
            let message = format!("status.state is {is:?} and must be {must:?}: {why}");
            findings.push(Finding::new(Invariant::StatusFollowsFacts, "Queue", queue, message));
        }
    }
}

/// Whether an object belongs to a Job, or a pod, that is there: then it was accepted with that one.
pub(crate) fn follows_owner(objects: &Objects, group: &Value) -> bool {
    let queue = text(group, &["spec", "queue"]);
    if let Some(uid) = job_uid(group) {
        let same = |job: &Value| meta(job, "uid") == uid && text(job, &["spec", "queue"]) == queue;
        return objects.jobs.iter().any(same);
    }
    let owners = crate::read::list(group, &["metadata", "ownerReferences"]);
    owners.iter().any(|owner| {
        let uid = text(owner, &["uid"]);
        text(owner, &["kind"]) == "Pod" && objects.pods.iter().any(|pod| meta(pod, "uid") == uid)
    })
}
