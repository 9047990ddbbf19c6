//! What must hold for a Job.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{PLUGINS, replicas, task_label, tasks, total};
use crate::read::{at, integer, text};
use crate::request::Operation::{Create, Update};
use crate::rule::Check::Judge;
use crate::rule::{Case, Class, Rule};

/// The length of a DNS label: pod names become host names and label values.
const NAME_MAX: usize = 63;

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "job/tasks-present",
        about: "a job has at least one task",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: Judge(tasks_present),
    },
    Rule {
        id: "job/task-names-unique",
        about: "task names differ, for pod names are made of them",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: Judge(task_names_unique),
    },
    Rule {
        id: "job/replicas",
        about: "a task's replicas are zero or more",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: Judge(replicas_valid),
    },
    Rule {
        id: "job/task-min-available",
        about: "a task's minAvailable is between 0 and its replicas",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: Judge(task_min_available),
    },
    Rule {
        id: "job/min-available-positive",
        about: "minAvailable is more than zero",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: Judge(min_available_positive),
    },
    Rule {
        id: "job/min-available-reachable",
        about: "minAvailable is at most the sum of replicas",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: Judge(min_available_reachable),
    },
    Rule {
        id: "job/min-success-reachable",
        about: "minSuccess is between 1 and the sum of replicas",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: Judge(min_success_reachable),
    },
    Rule {
        id: "job/pod-names",
        about: "every pod name <job>-<task>-<index> is a valid name of at most 63 characters",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: Judge(pod_names),
    },
    Rule {
        id: "job/plugins-known",
        about: "every plugin is one that exists",
        class: Class::Invalid,
        operations: &[Create],
        check: Judge(plugins_known),
    },
    Rule {
        id: "job/spec-fixed",
        about: "only replicas, minAvailable and priorityClassName change after creation",
        class: Class::Forbidden,
        operations: &[Update],
        check: Judge(spec_fixed),
    },
];

fn tasks_present(case: &Case<'_>, broken: &mut Vec<String>) {
    if tasks(case.object).is_empty() {
        broken.push(format!(
            "{}: spec.tasks is empty, a job needs at least one task",
            case.subject()
        ));
    }
}

fn task_names_unique(case: &Case<'_>, broken: &mut Vec<String>) {
    let mut first = BTreeMap::new();
    for (index, task) in tasks(case.object).iter().enumerate() {
        let name = text(task, "/name");
        if let Some(earlier) = first.insert(name, index) {
            broken.push(format!(
                "{}: spec.tasks[{earlier}] and spec.tasks[{index}] are both named {name:?}, rename one",
                case.subject()
            ));
        }
    }
}

fn replicas_valid(case: &Case<'_>, broken: &mut Vec<String>) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        if replicas(task) < 0 {
            broken.push(format!(
                "{}: {}.replicas is {}, choose 0 or more",
                case.subject(),
                task_label(index, task),
                replicas(task)
            ));
        }
    }
}

fn task_min_available(case: &Case<'_>, broken: &mut Vec<String>) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        let Some(min) = integer(task, "/minAvailable") else {
            continue;
        };
        if min < 0 || min > replicas(task) {
            broken.push(format!(
                "{}: {}.minAvailable is {min} with {} replicas, choose a number from 0 to the replicas",
                case.subject(),
                task_label(index, task),
                replicas(task)
            ));
        }
    }
}

fn min_available_positive(case: &Case<'_>, broken: &mut Vec<String>) {
    let min = integer(case.object, "/spec/minAvailable").unwrap_or(0);
    if min <= 0 && !tasks(case.object).is_empty() {
        broken.push(format!(
            "{}: spec.minAvailable is {min} and must be at least 1: set it, or give a task replicas",
            case.subject()
        ));
    }
}

fn min_available_reachable(case: &Case<'_>, broken: &mut Vec<String>) {
    let min = integer(case.object, "/spec/minAvailable").unwrap_or(0);
    let sum = total(case.object, replicas);
    if min > sum {
        broken.push(format!(
            "{}: spec.minAvailable is {min} but all tasks together have {sum} replicas: lower minAvailable or raise replicas",
            case.subject()
        ));
    }
}

fn min_success_reachable(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some(min) = integer(case.object, "/spec/minSuccess") else {
        return;
    };
    let sum = total(case.object, replicas);
    if min < 1 || min > sum {
        broken.push(format!(
            "{}: spec.minSuccess is {min} with {sum} replicas in all, choose a number from 1 to {sum}",
            case.subject()
        ));
    }
}

