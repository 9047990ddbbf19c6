//! Deliveries: a Job, a PodGroup, or a Pod that names a queue and has no PodGroup, arriving at a
//! queue. What was accepted goes on, so neither scaling nor the objects of an accepted Job count.

use std::sync::Arc;

use basalt_api::names;
use serde_json::Value;

use crate::queue;
use crate::read::{annotation, at, items, text};
use crate::request::Operation::{Create, Update};
use crate::rule::{Case, Class, Rule};

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "delivery/queue-not-root",
        about: "nothing is delivered to root",
        class: Class::Forbidden,
        operations: &[Create, Update],
        check: not_root,
    },
    Rule {
        id: "delivery/queue-exists",
        about: "the queue exists",
        class: Class::Forbidden,
        operations: &[Create, Update],
        check: exists,
    },
    Rule {
        id: "delivery/queue-deleting",
        about: "the queue is not being deleted",
        class: Class::Forbidden,
        operations: &[Create, Update],
        check: not_deleting,
    },
    Rule {
        id: "delivery/queue-leaf",
        about: "the queue has no children",
        class: Class::Forbidden,
        operations: &[Create, Update],
        check: leaf,
    },
    Rule {
        id: "delivery/queue-open",
        about: "neither the queue nor an ancestor is wanted closed",
        class: Class::Forbidden,
        operations: &[Create, Update],
        check: open,
    },
];

/// The field that names the queue, and the queue, if this request is a delivery.
fn delivered<'a>(case: &'a Case<'_>) -> Option<(&'static str, &'a str)> {
    let (field, queue) = match case.request.resource {
        "pods" => ("annotation scheduling.volcano.sh/queue-name", pod_queue(case)?),
        "jobs" if case.request.operation == Create => ("spec.queue", text(case.object, "/spec/queue")),
        "podgroups" => ("spec.queue", group_queue(case)?),
        _ => return None,
    };
    (!queue.is_empty()).then_some((field, queue))
}

fn pod_queue<'a>(case: &'a Case<'_>) -> Option<&'a str> {
    let grouped = !annotation(case.object, names::GROUP_NAME).is_empty();
    (case.request.operation == Create && !grouped).then(|| annotation(case.object, names::QUEUE_NAME))
}

/// A PodGroup is delivered when it is made or moved, unless it belongs to a Job that was accepted.
fn group_queue<'a>(case: &'a Case<'_>) -> Option<&'a str> {
    let queue = text(case.object, "/spec/queue");
    let arrives = case.old.is_none_or(|old| text(old, "/spec/queue") != queue);
    (arrives && !owned_by_job(case)).then_some(queue)
}

/// The owners of an object that are Volcano Jobs.
pub(crate) fn job_owners(object: &Value) -> impl Iterator<Item = &Value> {
    let is_job =
        |owner: &&Value| text(owner, "/kind") == "Job" && text(owner, "/apiVersion").starts_with("batch.volcano.sh/");
    items(object, "/metadata/ownerReferences").iter().filter(is_job)
}

fn owned_by_job(case: &Case<'_>) -> bool {
    job_owners(case.object).any(|owner| {
        let job = case
            .view
            .get("jobs.batch.volcano.sh", case.request.namespace, text(owner, "/name"));
        job.is_some_and(|job| {
            text(&job, "/metadata/uid") == text(owner, "/uid")
                && text(&job, "/spec/queue") == text(case.object, "/spec/queue")
        })
    })
}

/// The field, the queue's name and the queue, where it is a delivery to an existing queue.
fn reached<'a>(case: &'a Case<'_>) -> Option<(&'static str, &'a str, Arc<Value>)> {
    let (field, name) = delivered(case)?;
    Some((field, name, queue::get(case.view, name)?))
}

fn not_root(case: &Case<'_>, broken: &mut Vec<String>) {
    if let Some((field, names::ROOT_QUEUE)) = delivered(case) {
        broken.push(format!(
            "{}: {field} is \"root\", which takes no jobs: choose a leaf queue",
            case.subject()
        ));
    }
}

fn exists(case: &Case<'_>, broken: &mut Vec<String>) {
    if let Some((field, name)) = delivered(case)
        && queue::get(case.view, name).is_none()
    {
        broken.push(format!(
            "{}: {field} {name:?} does not exist, create the queue or choose another",
            case.subject()
        ));
    }
}

fn not_deleting(case: &Case<'_>, broken: &mut Vec<String>) {
    if let Some((field, name, queue)) = reached(case)
        && !at(&queue, "/metadata/deletionTimestamp").is_null()
    {
        broken.push(format!(
            "{}: {field} {name:?} is being deleted, choose another queue",
            case.subject()
        ));
    }
}

fn leaf(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some((field, name, _)) = reached(case).filter(|(_, name, _)| *name != names::ROOT_QUEUE) else {
        return;
    };
    let children = case.view.children(name);
    if let Some(child) = children.first() {
        broken.push(format!(
            "{}: {field} {name:?} has {} children and takes no jobs itself, choose a leaf such as {:?}",
            case.subject(),
            children.len(),
            text(child, "/metadata/name")
        ));
    }
}

fn open(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some((field, name, queue)) = reached(case) else {
        return;
    };
    match queue::closed_by(case.view, &queue) {
        None => {}
        Some(closed) if closed == name => broken.push(format!(
            "{}: {field} {name:?} is closed (its spec.state is \"Closed\"), open it or choose another queue",
            case.subject()
        )),
        Some(ancestor) => broken.push(format!(
            "{}: {field} {name:?} is closed by its ancestor {ancestor:?} (spec.state \"Closed\"), open {ancestor:?} or choose another queue",
            case.subject()
        )),
    }
}
