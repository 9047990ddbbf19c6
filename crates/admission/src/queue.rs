//! Queues: defaults, the shape of the tree, and what may be deleted.

mod limits;

use std::collections::BTreeSet;
use std::sync::Arc;

use basalt_api::names;
use serde_json::{Value, json};

use crate::read::{absent_or_zero, annotation, at, set, text};
use crate::request::Operation::{Create, Delete, Update};
use crate::request::{Request, View};
use crate::rule::{Case, Class, Rule};

/// Name of the resource in storage.
pub(crate) const RESOURCE: &str = "queues.scheduling.volcano.sh";
/// Levels under the root that a tree may have.
const DEPTH_MAX: usize = 5;
/// Steps of a walk towards the root; more means a cycle that was stored by other means.
const WALK_MAX: usize = 64;
const WEIGHT_MAX: i64 = 65_535;

/// The parent of a queue: `root` where none is written, empty for `root` itself.
pub(crate) fn parent_of(queue: &Value) -> &str {
    match (text(queue, "/metadata/name"), text(queue, "/spec/parent")) {
        (names::ROOT_QUEUE, _) => "",
        (_, "") => names::ROOT_QUEUE,
        (_, parent) => parent,
    }
}

/// One stored queue.
pub(crate) fn get(view: &dyn View, name: &str) -> Option<Arc<Value>> {
    view.get(RESOURCE, "", name)
}

/// Why deliveries to this queue are refused: itself or the nearest ancestor with `spec.state` Closed.
pub(crate) fn closed_by(view: &dyn View, queue: &Value) -> Option<String> {
    let name = |queue: &Value| text(queue, "/metadata/name").to_owned();
    // The root cannot be closed, whatever was written into it.
    let closed = |queue: &Value| text(queue, "/spec/state") == "Closed" && name(queue) != names::ROOT_QUEUE;
    if closed(queue) {
        return Some(name(queue));
    }
    let mut above = get(view, parent_of(queue));
    for _ in 0..WALK_MAX {
        let here = above?;
        if closed(&here) {
            return Some(name(&here));
        }
        above = get(view, parent_of(&here));
    }
    None
}

/// Fills in what the user left out. An absent state on update keeps the stored one, so that a
/// client that does not know the field never opens or closes a queue by accident.
pub(crate) fn default(request: &Request<'_>, object: &mut Value) {
    let root = request.name == names::ROOT_QUEUE;
    if absent_or_zero(object, "/spec/weight") {
        set(object, "/spec", "weight", json!(1));
    }
    if at(object, "/spec/reclaimable").is_null() {
        set(object, "/spec", "reclaimable", json!(!root));
    }
    if text(object, "/spec/parent").is_empty() && !root {
        set(object, "/spec", "parent", json!(names::ROOT_QUEUE));
    }
    if matches!(at(object, "/spec/state"), Value::Null) || at(object, "/spec/state") == "" {
        let stored = request
            .old
            .map(|old| text(old, "/spec/state"))
            .filter(|state| !state.is_empty());
        set(object, "/spec", "state", json!(stored.unwrap_or("Open")));
    }
    if request.operation == Create {
        root_hierarchy(object);
    }
}

/// Clients that do not know our additions drop them when they write a whole queue: say so.
pub(crate) fn warnings(object: &Value, old: &Value) -> Vec<String> {
    let dropped = |field: &&str| {
        let pointer = format!("/spec/guarantee/{field}");
        !at(old, &pointer).is_null() && at(object, &pointer).is_null()
    };
    let fields = ["policy", "percentage"].into_iter().filter(dropped);
    let name = text(old, "/metadata/name");
    fields
        .map(|field| format!("Queue {name}: spec.guarantee.{field} was set and is not any more"))
        .collect()
}