fn pod_names(case: &Case<'_>, broken: &mut Vec<String>) {
    // With generateName the server adds five characters.
    let job = match text(case.object, "/metadata/name") {
        "" => format!("{}xxxxx", text(case.object, "/metadata/generateName")),
        name => name.to_owned(),
    };
    for (index, task) in tasks(case.object).iter().enumerate() {
        let last = replicas(task).saturating_sub(1).max(0);
        let pod = format!("{job}-{}-{last}", text(task, "/name"));
        if pod.len() > NAME_MAX {
            broken.push(format!(
                "{}: {} makes the pod name {pod:?} of {} characters, at most {NAME_MAX} are allowed: shorten the job's or the task's name",
                case.subject(),
                task_label(index, task),
                pod.len()
            ));
        } else if !is_subdomain(&pod) {
            broken.push(format!(
                "{}: {} makes the pod name {pod:?}, use only lower-case letters, digits, '-' and '.'",
                case.subject(),
                task_label(index, task)
            ));
        }
    }
}

/// RFC 1123: labels of lower-case letters, digits and inner dashes, joined by dots.
fn is_subdomain(name: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.split('.').all(|label| {
        let bytes = label.as_bytes();
        bytes.iter().all(|byte| alphanumeric(*byte) || *byte == b'-')
            && bytes.first().is_some_and(|byte| alphanumeric(*byte))
            && bytes.last().is_some_and(|byte| alphanumeric(*byte))
    })
}

fn plugins_known(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some(plugins) = at(case.object, "/spec/plugins").as_object() else {
        return;
    };
    for name in plugins.keys().filter(|name| !PLUGINS.contains(&name.as_str())) {
        broken.push(format!(
            "{}: spec.plugins has {name:?}, known are {}",
            case.subject(),
            PLUGINS.join(", ")
        ));
    }
}

fn spec_fixed(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some(old) = case.old else { return };
    if let Some(path) = difference("spec", &fixed_part(old), &fixed_part(case.object)) {
        broken.push(format!(
            "{}: {path} cannot change after creation, only replicas, minAvailable and priorityClassName can: create a new job instead",
            case.subject()
        ));
    }
}

/// The spec without what may change. A claim's name is filled in by the controller.
fn fixed_part(job: &Value) -> Value {
    let mut spec = at(job, "/spec").clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("minAvailable");
        spec.remove("priorityClassName");
        each_map(spec.get_mut("tasks"), &["replicas", "minAvailable"]);
        // Volcano writes its default into the object; we leave it out, so that a re-applied list of tasks is the same.
        for task in spec
            .get_mut("tasks")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if at(task, "/maxRetry").as_i64() == Some(super::default::RETRIES) {
                task.as_object_mut().map(|task| task.remove("maxRetry"));
            }
        }
        let claims = spec.get_mut("volumes").and_then(Value::as_array_mut);
        for volume in claims
            .into_iter()
            .flatten()
            .filter(|volume| !at(volume, "/volumeClaim").is_null())
        {
            volume.as_object_mut().map(|volume| volume.remove("volumeClaimName"));
        }
    }
    spec
}

fn each_map(list: Option<&mut Value>, drop: &[&str]) {
    for map in list
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        map.retain(|key, _| !drop.contains(&key.as_str()));
    }
}

/// The path of the first difference; an absent, a null and an empty value are the same.
fn difference(path: &str, old: &Value, new: &Value) -> Option<String> {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.into_iter()
                .find_map(|key| difference(&format!("{path}.{key}"), at_key(old, key), at_key(new, key)))
        }
        (Value::Array(a), Value::Array(b)) if a.len() != b.len() => {
            Some(format!("{path} (from {} to {} entries)", a.len(), b.len()))
        }
        (Value::Array(a), Value::Array(b)) => {
            let mut pairs = a.iter().zip(b).enumerate();
            pairs.find_map(|(index, (a, b))| difference(&format!("{path}[{index}]"), a, b))
        }
        _ if old == new || (is_empty(old) && is_empty(new)) => None,
        _ => Some(path.to_owned()),
    }
}

fn at_key<'a>(map: &'a Value, key: &str) -> &'a Value {
    map.get(key).unwrap_or(&Value::Null)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.values().all(is_empty),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
