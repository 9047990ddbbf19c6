//! What must hold for the parts of a Job: policies, dependencies, volumes, partitions.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::duration::Duration;
use serde_json::Value;

use super::{replicas, task_label, tasks};
use crate::read::{at, integer, items, text};
use crate::request::Operation::{Create, Update};
use crate::rule::Check::Judge;
use crate::rule::{Case, Class, Rule};

const EVENTS: [&str; 8] = [
    "*",
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "JobUpdated",
];
const ACTIONS: [&str; 8] = [
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
];

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "job/policy-trigger",
        about: "a policy names events or an exit code, not both and not neither",
        class: Class::Invalid,
        operations: &[Create],
        check: Judge(policy_trigger),
    },
    Rule {
        id: "job/policy-words",
        about: "a policy's events and action are ones that exist, its exit code is not 0",
        class: Class::Invalid,
        operations: &[Create],
        check: Judge(policy_words),
    },
    Rule {
        id: "job/policy-once",
        about: "no event and no exit code has two policies in one list, and * stands alone",
        class: Class::Invalid,
        operations: &[Create],
        check: Judge(policy_once),
    },
    Rule {
        id: "job/durations",
        about: "runningEstimate and the timeouts of policies are durations, such as 90s or 1h30m",
        class: Class::Invalid,
        operations: &[Create],
        check: Judge(durations),
    },
    Rule {
        id: "job/depends-on",
        about: "tasks depend on other tasks of the job, without a cycle",
        class: Class::Invalid,
        operations: &[Create],
        check: Judge(depends_on),
    },
    Rule {
        id: "job/volumes",
        about: "a volume has a mount path of its own, and a claim or the name of one, not both",
        class: Class::Invalid,
        operations: &[Create],
        check: Judge(volumes),
    },
    Rule {
        id: "job/partitions",
        about: "the partitions of a task are as many pods as it has",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: Judge(partitions),
    },
    Rule {
        id: "job/topology",
        about: "a network topology names its highest tier by number or by name, not both",
        class: Class::Invalid,
        operations: &[Create],
        check: Judge(topology),
    },
];

/// The job's own policies and those of each task, with the place where they are written.
fn policy_lists(job: &Value) -> Vec<(String, &[Value])> {
    let own = std::iter::once(("spec.policies".to_owned(), items(job, "/spec/policies")));
    let of_tasks = tasks(job).iter().enumerate();
    own.chain(of_tasks.map(|(index, task)| {
        (
            format!("{}.policies", task_label(index, task)),
            items(task, "/policies"),
        )
    }))
    .collect()
}

fn each_policy(case: &Case<'_>, mut with: impl FnMut(String, &Value)) {
    for (place, policies) in policy_lists(case.object) {
        for (index, policy) in policies.iter().enumerate() {
            with(format!("{}: {place}[{index}]", case.subject()), policy);
        }
    }
}

fn events(policy: &Value) -> Vec<&str> {
    let single = Some(text(policy, "/event")).filter(|event| !event.is_empty());
    single
        .into_iter()
        .chain(
            items(policy, "/events")
                .iter()
                .map(|event| event.as_str().unwrap_or_default()),
        )
        .collect()
}

fn policy_trigger(case: &Case<'_>, broken: &mut Vec<String>) {
    each_policy(case, |place, policy| {
        let (by_event, by_code) = (!events(policy).is_empty(), !at(policy, "/exitCode").is_null());
        if by_event && by_code {
            broken.push(format!("{place} names both events and exitCode, write two policies"));
        } else if !by_event && !by_code {
            broken.push(format!("{place} names neither an event nor an exitCode, add one"));
        }
    });
}

fn policy_words(case: &Case<'_>, broken: &mut Vec<String>) {
    each_policy(case, |place, policy| {
        for event in events(policy).into_iter().filter(|event| !EVENTS.contains(event)) {
            broken.push(format!(
                "{place} has the event {event:?}, known are {}",
                EVENTS.join(", ")
            ));
        }
        let action = text(policy, "/action");
        if !ACTIONS.contains(&action) {
            broken.push(format!(
                "{place} has the action {action:?}, known are {}",
                ACTIONS.join(", ")
            ));
        }
        if integer(policy, "/exitCode") == Some(0) {
            broken.push(format!("{place} has the exitCode 0, which is success: choose another"));
        }
    });
}

fn policy_once(case: &Case<'_>, broken: &mut Vec<String>) {
    for (place, policies) in policy_lists(case.object) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (index, policy) in policies.iter().enumerate() {
            let code = integer(policy, "/exitCode").map(|code| format!("exit code {code}"));
            let triggers = events(policy).into_iter().map(|event| format!("event {event}"));
            for trigger in triggers.chain(code) {
                if let Some(earlier) = seen.insert(trigger.clone(), index) {
                    let subject = case.subject();
                    broken.push(format!(
                        "{subject}: {place}[{earlier}] and [{index}] are both for {trigger}, keep one"
                    ));
                }
            }
        }
        if seen.contains_key("event *") && seen.keys().filter(|trigger| trigger.starts_with("event ")).count() > 1 {
            broken.push(format!(
                "{}: {place} has the event * beside others, which it includes: keep one",
                case.subject()
            ));
        }
    }
}