/// The old hierarchy annotations always start at the root.
fn root_hierarchy(object: &mut Value) {
    let path = annotation(object, names::HIERARCHY).to_owned();
    let weights = annotation(object, names::HIERARCHY_WEIGHTS).to_owned();
    let rooted = path == names::ROOT_QUEUE || path.starts_with("root/");
    if !path.is_empty() && !weights.is_empty() && !rooted {
        set(
            object,
            "/metadata/annotations",
            names::HIERARCHY,
            json!(format!("root/{path}")),
        );
        set(
            object,
            "/metadata/annotations",
            names::HIERARCHY_WEIGHTS,
            json!(format!("1/{weights}")),
        );
    }
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "queue/state-value",
        about: "spec.state is Open or Closed; Closing is what status says on the way",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: state_value,
    },
    Rule {
        id: "queue/weight",
        about: "spec.weight is between 1 and 65535",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: weight,
    },
    limits::QUANTITIES,
    limits::ORDERED,
    Rule {
        id: "queue/root-fixed",
        about: "root has no parent and cannot be closed",
        class: Class::Forbidden,
        operations: &[Create, Update],
        check: root_fixed,
    },
    Rule {
        id: "queue/parent-self",
        about: "a queue is not its own parent",
        class: Class::Invalid,
        operations: &[Create, Update],
        check: parent_self,
    },
    Rule {
        id: "queue/parent-exists",
        about: "the parent exists and is not being deleted",
        class: Class::Forbidden,
        operations: &[Create, Update],
        check: parent_exists,
    },
    Rule {
        id: "queue/parent-cycle",
        about: "a queue is not moved under one of its own descendants",
        class: Class::Forbidden,
        operations: &[Create, Update],
        check: parent_cycle,
    },
    Rule {
        id: "queue/depth",
        about: "the tree has at most 5 levels under root",
        class: Class::Forbidden,
        operations: &[Create, Update],
        check: depth,
    },
    Rule {
        id: "queue/delete-protected",
        about: "default and root always exist",
        class: Class::Forbidden,
        operations: &[Delete],
        check: delete_protected,
    },
    Rule {
        id: "queue/delete-children",
        about: "a queue with children is not deleted",
        class: Class::Forbidden,
        operations: &[Delete],
        check: delete_children,
    },
    Rule {
        id: "queue/delete-closed",
        about: "only a queue that is Closed, and still wanted so, is deleted",
        class: Class::Forbidden,
        operations: &[Delete],
        check: delete_closed,
    },
];

fn state_value(case: &Case<'_>, broken: &mut Vec<String>) {
    let state = at(case.object, "/spec/state");
    if !matches!(state.as_str(), Some("Open" | "Closed")) {
        broken.push(format!(
            "{}: spec.state is {state}, but only \"Open\" or \"Closed\" can be asked for",
            case.subject()
        ));
    }
}

fn weight(case: &Case<'_>, broken: &mut Vec<String>) {
    let weight = at(case.object, "/spec/weight");
    if !weight.as_i64().is_some_and(|weight| (1..=WEIGHT_MAX).contains(&weight)) {
        broken.push(format!(
            "{}: spec.weight is {weight}, choose a whole number from 1 to {WEIGHT_MAX}",
            case.subject()
        ));
    }
}

fn root_fixed(case: &Case<'_>, broken: &mut Vec<String>) {
    if case.request.name != names::ROOT_QUEUE {
        return;
    }
    let parent = text(case.object, "/spec/parent");
    if !parent.is_empty() {
        broken.push(format!(
            "Queue root: spec.parent is {parent:?}, but root is the top of the tree: leave it empty"
        ));
    }
    if text(case.object, "/spec/state") == "Closed" {
        broken.push(
            "Queue root: spec.state is \"Closed\", but root cannot be closed: close its children instead".to_owned(),
        );
    }
}

