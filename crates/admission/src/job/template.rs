//! The templates of a Job's pods: what would make every pod of a task be refused later is refused at once.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::check;
use basalt_api::json::{list_at, string_at, value_or_null};
use serde_json::{Value, json};

use super::names::is_label;
use super::{task_label, tasks};
use crate::quantities::{amount, entries, quantity};
use crate::read::{brief, set, unset};
use crate::request::Operation::Create;
use crate::rule::{Case, Rule};

pub(super) const CONTAINERS: Rule = Rule::invalid(
    "job/containers",
    "a task's template has containers, each with a name of its own and an image, and a restartPolicy that exists",
    containers,
)
.on(&[Create]);
pub(super) const RESOURCES: Rule = Rule::invalid(
    "job/resources",
    "requests and limits can be read and are not negative, and a request is at most its limit",
    resources,
)
.on(&[Create]);
pub(super) const MOUNTS: Rule = Rule::invalid(
    "job/mounts",
    "what a container mounts is a volume of its template, each at a path of its own that no volume of the job takes",
    mounts,
)
.on(&[Create]);
pub(super) const WHOLE_CPUS: Rule = Rule::invalid(
    "job/whole-cpus",
    "where a task has a topologyPolicy, it exists, and every container asks for whole cpus, at least 1",
    whole_cpus,
)
.on(&[Create]);

pub(super) const PODS: Rule = Rule::invalid(
    "job/template",
    "every pod of a task's template is one that Kubernetes takes: labels, names, ports, environment, volumes, placement",
    pods,
)
.on(&[Create]);

/// The containers of a task's pods, init ones first, with the place where they are written.
fn each_container<'a>(case: &Case<'a>, mut with: impl FnMut(&str, &'a Value, &'a Value)) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        let spec = value_or_null(task, "/template/spec");
        for list in ["initContainers", "containers"] {
            for (number, container) in list_at(spec, &format!("/{list}")).iter().enumerate() {
                let place = format!(
                    "{}: {}.template.spec.{list}[{number}]",
                    case.subject(),
                    task_label(index, task)
                );
                with(&place, spec, container);
            }
        }
    }
}

/// Whether a container is one of those that run together.
fn is_main(spec: &Value, container: &Value) -> bool {
    let mut mains = list_at(spec, "/containers").iter();
    mains.any(|main| std::ptr::eq(main, container))
}

fn containers(case: &Case<'_>, broken: &mut Vec<String>) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        let place = format!("{}: {}.template.spec", case.subject(), task_label(index, task));
        if list_at(task, "/template/spec/containers").is_empty() {
            broken.push(format!("{place}.containers is empty, a pod needs at least one"));
        }
        let policy = value_or_null(task, "/template/spec/restartPolicy");
        if !policy.is_null() && !matches!(policy.as_str(), Some("Always" | "OnFailure" | "Never" | "")) {
            broken.push(format!(
                "{place}.restartPolicy is {}, choose Always, OnFailure or Never",
                brief(policy)
            ));
        }
        let mut names = BTreeSet::new();
        for list in ["initContainers", "containers"] {
            for (number, container) in list_at(task, &format!("/template/spec/{list}")).iter().enumerate() {
                let name = string_at(container, "/name");
                if !is_label(name) {
                    broken.push(format!(
                        "{place}.{list}[{number}].name is {}, use lower-case letters, digits and inner '-'",
                        brief(value_or_null(container, "/name"))
                    ));
                } else if !names.insert(name) {
                    broken.push(format!("{place} has two containers {name:?}, rename one"));
                }
                if string_at(container, "/image").trim().is_empty() {
                    broken.push(format!(
                        "{place}.{list}[{number}].image is {}, name an image",
                        brief(value_or_null(container, "/image"))
                    ));
                }
            }
        }
    }
}

fn resources(case: &Case<'_>, broken: &mut Vec<String>) {
    each_container(case, |place, _, container| {
        for list in ["requests", "limits"] {
            for (name, written) in entries(value_or_null(container, &format!("/resources/{list}"))) {
                match quantity(written) {
                    Err(error) => broken.push(format!("{place}.resources.{list}[{name}]: {error}")),
                    Ok(amount) if amount.is_negative() => broken.push(format!(
                        "{place}.resources.{list}[{name}] is {amount}, choose 0 or more"
                    )),
                    Ok(_) => {}
                }
            }
        }
        let limits = value_or_null(container, "/resources/limits");
        for (name, written) in entries(value_or_null(container, "/resources/requests")) {
            let (Ok(request), Some(limit)) = (quantity(written), amount(limits, name)) else {
                continue;
            };
            if request > limit {
                broken.push(format!(
                    "{place}.resources.requests[{name}] is {request}, more than its limit, which is {limit}: lower the one or raise the other"
                ));
            }
        }
    });
}

