//! Queues: defaults, the shape of the tree, what it may add up to, and what may be deleted.

mod delete;
mod limits;
mod place;
mod shape;
mod sums;

use basalt_api::json::{annotation, string_at, value_or_null};
use basalt_api::names;
use serde_json::{Value, json};

pub(crate) use delete::{END_RULES, RULES as DELETE_RULES};

use crate::read::{absent_or_zero, set, unset};
use crate::request::Operation::Create;
use crate::request::Request;
use crate::rule::{Case, Rule};
use crate::view::{View, parent_of};

/// Everything that must hold for a queue that is created or changed. What is wrong in itself comes
/// first; the sums come last, for only in a sound tree they mean something.
pub(crate) const RULES: &[Rule] = &[
    shape::STATE_VALUE,
    shape::WEIGHT,
    shape::GUARANTEE_POLICY,
    shape::GUARANTEE_PERCENTAGE,
    shape::HIERARCHY,
    limits::QUANTITIES,
    limits::ORDERED,
    limits::PERCENTAGE,
    place::ROOT_FIXED,
    place::PARENT_SELF,
    place::PARENT_EXISTS,
    place::PARENT_DELETING,
    place::PARENT_CYCLE,
    place::DEPTH,
    place::PARENT_HOLDS,
    sums::DESERVED_WITHIN_PARENT,
    sums::GUARANTEE_WITHIN_PARENT,
    sums::DESERVED_WITHIN_CLUSTER,
    sums::GUARANTEE_WITHIN_CLUSTER,
    sums::CAPABILITY_WITHIN_PARENT,
    sums::DESERVED_OF_CHILDREN,
    sums::GUARANTEE_OF_CHILDREN,
    sums::CAPABILITY_OF_CHILDREN,
];

/// Why deliveries to this queue are refused: itself or the nearest ancestor with `spec.state` Closed.
pub(crate) fn closed_by<'a>(view: &'a View, queue: &'a Value) -> Option<&'a str> {
    // The root cannot be closed, whatever was written into it.
    let closed = |queue: &Value| {
        string_at(queue, "/spec/state") == "Closed" && string_at(queue, "/metadata/name") != names::ROOT_QUEUE
    };
    if closed(queue) {
        return Some(string_at(queue, "/metadata/name"));
    }
    let above = view.tree().upwards(parent_of(queue));
    above.into_iter().find(|name| view.queue(name).is_some_and(closed))
}

/// Fills in what the user left out. An absent state on update keeps the stored one, so that a
/// client that does not know the field never opens or closes a queue by accident.
pub(crate) fn default(request: &Request<'_>, object: &mut Value) {
    let root = request.name == names::ROOT_QUEUE;
    if absent_or_zero(object, "/spec/weight") {
        set(object, "/spec", "weight", json!(1));
    }
    if value_or_null(object, "/spec/reclaimable").is_null() {
        set(object, "/spec", "reclaimable", json!(!root));
    }
    if unset(object, "/spec/parent") && !root {
        set(object, "/spec", "parent", json!(names::ROOT_QUEUE));
    }
    if unset(object, "/spec/state") {
        let stored = request
            .old
            .map(|old| string_at(old, "/spec/state"))
            .filter(|state| !state.is_empty());
        set(object, "/spec", "state", json!(stored.unwrap_or("Open")));
    }
    if request.operation == Create {
        root_hierarchy(object);
        add_finalizer(object);
    }
}

/// What the user should know though nothing is refused.
pub(crate) fn warnings(case: &Case<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(old) = case.request.old {
        // Clients that do not know our additions drop them when they write a whole queue. Who takes the guarantee itself
        // away means it.
        let kept = !value_or_null(case.object, "/spec/guarantee").is_null();
        for field in ["policy", "percentage"].iter().filter(|_| kept) {
            let pointer = format!("/spec/guarantee/{field}");
            if !value_or_null(old, &pointer).is_null() && value_or_null(case.object, &pointer).is_null() {
                warnings.push(format!(
                    "{}: spec.guarantee.{field} was set and is not any more",
                    case.subject()
                ));
            }
        }
    }
    let guarantee = |part: &str| value_or_null(case.object, &format!("/spec/guarantee/{part}"));
    let nothing = |value: &Value| value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    if !guarantee("policy").is_null() && nothing(guarantee("resource")) && nothing(guarantee("percentage")) {
        warnings.push(format!(
            "{}: spec.guarantee.policy is set, but nothing is guaranteed: add spec.guarantee.resource or .percentage",
            case.subject()
        ));
    }
    let opened = string_at(case.object, "/spec/state") == "Open"
        && case
            .request
            .old
            .is_none_or(|old| string_at(old, "/spec/state") == "Closed" || parent_of(old) != parent_of(case.object));
    if opened && let Some(ancestor) = closed_by(case.view, case.object) {
        warnings.push(format!(
            "{}: spec.state is \"Open\", but its ancestor {ancestor:?} is closed: it opens when that does",
            case.subject()
        ));
    }
    warnings
}

/// Lets the controller empty the queue before it goes.
fn add_finalizer(object: &mut Value) {
    let mut finalizers = match value_or_null(object, "/metadata/finalizers") {
        Value::Array(list) => list.clone(),
        _ => Vec::new(),
    };
    if !finalizers.iter().any(|found| found == names::QUEUE_FINALIZER) {
        finalizers.push(json!(names::QUEUE_FINALIZER));
        set(object, "/metadata", "finalizers", Value::Array(finalizers));
    }
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
