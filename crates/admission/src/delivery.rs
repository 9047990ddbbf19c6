//! Deliveries: a Job, a PodGroup, or a Pod that names a queue and has no PodGroup, arriving at a
//! queue. What was accepted goes on, so neither scaling nor the objects of an accepted Job or pod count.

use basalt_api::json::{list_at, string_at, value_or_null};
use basalt_api::names;
use serde_json::Value;

use crate::queue::closed_by;
use crate::request::Operation::Create;
use crate::rule::{Access, Case, Rule};
use crate::view::{job_owners, lone_pod_queue};

pub(crate) const RULES: &[Rule] = &[
    Rule::forbidden("delivery/queue-not-root", "nothing is delivered to root", not_root),
    Rule::forbidden("delivery/queue-exists", "the queue exists", exists),
    Rule::forbidden(
        "delivery/queue-deleting",
        "the queue is not being deleted",
        not_deleting,
    ),
    Rule::forbidden("delivery/queue-leaf", "the queue has no children", leaf),
    Rule::forbidden(
        "delivery/queue-open",
        "neither the queue nor an ancestor is wanted closed",
        open,
    ),
    Rule::access(
        "delivery/queue-use",
        "where the settings ask for it (queue_acl), whoever delivers may use the queue",
        may_use,
    ),
];

/// The field that names the queue, and the queue, if this request is a delivery.
fn delivered<'a>(case: &'a Case<'_>) -> Option<(&'static str, &'a str)> {
    let (field, queue) = match case.request.resource {
        "pods" => ("annotation scheduling.volcano.sh/queue-name", pod_queue(case)?),
        "jobs" if case.request.operation == Create => ("spec.queue", string_at(case.object, "/spec/queue")),
        "podgroups" => ("spec.queue", group_queue(case)?),
        _ => return None,
    };
    (!queue.is_empty()).then_some((field, queue))
}

fn pod_queue<'a>(case: &'a Case<'_>) -> Option<&'a str> {
    let queue = lone_pod_queue(case.object)?;
    (case.request.operation == Create && !owned_by_job(case, queue)).then_some(queue)
}

/// A PodGroup is delivered when it is made or moved, unless it belongs to a Job or a lone pod that was accepted.
fn group_queue<'a>(case: &'a Case<'_>) -> Option<&'a str> {
    let queue = string_at(case.object, "/spec/queue");
    let arrives = case.old.is_none_or(|old| string_at(old, "/spec/queue") != queue);
    (arrives && !owned_by_job(case, queue) && !owned_by_pod(case, queue)).then_some(queue)
}

/// Whether it belongs to a Job that was accepted, in the queue that the Job is in.
fn owned_by_job(case: &Case<'_>, queue: &str) -> bool {
    job_owners(case.object).any(|owner| {
        let (name, uid) = (string_at(owner, "/name"), string_at(owner, "/uid"));
        case.view.holders().has_job(case.request.namespace, name, uid, queue)
    })
}

/// Whether it belongs to a lone pod that was accepted, in the queue that the pod names: the controllers make it.
fn owned_by_pod(case: &Case<'_>, queue: &str) -> bool {
    let owners = list_at(case.object, "/metadata/ownerReferences").iter();
    let mut pods = owners.filter(|owner| string_at(owner, "/kind") == "Pod" && string_at(owner, "/apiVersion") == "v1");
    pods.any(|owner| {
        let (name, uid) = (string_at(owner, "/name"), string_at(owner, "/uid"));
        case.view.holders().has_pod(case.request.namespace, name, uid, queue)
    })
}

/// The field, the queue's name and the queue, where it is a delivery to an existing queue.
fn reached<'a>(case: &'a Case<'_>) -> Option<(&'static str, &'a str, &'a Value)> {
    let (field, name) = delivered(case)?;
    Some((field, name, case.view.queue(name)?))
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
        && case.view.queue(name).is_none()
    {
        broken.push(format!(
            "{}: {field} {name:?} does not exist, create the queue or choose another",
            case.subject()
        ));
    }
}

fn not_deleting(case: &Case<'_>, broken: &mut Vec<String>) {
    if let Some((field, name, queue)) = reached(case)
        && !value_or_null(queue, "/metadata/deletionTimestamp").is_null()
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
    let mut children = case.view.tree().children(name);
    let count = children.len();
    if let Some(child) = children.next() {
        broken.push(format!(
            "{}: {field} {name:?} has {count} children and takes no jobs itself, choose a leaf such as {child:?}",
            case.subject()
        ));
    }
}

fn open(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some((field, name, queue)) = reached(case) else {
        return;
    };
    match closed_by(case.view, queue) {
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

fn may_use(case: &Case<'_>) -> Option<Access> {
    let (field, name) = delivered(case).filter(|_| case.settings.queue_acl)?;
    Some(Access {
        verb: "use",
        queue: name.to_owned(),
        denied: format!(
            "{}: {field} {name:?} needs the right to use that queue, which user {:?} lacks: ask for it (verb use on queues/{name}) or choose another queue",
            case.subject(),
            case.request.user.name
        ),
    })
}
