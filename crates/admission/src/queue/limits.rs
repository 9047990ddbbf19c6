//! The quantities of one queue: guarantee ≤ deserved ≤ capability, where they are set, also of a guarantee that is a
//! percentage.

use basalt_api::json::value_or_null;
use serde_json::Value;

use crate::quantities::{amount, amounts, entries, is_resource, quantity, share_of, shares, written};
use crate::read::brief;
use crate::rule::{Case, Rule};

pub(super) const QUANTITIES: Rule = Rule::invalid(
    "queue/quantities",
    "quantities can be read, have the names of resources and are not negative; pods and extended resources are whole",
    quantities,
);
pub(super) const ORDERED: Rule = Rule::invalid(
    "queue/limits-ordered",
    "guarantee is at most deserved, deserved at most capability, in each dimension that both set",
    ordered,
);

pub(super) const PERCENTAGE: Rule = Rule::forbidden(
    "queue/percentage-within-limits",
    "spec.guarantee.percentage of what the nodes offer is at most deserved and capability, in each dimension that both set",
    percentage,
);

const LISTS: [&str; 3] = ["guarantee.resource", "deserved", "capability"];

fn list<'a>(queue: &'a Value, name: &str) -> &'a Value {
    value_or_null(queue, &format!("/spec/{}", name.replace('.', "/")))
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
            if !is_resource(dimension) {
                broken.push(format!(
                    "{place} has no name of a resource, write for example cpu or nvidia.com/gpu"
                ));
            }
            match quantity(written) {
                Err(error) => broken.push(format!("{place}: {error}, write for example {}", example(dimension))),
                Ok(amount) if amount.is_negative() => broken.push(format!("{place} is {amount}, choose 0 or more")),
                Ok(amount) if is_whole_only(dimension) && !amount.is_whole() => {
                    broken.push(format!("{place} is {amount}, choose a whole number"));
                }
                Ok(_) => {}
            }
        }
    }
}

/// How a quantity of this is written.
fn example(dimension: &str) -> &'static str {
    match dimension {
        "cpu" => "2 (cores) or 500m",
        "memory" | "ephemeral-storage" => "4Gi or 4G",
        _ => "2",
    }
}

/// As `ordered`, for a percentage: it weighs what the nodes offer now.
fn percentage(case: &Case<'_>, broken: &mut Vec<String>) {
    for (dimension, share) in shares(case.object) {
        let Some(total) = case.view.cluster_total(dimension) else {
            continue;
        };
        let before = case
            .old
            .and_then(|old| shares(old).find(|(name, _)| *name == dimension));
        let raised = before.is_none_or(|(_, before)| share > before);
        for upper in [LISTS[1], LISTS[2]] {
            let Some(most) = amount(list(case.object, upper), dimension) else {
                continue;
            };
            let before = case.old.and_then(|old| amount(list(old, upper), dimension));
            let lowered = before.is_none_or(|before| most < before);
            let least = share_of(share, total);
            if least > most.nano() && (raised || lowered) {
                broken.push(format!(
                    "{}: spec.guarantee.percentage makes {} of {dimension}, more than spec.{upper}[{dimension}], which is {most}: lower the one or raise the other",
                    case.subject(),
                    written(least, most.format())
                ));
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
