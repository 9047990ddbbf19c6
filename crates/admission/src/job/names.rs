//! The names that a Job makes: of tasks, pods and its Service.

use std::collections::BTreeMap;

use basalt_api::json::{string_at, value_or_null};
use serde_json::Value;

use super::{replicas, task_label, tasks};
use crate::read::brief;
use crate::rule::{Case, Rule};

/// The length of a DNS label: pod names become host names and label values.
const NAME_MAX: usize = 63;

pub(super) const TASK_NAMES: Rule = Rule::invalid(
    "job/task-names",
    "a task's name is a DNS label: lower-case letters, digits and inner dashes, at most 63",
    task_names,
);
pub(super) const TASK_NAMES_UNIQUE: Rule = Rule::invalid(
    "job/task-names-unique",
    "task names differ, for pod names are made of them",
    task_names_unique,
);
pub(super) const POD_NAMES: Rule = Rule::invalid(
    "job/pod-names",
    "every pod name <job>-<task>-<index> is a valid name of at most 63 characters",
    pod_names,
);
pub(super) const SERVICE_NAME: Rule = Rule::invalid(
    "job/service-name",
    "with the plugin svc the job's name can be that of a Service: a DNS label that begins with a letter, and with ray short enough for that of the head",
    service_name,
);

/// RFC 1123: lower-case letters, digits and inner dashes.
pub(super) fn is_label(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= NAME_MAX
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
        && bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
}

/// Labels joined by dots.
pub(super) fn is_subdomain(name: &str) -> bool {
    const LENGTH_MAX: usize = 253;
    name.len() <= LENGTH_MAX && name.split('.').all(is_label)
}

fn task_names(case: &Case<'_>, broken: &mut Vec<String>) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        if !is_label(string_at(task, "/name")) {
            broken.push(format!(
                "{}: spec.tasks[{index}].name is {}, use at most {NAME_MAX} lower-case letters, digits and inner '-'",
                case.subject(),
                brief(value_or_null(task, "/name"))
            ));
        }
    }
}

fn task_names_unique(case: &Case<'_>, broken: &mut Vec<String>) {
    let mut first = BTreeMap::new();
    for (index, task) in tasks(case.object).iter().enumerate() {
        let name = string_at(task, "/name");
        if let Some(earlier) = first.insert(name, index) {
            broken.push(format!(
                "{}: spec.tasks[{earlier}] and spec.tasks[{index}] are both named {name:?}, rename one",
                case.subject()
            ));
        }
    }
}

/// The name of the job. With generateName the server adds five characters.
fn job_name(job: &Value) -> String {
    match string_at(job, "/metadata/name") {
        "" => format!("{}xxxxx", string_at(job, "/metadata/generateName")),
        name => name.to_owned(),
    }
}

fn pod_names(case: &Case<'_>, broken: &mut Vec<String>) {
    let job = job_name(case.object);
    for (index, task) in tasks(case.object).iter().enumerate() {
        let last = replicas(task).saturating_sub(1).max(0);
        let pod = format!("{job}-{}-{last}", string_at(task, "/name"));
        let place = format!("{}: {}", case.subject(), task_label(index, task));
        if pod.len() > NAME_MAX {
            broken.push(format!(
                "{place} makes the pod name {pod:?} of {} characters, at most {NAME_MAX} are allowed: shorten the job's or the task's name",
                pod.len()
            ));
        } else if !is_subdomain(&pod) {
            broken.push(format!(
                "{place} makes the pod name {pod:?}, use only lower-case letters, digits, '-' and '.'"
            ));
        }
    }
}

/// The Service has the job's name, and the pods' host names lie under it.
fn service_name(case: &Case<'_>, broken: &mut Vec<String>) {
    let name = job_name(case.object);
    let fits = is_label(&name) && name.starts_with(|first: char| first.is_ascii_lowercase());
    if !fits && value_or_null(case.object, "/spec/plugins").get("svc").is_some() {
        broken.push(format!(
            "{}: spec.plugins has svc, which makes a Service {name:?}: begin the job's name with a letter and use only lower-case letters, digits and inner '-'",
            case.subject()
        ));
    }
    let head = format!("{name}-head-svc");
    if head.len() > NAME_MAX && value_or_null(case.object, "/spec/plugins").get("ray").is_some() {
        broken.push(format!(
            "{}: spec.plugins has ray, which makes a Service {head:?} of {} characters, at most {NAME_MAX} are allowed: shorten the job's name",
            case.subject(),
            head.len()
        ));
    }
}