fn durations(case: &Case<'_>, broken: &mut Vec<String>) {
    let mut check = |place: String, value: &Value| match value.as_str().map(Duration::parse) {
        Some(Ok(_)) => {}
        Some(Err(error)) => broken.push(format!("{place}: {error}")),
        None if value.is_null() => {}
        None => broken.push(format!("{place} is {value}, write a text such as \"90s\"")),
    };
    let estimate = format!("{}: spec.runningEstimate", case.subject());
    check(estimate, at(case.object, "/spec/runningEstimate"));
    each_policy(case, |place, policy| {
        check(format!("{place}.timeout"), at(policy, "/timeout"));
    });
}

fn depends_on(case: &Case<'_>, broken: &mut Vec<String>) {
    let needs = |task: &Value| -> Vec<String> {
        let names = items(task, "/dependsOn/name").iter();
        names.map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut open: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for task in tasks(case.object) {
        open.entry(text(task, "/name")).or_insert_with(|| needs(task));
    }
    let known: BTreeSet<String> = open.keys().map(|name| (*name).to_owned()).collect();
    for (task, missing) in open
        .iter()
        .flat_map(|(task, names)| names.iter().map(move |name| (task, name)))
    {
        if !known.contains(missing) {
            broken.push(format!(
                "{}: task {task} depends on {missing:?}, which is no task of the job",
                case.subject()
            ));
        }
    }
    // Take away tasks whose dependencies are all taken away; what stays goes round in a circle.
    for _ in 0..known.len() {
        let still: BTreeSet<String> = open.keys().map(|name| (*name).to_owned()).collect();
        open.retain(|_, names| names.iter().any(|name| still.contains(name)));
    }
    if !open.is_empty() {
        let circle: Vec<&str> = open.keys().copied().collect();
        broken.push(format!(
            "{}: tasks {} wait for each other, break the circle",
            case.subject(),
            circle.join(", ")
        ));
    }
}

fn volumes(case: &Case<'_>, broken: &mut Vec<String>) {
    let mut paths = BTreeMap::new();
    for (index, volume) in items(case.object, "/spec/volumes").iter().enumerate() {
        let place = format!("{}: spec.volumes[{index}]", case.subject());
        let path = text(volume, "/mountPath");
        if path.is_empty() {
            broken.push(format!("{place}.mountPath is empty, say where to mount it"));
        } else if let Some(earlier) = paths.insert(path, index) {
            broken.push(format!(
                "{place}.mountPath is {path:?}, and so is that of spec.volumes[{earlier}]"
            ));
        }
        match (
            !at(volume, "/volumeClaim").is_null(),
            !text(volume, "/volumeClaimName").is_empty(),
        ) {
            (true, true) => broken.push(format!("{place} has both volumeClaim and volumeClaimName, keep one")),
            (false, false) => broken.push(format!("{place} has neither volumeClaim nor volumeClaimName, add one")),
            _ => {}
        }
    }
}

fn partitions(case: &Case<'_>, broken: &mut Vec<String>) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        if at(task, "/partitionPolicy").is_null() {
            continue;
        }
        let of = |field: &str| integer(task, &format!("/partitionPolicy/{field}")).unwrap_or(0);
        let (total, size, min) = (of("totalPartitions"), of("partitionSize"), of("minPartitions"));
        let place = format!("{}: {}", case.subject(), task_label(index, task));
        if total < 1 || size < 1 {
            broken.push(format!(
                "{place} has {total} partitions of {size} pods, both must be at least 1"
            ));
        } else if total.saturating_mul(size) != replicas(task) {
            broken.push(format!(
                "{place} has {} replicas, but {total} partitions of {size} pods are {}",
                replicas(task),
                total.saturating_mul(size)
            ));
        }
        let needed = min.saturating_mul(size);
        if let Some(written) = integer(task, "/minAvailable").filter(|written| min > 0 && *written != needed) {
            broken.push(format!(
                "{place}.minAvailable is {written}, but {min} partitions of {size} pods are {needed}"
            ));
        }
    }
}

fn topology(case: &Case<'_>, broken: &mut Vec<String>) {
    let of_tasks = tasks(case.object).iter().enumerate();
    let of_tasks =
        of_tasks.map(|(index, task)| (task_label(index, task), at(task, "/partitionPolicy/networkTopology")));
    let own = std::iter::once(("spec".to_owned(), at(case.object, "/spec/networkTopology")));
    for (place, topology) in own.chain(of_tasks) {
        let name = text(topology, "/highestTierName");
        if let Some(tier) = integer(topology, "/highestTierAllowed").filter(|_| !name.is_empty()) {
            broken.push(format!(
                "{}: {place}.networkTopology has both highestTierAllowed {tier} and highestTierName {name:?}, keep one",
                case.subject()
            ));
        }
    }
}
