//! Where a queue stands in the tree.

use basalt_api::json::{string_at, value_or_null};
use basalt_api::names;

use crate::read::brief;
use crate::rule::{Case, Rule};
use crate::view::{Measure, Tally, parent_of};

pub(super) const ROOT_FIXED: Rule = Rule::forbidden(
    "queue/root-fixed",
    "root has no parent and cannot be closed, and its quantities are the cluster's",
    root_fixed,
);
pub(super) const PARENT_SELF: Rule = Rule::forbidden("queue/parent-self", "a queue is not its own parent", parent_self);
pub(super) const PARENT_EXISTS: Rule = Rule::forbidden("queue/parent-exists", "the parent exists", parent_exists);
pub(super) const PARENT_DELETING: Rule = Rule::forbidden(
    "queue/parent-deleting",
    "the parent is not being deleted",
    parent_deleting,
);
pub(super) const PARENT_CYCLE: Rule = Rule::forbidden(
    "queue/parent-cycle",
    "a queue is not moved under one of its own descendants",
    parent_cycle,
);
pub(super) const DEPTH: Rule = Rule::forbidden(
    "queue/depth",
    "the tree has at most so many levels under root as the settings say (5)",
    depth,
);
pub(super) const PARENT_HOLDS: Rule = Rule::forbidden(
    "queue/parent-holds",
    "a queue that becomes a parent holds no unfinished Jobs or PodGroups",
    parent_holds,
);

/// The parent if this request sets or changes it. An unchanged parent is not judged again: a
/// damaged tree can still be edited elsewhere.
fn new_parent<'a>(case: &'a Case<'_>) -> Option<&'a str> {
    let parent = parent_of(case.object);
    let changed = case.old.is_none_or(|old| parent_of(old) != parent);
    (changed && !parent.is_empty()).then_some(parent)
}

fn root_fixed(case: &Case<'_>, broken: &mut Vec<String>) {
    if case.request.name != names::ROOT_QUEUE {
        return;
    }
    let parent = string_at(case.object, "/spec/parent");
    if !parent.is_empty() {
        broken.push(format!(
            "Queue root: spec.parent is {parent:?}, but root is the top of the tree: leave it empty"
        ));
    }
    if string_at(case.object, "/spec/state") == "Closed" {
        broken.push(
            "Queue root: spec.state is \"Closed\", but root cannot be closed: close its children instead".to_owned(),
        );
    }
    for name in ["capability", "deserved", "guarantee"] {
        let pointer = format!("/spec/{name}");
        let value = value_or_null(case.object, &pointer);
        let says_nothing = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
        if !says_nothing && case.old.is_none_or(|old| value_or_null(old, &pointer) != value) {
            broken.push(format!(
                "Queue root: spec.{name} is {}, but root is what the cluster has: leave it out",
                brief(value)
            ));
        }
    }
}

fn parent_self(case: &Case<'_>, broken: &mut Vec<String>) {
    if new_parent(case) == Some(case.request.name) {
        broken.push(format!(
            "{}: spec.parent is the queue itself, choose another queue or \"root\"",
            case.subject()
        ));
    }
}

fn parent_exists(case: &Case<'_>, broken: &mut Vec<String>) {
    // The root is made by the controller; a tree can be applied before it has.
    let Some(parent) = new_parent(case).filter(|parent| *parent != names::ROOT_QUEUE) else {
        return;
    };
    if parent != case.request.name && case.view.queue(parent).is_none() {
        broken.push(format!(
            "{}: spec.parent {parent:?} does not exist, create it first",
            case.subject()
        ));
    }
}

fn parent_deleting(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some(parent) = new_parent(case) else { return };
    let leaving = |queue| !value_or_null(queue, "/metadata/deletionTimestamp").is_null();
    if case.view.queue(parent).is_some_and(leaving) {
        broken.push(format!(
            "{}: spec.parent {parent:?} is being deleted, choose another",
            case.subject()
        ));
    }
}

fn parent_cycle(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some(parent) = new_parent(case).filter(|parent| *parent != case.request.name) else {
        return;
    };
    let path = case.view.tree().upwards(parent);
    if let Some(end) = path.iter().position(|name| *name == case.request.name) {
        let route: Vec<&str> = path.into_iter().take(end + 1).collect();
        broken.push(format!(
            "{}: spec.parent {parent:?} lies under this queue ({}), choose a queue that does not",
            case.subject(),
            route.join(" → ")
        ));
    }
}

fn depth(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some(parent) = new_parent(case) else { return };
    let tree = case.view.tree();
    let above = tree.upwards(parent);
    if above.contains(&case.request.name) {
        return;
    }
    let below = tree
        .tally(case.request.name, &Measure::Levels)
        .filter(|_| !tree.is_tied(case.request.name))
        .and_then(Tally::largest)
        .map_or(0, |(levels, _)| usize::try_from(levels).unwrap_or(usize::MAX));
    let (levels, most) = (below.saturating_add(above.len() + 1), case.settings.queue_depth_max);
    if levels > most {
        broken.push(format!(
            "{}: under spec.parent {parent:?} the tree would have {levels} levels, at most {most} are allowed: choose a higher parent",
            case.subject()
        ));
    }
}

/// A queue that has children already takes another one whatever is in it: that does not change what
/// it is. The root is a parent from the start.
fn parent_holds(case: &Case<'_>, broken: &mut Vec<String>) {
    let may_be_leaf = |parent: &&str| *parent != case.request.name && *parent != names::ROOT_QUEUE;
    let Some(parent) = new_parent(case).filter(may_be_leaf) else {
        return;
    };
    if case
        .view
        .tree()
        .children(parent)
        .any(|child| child != case.request.name)
    {
        return;
    }
    let held = case.view.holders().unfinished(parent);
    if let Some(first) = held.first() {
        broken.push(format!(
            "{}: spec.parent {parent:?} holds {} unfinished Jobs and PodGroups ({first} is one) and only a queue without any can get children: let them end, move or delete them, or choose another parent",
            case.subject(),
            held.len()
        ));
    }
}