/// The parent if this request sets or changes it. An unchanged parent is not judged again: a
/// damaged tree can still be edited elsewhere.
fn new_parent<'a>(case: &'a Case<'_>) -> Option<&'a str> {
    let parent = parent_of(case.object);
    let changed = case.old.is_none_or(|old| parent_of(old) != parent);
    (changed && !parent.is_empty()).then_some(parent)
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
    let Some(parent) = new_parent(case) else { return };
    // The root is made by the controller; a tree can be applied before it has.
    if parent == names::ROOT_QUEUE || parent == case.request.name {
        return;
    }
    match get(case.view, parent) {
        None => broken.push(format!(
            "{}: spec.parent {parent:?} does not exist, create it first",
            case.subject()
        )),
        Some(queue) if !at(&queue, "/metadata/deletionTimestamp").is_null() => {
            broken.push(format!(
                "{}: spec.parent {parent:?} is being deleted, choose another",
                case.subject()
            ));
        }
        Some(_) => {}
    }
}

/// Names from `start` upwards, without `root`; ends early at a missing queue or a stored cycle.
fn upwards(view: &dyn View, start: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut path = Vec::new();
    let mut here = start.to_owned();
    while !here.is_empty() && here != names::ROOT_QUEUE && path.len() < WALK_MAX && seen.insert(here.clone()) {
        let parent = get(view, &here).map(|queue| parent_of(&queue).to_owned());
        path.push(here);
        here = parent.unwrap_or_default();
    }
    path
}

fn parent_cycle(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some(parent) = new_parent(case).filter(|parent| *parent != case.request.name) else {
        return;
    };
    let path = upwards(case.view, parent);
    if let Some(end) = path.iter().position(|name| name == case.request.name) {
        let route = path
            .iter()
            .take(end + 1)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" → ");
        broken.push(format!(
            "{}: spec.parent {parent:?} lies under this queue ({route}), choose a queue that does not",
            case.subject()
        ));
    }
}

/// Levels of the subtree below a queue, counted no further than the limit needs. A queue is counted
/// once: a stored cycle must not keep anyone from untying it.
fn height(view: &dyn View, name: &str) -> usize {
    let mut seen = BTreeSet::from([name.to_owned()]);
    let mut level = vec![name.to_owned()];
    for depth in 0..DEPTH_MAX {
        let children = level.iter().flat_map(|parent| view.children(parent));
        level = children
            .map(|child| text(&child, "/metadata/name").to_owned())
            .filter(|name| seen.insert(name.clone()))
            .collect();
        if level.is_empty() {
            return depth;
        }
    }
    DEPTH_MAX
}

fn depth(case: &Case<'_>, broken: &mut Vec<String>) {
    let Some(parent) = new_parent(case) else { return };
    let above = upwards(case.view, parent);
    if above.iter().any(|name| name == case.request.name) {
        return;
    }
    let below = if case.old.is_some() {
        height(case.view, case.request.name)
    } else {
        0
    };
    let levels = above.len() + 1 + below;
    if levels > DEPTH_MAX {
        broken.push(format!(
            "{}: under spec.parent {parent:?} the tree would have {levels} levels, at most {DEPTH_MAX} are allowed: choose a higher parent",
            case.subject()
        ));
    }
}

fn delete_protected(case: &Case<'_>, broken: &mut Vec<String>) {
    if matches!(case.request.name, names::ROOT_QUEUE | names::DEFAULT_QUEUE) {
        broken.push(format!(
            "{}: this queue always exists and cannot be deleted",
            case.subject()
        ));
    }
}

fn delete_children(case: &Case<'_>, broken: &mut Vec<String>) {
    let children = case.view.children(case.request.name);
    let Some(first) = children.first() else { return };
    broken.push(format!(
        "{}: has {} children ({:?} is one), delete them first",
        case.subject(),
        children.len(),
        text(first, "/metadata/name")
    ));
}

fn delete_closed(case: &Case<'_>, broken: &mut Vec<String>) {
    let state = match text(case.object, "/status/state") {
        "" => "Open",
        state => state,
    };
    if state != "Closed" {
        broken.push(format!(
            "{}: status.state is {state:?}, only a Closed queue can be deleted: set spec.state to \"Closed\" and let its jobs end",
            case.subject()
        ));
    } else if closed_by(case.view, case.object).is_none() {
        broken.push(format!(
            "{}: spec.state asks for \"Open\" again, only a queue that stays Closed can be deleted",
            case.subject()
        ));
    }
}
