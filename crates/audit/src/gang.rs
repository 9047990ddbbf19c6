//! I2: of a gang all that must start together is placed, or nothing holds room.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::read::{ended, entries, leaving, list, meta, node_of, number, text};
use crate::{Finding, Invariant, Objects};

/// The annotation by which a pod says to which group it belongs.
const GROUP: &str = "scheduling.k8s.io/group-name";
const TASK: &str = "volcano.sh/task-spec";

/// Placed pods of one group, ended ones included, in all and by task.
#[derive(Default)]
struct Placed<'a> {
    all: i64,
    /// Those that hold room: they have neither ended nor been told to go.
    living: i64,
    tasks: BTreeMap<&'a str, i64>,
}

fn placed(objects: &Objects) -> BTreeMap<(&str, &str), Placed<'_>> {
    let mut groups: BTreeMap<_, Placed<'_>> = BTreeMap::new();
    for pod in objects.pods.iter().filter(|pod| !node_of(pod).is_empty()) {
        let group = text(pod, &["metadata", "annotations", GROUP]);
        if !group.is_empty() {
            let counts = groups.entry((meta(pod, "namespace"), group)).or_default();
            counts.all += 1;
            counts.living += i64::from(!ended(pod) && !leaving(pod));
            *counts
                .tasks
                .entry(text(pod, &["metadata", "annotations", TASK]))
                .or_default() += 1;
        }
    }
    groups
}

/// What a group lacks: name of the minimum, how many are placed, how many must be.
fn lacks(group: &Value, counts: &Placed<'_>) -> Option<(String, i64, i64)> {
    let min = number(group, &["spec", "minMember"]);
    if counts.all < min {
        return Some(("minMember".to_owned(), counts.all, min));
    }
    // Task minimums bind only where all tasks' minimums are part of the gang.
    let wanted = || entries(group, &["spec", "minTaskMember"]).map(|(task, min)| (task, min.as_i64().unwrap_or(0)));
    if wanted().map(|(_, min)| min).sum::<i64>() > min {
        return None;
    }
    wanted().find_map(|(task, min)| {
        let have = counts.tasks.get(task).copied().unwrap_or(0);
        (have < min).then(|| (format!("minTaskMember[{task}]"), have, min))
    })
}

/// Whether the scheduler says that the group had all it needed once.
fn says_started(group: &Value) -> bool {
    let scheduled =
        |condition: &Value| text(condition, &["type"]) == "Scheduled" && text(condition, &["status"]) == "True";
    matches!(text(group, &["status", "phase"]), "Running" | "Unknown" | "Completed")
        || list(group, &["status", "conditions"]).iter().any(scheduled)
}

/// Remembers which groups were whole: later, single pods may come and go. Of a group that is seen
/// for the first time its own word is taken.
pub(crate) fn remember(objects: &Objects, known: &mut BTreeSet<String>, whole: &mut BTreeSet<String>) {
    let placed = placed(objects);
    let mut present = BTreeSet::new();
    for group in &objects.pod_groups {
        let uid = meta(group, "uid").to_owned();
        let first = !known.contains(&uid);
        let counts = placed.get(&(meta(group, "namespace"), meta(group, "name")));
        let complete = counts.is_some_and(|counts| counts.all > 0 && lacks(group, counts).is_none());
        if complete || (first && says_started(group)) {
            whole.insert(uid.clone());
        }
        present.insert(uid);
    }
    whole.retain(|uid| present.contains(uid));
    *known = present;
}

/// The groups that were never whole and of which some pods, but not enough, hold room: each with what is wrong.
fn partial_groups<'o>(objects: &'o Objects, whole: &BTreeSet<String>) -> Vec<(&'o Value, String)> {
    let placed = placed(objects);
    let groups = objects.pod_groups.iter();
    let unstarted = groups.filter(|group| !leaving(group) && !whole.contains(meta(group, "uid")));
    let partial = unstarted.filter_map(|group| {
        let counts = placed.get(&(meta(group, "namespace"), meta(group, "name")))?;
        let (what, have, need) = lacks(group, counts).filter(|_| counts.living > 0)?;
        let message = format!("{have} pods are placed, {what} is {need}: all of it or nothing was promised");
        Some((group, message))
    });
    partial.collect()
}

/// Groups that were never whole and of which some pods, but not enough, hold room.
pub(crate) fn partial(objects: &Objects, whole: &BTreeSet<String>, findings: &mut Vec<Finding>) {
    let partial = partial_groups(objects, whole).into_iter();
    findings.extend(partial.map(|(group, message)| Finding::new(Invariant::WholeGangs, "PodGroup", group, message)));
}

/// Since when gangs are partial, by uid, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartialSince(BTreeMap<String, i64>);

impl PartialSince {
    /// Gangs that have been partial for longer than `limit_ms`.
    pub(crate) fn overdue(
        &mut self,
        objects: &Objects,
        whole: &BTreeSet<String>,
        now_ms: i64,
        limit_ms: i64,
    ) -> Vec<Finding> {
        let before = std::mem::take(&mut self.0);
        let mut findings = Vec::new();
        for (group, message) in partial_groups(objects, whole) {
            let uid = meta(group, "uid");
            let since_ms = before.get(uid).copied().unwrap_or(now_ms);
            let passed_ms = now_ms.saturating_sub(since_ms);
            self.0.insert(uid.to_owned(), since_ms);
            if passed_ms > limit_ms {
                let message = format!("{message}; for {} s", passed_ms / 1_000);
                findings.push(Finding::new(Invariant::WholeGangs, "PodGroup", group, message));
            }
        }
        findings
    }
}
