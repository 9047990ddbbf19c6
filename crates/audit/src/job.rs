//! I6: the pods of a job are one for each wanted index, and none without a job.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::read::{at, job_uid, leaving, list, meta, number, text};
use crate::{Finding, Invariant, Objects};

const TASK: &str = "volcano.sh/task-spec";
const INDEX: &str = "volcano.sh/task-index";

/// Task and index of a job's pod, from its annotations.
fn place(pod: &Value) -> (&str, &str) {
    let annotation = |key| text(pod, &["metadata", "annotations", key]);
    (annotation(TASK), annotation(INDEX))
}

fn finding(pod: &Value, message: String) -> Finding {
    Finding::new(Invariant::NoLostPods, "Pod", pod, message)
}

/// Two pods in one place.
pub(crate) fn doubled(objects: &Objects, findings: &mut Vec<Finding>) {
    let mut places: BTreeMap<(&str, &str, &str), &str> = BTreeMap::new();
    for pod in &objects.pods {
        let Some(job) = job_uid(pod) else { continue };
        let (task, index) = place(pod);
        if let Some(other) = places.insert((job, task, index), meta(pod, "name")) {
            findings.push(finding(
                pod,
                format!("is pod {index} of task {task} of job uid {job}, and so is {other}"),
            ));
        }
    }
}

/// Pods without their job, pods that nobody wants, and, of a running job, pods that are missing.
pub(crate) fn orphaned_or_lost(objects: &Objects, findings: &mut Vec<Finding>) {
    let jobs: BTreeMap<&str, &Value> = objects.jobs.iter().map(|job| (meta(job, "uid"), job)).collect();
    let mut present: BTreeMap<&str, BTreeSet<(&str, i64)>> = BTreeMap::new();
    for pod in objects.pods.iter().filter(|pod| !leaving(pod)) {
        let Some(uid) = job_uid(pod) else { continue };
        let (task, index) = place(pod);
        let Some(job) = jobs.get(uid) else {
            findings.push(finding(
                pod,
                format!("belongs to the job with uid {uid}, which does not exist"),
            ));
            continue;
        };
        let index = index.parse::<i64>().unwrap_or(-1);
        present.entry(uid).or_default().insert((task, index));
        if unwanted(job, task, index) && !finished(job) {
            let message = format!(
                "is pod {index} of task {task:?}, which job {} does not want",
                meta(job, "name")
            );
            findings.push(finding(pod, message));
        }
    }
    let let_in = let_in(objects);
    let runs = |job: &&Value| text(job, &["status", "state", "phase"]) == "Running" && !leaving(job);
    for job in objects
        .jobs
        .iter()
        .filter(runs)
        .filter(|job| let_in.contains(meta(job, "uid")))
    {
        lost(job, present.get(meta(job, "uid")), findings);
    }
}

/// Uids of the jobs whose group the scheduler has let in: only those have all their pods made.
fn let_in(objects: &Objects) -> BTreeSet<&str> {
    let groups = objects
        .pod_groups
        .iter()
        .filter(|group| !matches!(text(group, &["status", "phase"]), "" | "Pending"));
    groups.filter_map(job_uid).collect()
}

fn finished(job: &Value) -> bool {
    matches!(
        text(job, &["status", "state", "phase"]),
        "Completed" | "Failed" | "Terminated" | "Aborted"
    )
}

fn unwanted(job: &Value, task: &str, index: i64) -> bool {
    let spec = list(job, &["spec", "tasks"])
        .iter()
        .find(|spec| text(spec, &["name"]) == task);
    spec.is_none_or(|spec| index < 0 || index >= number(spec, &["replicas"]))
}

fn lost(job: &Value, present: Option<&BTreeSet<(&str, i64)>>, findings: &mut Vec<Finding>) {
    // A task that waits for another has no pods yet.
    for task in list(job, &["spec", "tasks"])
        .iter()
        .filter(|task| at(task, &["dependsOn"]).is_null())
    {
        let (name, replicas) = (text(task, &["name"]), number(task, &["replicas"]));
        let have = present.map_or(0, |present| present.range((name, 0)..(name, replicas.max(0))).count());
        if i64::try_from(have).is_ok_and(|have| have < replicas) {
            let message = format!("is Running and task {name} has {have} pods of {replicas}");
            findings.push(Finding::new(Invariant::NoLostPods, "Job", job, message));
        }
    }
}