fn mounts(case: &Case<'_>, broken: &mut Vec<String>) {
    let of_job: BTreeMap<&str, usize> = list_at(case.object, "/spec/volumes")
        .iter()
        .enumerate()
        .map(|(index, volume)| (string_at(volume, "/mountPath"), index))
        .collect();
    each_container(case, |place, spec, container| {
        // Volumes of the job are mounted in containers, not in those that run before them.
        let of_job = |path: &str| of_job.get(path).filter(|_| is_main(spec, container));
        let volumes = list_at(spec, "/volumes").iter();
        let volumes: BTreeSet<&str> = volumes.map(|volume| string_at(volume, "/name")).collect();
        let mut paths = BTreeSet::new();
        for (number, mount) in list_at(container, "/volumeMounts").iter().enumerate() {
            let (name, path) = (string_at(mount, "/name"), string_at(mount, "/mountPath"));
            let place = format!("{place}.volumeMounts[{number}]");
            if !volumes.contains(name) {
                broken.push(format!(
                    "{place}.name is {name:?}, which is none of the {} volumes of the template",
                    volumes.len()
                ));
            }
            if path.is_empty() {
                broken.push(format!("{place}.mountPath is empty, say where to mount it"));
            } else if !paths.insert(path) {
                broken.push(format!(
                    "{place}.mountPath is {path:?}, as an earlier one: choose another"
                ));
            } else if let Some(index) = of_job(path) {
                broken.push(format!(
                    "{place}.mountPath is {path:?}, and so is that of spec.volumes[{index}]: choose another"
                ));
            }
        }
    });
}

fn whole_cpus(case: &Case<'_>, broken: &mut Vec<String>) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        let policy = value_or_null(task, "/topologyPolicy");
        let place = format!("{}: {}", case.subject(), task_label(index, task));
        match policy.as_str() {
            None if policy.is_null() => continue,
            Some("none" | "") => continue,
            Some("best-effort" | "restricted" | "single-numa-node") => {}
            _ => broken.push(format!(
                "{place}.topologyPolicy is {}, choose none, best-effort, restricted or single-numa-node",
                brief(policy)
            )),
        }
        for (number, container) in list_at(task, "/template/spec/containers").iter().enumerate() {
            let asked = ["requests", "limits"]
                .iter()
                .find_map(|list| amount(value_or_null(container, &format!("/resources/{list}")), "cpu"));
            if !asked.is_some_and(|cpu| cpu.is_whole() && cpu.nano() > 0) {
                let asked = asked.map_or("absent".to_owned(), |cpu| cpu.to_string());
                broken.push(format!(
                    "{place}.template.spec.containers[{number}].resources.requests[cpu] is {asked}, with topologyPolicy {} choose a whole number from 1",
                    brief(policy)
                ));
            }
        }
    }
}

/// What Kubernetes would refuse in every pod. What has a rule of its own here is told by that, and comes first.
fn pods(case: &Case<'_>, broken: &mut Vec<String>) {
    let mut told = Vec::new();
    for rule in [containers, resources, mounts] {
        rule(case, &mut told);
    }
    if !told.is_empty() {
        return;
    }
    for (index, task) in tasks(case.object).iter().enumerate() {
        let place = format!("{}.template", task_label(index, task));
        let labels = format!("{place}.metadata.labels");
        let mut errors = check::label_errors(task.pointer("/template/metadata/labels"), &labels);
        let mut spec = value_or_null(task, "/template/spec").clone();
        fill_in(&mut spec);
        check::pod::validate_spec(&spec, &format!("{place}.spec"), &mut errors);
        broken.extend(errors.iter().map(|error| format!("{}: {error}", case.subject())));
    }
}

/// Fills in what Kubernetes fills in before it looks.
fn fill_in(spec: &mut Value) {
    if unset(spec, "/restartPolicy") {
        set(spec, "", "restartPolicy", json!("Always"));
    }
    for list in ["/initContainers", "/containers"] {
        let containers = spec.pointer_mut(list).and_then(Value::as_array_mut);
        let containers = containers.into_iter().flatten();
        let ports = containers.filter_map(|container| container.get_mut("ports")?.as_array_mut());
        for port in ports.flatten().filter(|port| unset(port, "/protocol")) {
            set(port, "", "protocol", json!("TCP"));
        }
    }
}
