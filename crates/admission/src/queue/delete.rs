//! Which queue may be deleted, and when one that is being deleted may go. The finalizer lets the controller
//! delete its children and what is left in it first; the controller may not have seen all of that yet.

use basalt_api::json::{list_at, string_at};
use basalt_api::names;
use serde_json::Value;

use super::closed_by;
use crate::request::Operation::{Delete, Update};
use crate::rule::{Case, Rule};
use crate::view::{Measure, parent_of};

pub(crate) const RULES: &[Rule] = &[
    Rule::forbidden("queue/delete-protected", "default and root always exist", protected).on(&[Delete]),
    Rule::forbidden(
        "queue/delete-closed",
        "only a queue whose status.state is Closed is deleted",
        closed,
    )
    .on(&[Delete]),
    Rule::forbidden(
        "queue/delete-wanted",
        "only a queue that is still wanted closed, by itself or an ancestor, is deleted",
        wanted,
    )
    .on(&[Delete]),
    Rule::forbidden(
        "queue/delete-descendants",
        "only a queue whose descendants are all Closed is deleted",
        descendants,
    )
    .on(&[Delete]),
    Rule::forbidden(
        "queue/delete-unfinished",
        "a queue with an unfinished Job is not deleted, whatever its status says",
        unfinished,
    )
    .on(&[Delete]),
];

/// What holds for a queue that is being deleted.
pub(crate) const END_RULES: &[Rule] = &[
    Rule::forbidden(
        "queue/finalizer-held",
        "the finalizer of a queue that is being deleted stays while the queue has children, or Jobs, PodGroups or lone pods that have not ended",
        held,
    )
    .on(&[Update]),
    Rule::forbidden(
        "queue/deleting-stays",
        "a queue that is being deleted is not moved",
        stays,
    )
    .on(&[Update]),
];

/// Whether the queue always exists: removed by force, it comes back at once.
fn is_standard(case: &Case<'_>) -> bool {
    matches!(case.request.name, names::ROOT_QUEUE | names::DEFAULT_QUEUE)
}

fn protected(case: &Case<'_>, broken: &mut Vec<String>) {
    if is_standard(case) {
        broken.push(format!(
            "{}: this queue always exists and cannot be deleted",
            case.subject()
        ));
    }
}

fn state(queue: &Value) -> &str {
    match string_at(queue, "/status/state") {
        "" => "Open",
        state => state,
    }
}

fn closed(case: &Case<'_>, broken: &mut Vec<String>) {
    let state = state(case.object);
    if state != "Closed" {
        broken.push(format!(
            "{}: status.state is {state:?}, only a Closed queue can be deleted: set spec.state to \"Closed\" and let its jobs end",
            case.subject()
        ));
    }
}

fn wanted(case: &Case<'_>, broken: &mut Vec<String>) {
    if closed_by(case.view, case.object).is_none() {
        broken.push(format!(
            "{}: spec.state asks for {:?}, only a queue that is wanted closed can be deleted: set spec.state to \"Closed\"",
            case.subject(),
            string_at(case.object, "/spec/state")
        ));
    }
}

fn descendants(case: &Case<'_>, broken: &mut Vec<String>) {
    let tree = case.view.tree();
    let Some(tally) = tree.tally(case.request.name, &Measure::Unclosed) else {
        return;
    };
    if let Some((1.., child)) = tally.largest() {
        broken.push(format!(
            "{}: {} of the queues below it are not Closed yet ({child:?} or one below that): wait until status.state is \"Closed\" in all of them",
            case.subject(),
            tally.sum
        ));
    }
}

fn unfinished(case: &Case<'_>, broken: &mut Vec<String>) {
    let held = case.view.holders().unfinished(case.request.name);
    if let Some(first) = held.first().filter(|_| held.jobs() > 0) {
        broken.push(format!(
            "{}: holds {} unfinished Jobs ({first} is one), let them end or delete them first",
            case.subject(),
            held.jobs()
        ));
    }
}

/// It goes from where it is: moved below one of its own descendants, it would close a circle that nobody ends.
fn stays(case: &Case<'_>, broken: &mut Vec<String>) {
    let (parent, before) = (parent_of(case.object), case.old.map(parent_of));
    if let Some(before) = before.filter(|before| *before != parent) {
        broken.push(format!(
            "{}: spec.parent is {parent:?} and was {before:?}, but the queue is being deleted: leave it where it is",
            case.subject()
        ));
    }
}

fn held(case: &Case<'_>, broken: &mut Vec<String>) {
    let has = |queue: &Value| {
        let mut finalizers = list_at(queue, "/metadata/finalizers").iter();
        finalizers.any(|finalizer| finalizer == names::QUEUE_FINALIZER)
    };
    if is_standard(case) || has(case.object) || !case.old.is_some_and(has) {
        return;
    }
    let name = case.request.name;
    let mut children = case.view.tree().children(name);
    let count = children.len();
    if let Some(child) = children.next() {
        broken.push(format!(
            "{}: the finalizer {} stays, for {count} queues are still below it ({child:?} is one): they go first",
            case.subject(),
            names::QUEUE_FINALIZER
        ));
    }
    let unfinished = case.view.holders().unfinished(name);
    if let Some(first) = unfinished.first() {
        broken.push(format!(
            "{}: the finalizer {} stays, for {} Jobs, PodGroups and lone pods in it have not ended ({first} is one): let them end or delete them first",
            case.subject(),
            names::QUEUE_FINALIZER,
            unfinished.len()
        ));
    }
}
