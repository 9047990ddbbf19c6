//! The quantities of one queue: guarantee ≤ deserved ≤ capability, where they are set.

use serde_json::Value;

use crate::quantities::{amount, amounts, entries, quantity};
use crate::read::{at, brief};
use crate::rule::{Case, Rule};

pub(super) const QUANTITIES: Rule = Rule::invalid(
    "queue/quantities",
    "quantities can be read and are not negative; pods and extended resources are whole",
    quantities,
);
pub(super) const ORDERED: Rule = Rule::invalid(
    "queue/limits-ordered",
    "guarantee is at most deserved, deserved at most capability, in each dimension that both set",
    ordered,
);

const LISTS: [&str; 3] = ["guarantee.resource", "deserved", "capability"];

fn list<'a>(queue: &'a Value, name: &str) -> &'a Value {
    at(queue, &format!("/spec/{}", name.replace('.', "/")))
}

/// Resources that come in pieces.
fn is_whole_only(name: &str) -> bool {
    name == "pods" || name.contains('/')
}

fn quantities(case: &Case<'_>, broken: &mut Vec<String>) {
    for name in LISTS {
        let values = list(case.object, name);
        if !values.is_null() && !values.is_object() {
            broken.push(format!(
                "{}: spec.{name} is {}, write a map of resources and quantities",
                case.subject(),
                brief(values)
            ));
        }
        for (dimension, written) in entries(values) {
            let place = format!("{}: spec.{name}[{dimension}]", case.subject());
            match quantity(written) {
                Err(error) => broken.push(format!("{place}: {error}")),
                Ok(amount) if amount.is_negative() => broken.push(format!("{place} is {amount}, choose 0 or more")),
                Ok(amount) if is_whole_only(dimension) && !amount.is_whole() => {
                    broken.push(format!("{place} is {amount}, choose a whole number"));
                }
                Ok(_) => {}
            }
        }
    }
}

/// A pair that was already wrong and is not made worse may stay: the rest of the queue can be edited.
fn ordered(case: &Case<'_>, broken: &mut Vec<String>) {
    for (lower, upper) in [(LISTS[0], LISTS[1]), (LISTS[1], LISTS[2]), (LISTS[0], LISTS[2])] {
        for (dimension, least) in amounts(list(case.object, lower)) {
            let Some(most) = amount(list(case.object, upper), dimension) else {
                continue;
            };
            let before = |name| case.old.and_then(|old| amount(list(old, name), dimension));
            let raised = before(lower).is_none_or(|before| least > before);
            let lowered = before(upper).is_none_or(|before| most < before);
            if least > most && (raised || lowered) {
                broken.push(format!(
                    "{}: spec.{lower}[{dimension}] is {least}, more than spec.{upper}[{dimension}], which is {most}: lower the one or raise the other",
                    case.subject()
                ));
            }
        }
    }
}
