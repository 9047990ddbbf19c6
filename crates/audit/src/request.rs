//! What a pod asks of a node.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::quantity::{Nano, parse};
use crate::read::{at, entries, list, text};

/// Amounts by resource name.
pub(crate) type Amounts<'a> = BTreeMap<&'a str, Nano>;

/// What a pod takes from its node. Names of quantities that cannot be read go to `unread`.
///
/// Containers and sidecars run together; an ordinary init container runs alone with the sidecars
/// that started before it. The pod takes the larger of both, and its overhead. Requests written for
/// the pod as a whole replace the sum.
pub(crate) fn of_pod<'a>(pod: &'a Value, unread: &mut Vec<String>) -> Amounts<'a> {
    let mut together = Amounts::new();
    let mut peak = Amounts::new();
    for container in list(pod, &["spec", "initContainers"]) {
        let mut need = of_container(container, unread);
        if text(container, &["restartPolicy"]) == "Always" {
            add(&mut together, &need);
            need = together.clone();
        } else {
            add(&mut need, &together);
        }
        raise(&mut peak, &need);
    }
    for container in list(pod, &["spec", "containers"]) {
        add(&mut together, &of_container(container, unread));
    }
    raise(&mut peak, &together);
    for (name, amount) in resources(at(pod, &["spec", "resources"]), unread) {
        peak.insert(name, amount);
    }
    add(&mut peak, &amounts(at(pod, &["spec", "overhead"]), unread));
    peak
}

fn of_container<'a>(container: &'a Value, unread: &mut Vec<String>) -> Amounts<'a> {
    resources(at(container, &["resources"]), unread)
}

/// Requests; a limit without a request counts as one.
fn resources<'a>(resources: &'a Value, unread: &mut Vec<String>) -> Amounts<'a> {
    let mut need = amounts(at(resources, &["limits"]), unread);
    need.extend(amounts(at(resources, &["requests"]), unread));
    need
}

/// A resource list as amounts.
pub(crate) fn amounts<'a>(map: &'a Value, unread: &mut Vec<String>) -> Amounts<'a> {
    let mut amounts = Amounts::new();
    for (name, quantity) in entries(map, &[]) {
        match parse(quantity) {
            Some(amount) => drop(amounts.insert(name, amount)),
            None => unread.push(format!("{name}: {quantity}")),
        }
    }
    amounts
}

/// Adds up.
pub(crate) fn add<'a>(sum: &mut Amounts<'a>, more: &Amounts<'a>) {
    for (name, amount) in more {
        let total = sum.entry(name).or_default();
        *total = total.saturating_add(*amount);
    }
}

fn raise<'a>(peak: &mut Amounts<'a>, other: &Amounts<'a>) {
    for (name, amount) in other {
        let most = peak.entry(name).or_default();
        *most = (*most).max(*amount);
    }
}
