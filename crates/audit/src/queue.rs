//! I8: a closed queue is empty. L1: the counters are those of the facts.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::read::{at, ended, job_uid, meta, number, text};
use crate::{Finding, Invariant, Objects};

const COUNTERS: [&str; 7] = [
    "unknown",
    "pending",
    "running",
    "inqueue",
    "completed",
    "failed",
    "aborted",
];
const GROUP: &str = "scheduling.k8s.io/group-name";

type Counts = BTreeMap<&'static str, i64>;

/// The counter that a job belongs to.
fn counter(phase: &str, inqueue: bool) -> &'static str {
    match phase {
        "" | "Pending" if inqueue => "inqueue",
        "" | "Pending" => "pending",
        "Completed" => "completed",
        "Failed" | "Terminated" => "failed",
        "Aborted" => "aborted",
        _ => "running",
    }
}

/// Facts about one queue.
#[derive(Default)]
struct Facts {
    counts: Counts,
    unfinished_jobs: i64,
    live_pods: i64,
}

fn facts(objects: &Objects) -> BTreeMap<&str, Facts> {
    let mut queues: BTreeMap<&str, Facts> = BTreeMap::new();
    let inqueue: BTreeMap<&str, bool> = objects
        .pod_groups
        .iter()
        .filter_map(|group| Some((job_uid(group)?, text(group, &["status", "phase"]) == "Inqueue")))
        .collect();
    for job in &objects.jobs {
        let facts = queues.entry(text(job, &["spec", "queue"])).or_default();
        let phase = text(job, &["status", "state", "phase"]);
        let waits = inqueue.get(meta(job, "uid")).copied().unwrap_or(false);
        *facts.counts.entry(counter(phase, waits)).or_default() += 1;
        facts.unfinished_jobs += i64::from(!matches!(phase, "Completed" | "Failed" | "Terminated"));
    }
    let mut queue_of = BTreeMap::new();
    for group in &objects.pod_groups {
        let queue = text(group, &["spec", "queue"]);
        queue_of.insert((meta(group, "namespace"), meta(group, "name")), queue);
        if job_uid(group).is_none() {
            *queues.entry(queue).or_default().counts.entry("unknown").or_default() += 1;
        }
    }
    for pod in objects.pods.iter().filter(|pod| !ended(pod)) {
        let group = (meta(pod, "namespace"), text(pod, &["metadata", "annotations", GROUP]));
        if let Some(queue) = queue_of.get(&group) {
            queues.entry(queue).or_default().live_pods += 1;
        }
    }
    queues
}

/// Compares every queue's status with the facts.
pub(crate) fn status(objects: &Objects, findings: &mut Vec<Finding>) {
    let facts = facts(objects);
    let none = Facts::default();
    for queue in &objects.queues {
        let facts = facts.get(meta(queue, "name")).unwrap_or(&none);
        counters(queue, facts, findings);
        closed(queue, facts, findings);
    }
}

fn counters(queue: &Value, facts: &Facts, findings: &mut Vec<Finding>) {
    for name in COUNTERS {
        let (have, want) = (
            number(queue, &["status", name]),
            facts.counts.get(name).copied().unwrap_or(0),
        );
        if have != want {
            let message = format!("status.{name} is {have}, the objects say {want}");
            findings.push(Finding::new(Invariant::StatusFollowsFacts, "Queue", queue, message));
        }
    }
}

fn closed(queue: &Value, facts: &Facts, findings: &mut Vec<Finding>) {
    let is_closed = at(queue, &["status", "state"]) == "Closed";
    if is_closed && (facts.unfinished_jobs > 0 || facts.live_pods > 0) {
        let (jobs, pods) = (facts.unfinished_jobs, facts.live_pods);
        let message = format!("is Closed with {jobs} unfinished jobs and {pods} pods that have not ended");
        findings.push(Finding::new(Invariant::ClosedQueuesEmpty, "Queue", queue, message));
    }
}
