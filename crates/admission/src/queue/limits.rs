//! The quantities of one queue: guarantee ≤ deserved ≤ capability, where they are set.

use basalt_api::Quantity;
use serde_json::Value;

use crate::read::at;
use crate::request::Operation::{Create, Update};
use crate::rule::{Case, Class, Rule};

pub(super) const QUANTITIES: Rule = Rule {
    id: "queue/quantities",
    about: "quantities can be read and are not negative; pods and extended resources are whole",
    class: Class::Invalid,
    operations: &[Create, Update],
    check: quantities,
};
pub(super) const ORDERED: Rule = Rule {
    id: "queue/limits-ordered",
    about: "guarantee is at most deserved, deserved at most capability, in each dimension that both set",
    class: Class::Invalid,
    operations: &[Create, Update],
    check: ordered,
};

const LISTS: [&str; 3] = ["guarantee.resource", "deserved", "capability"];

fn list<'a>(queue: &'a Value, name: &str) -> &'a Value {
    at(queue, &format!("/spec/{}", name.replace('.', "/")))
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), value))
}

/// A quantity as it may be written: text or number.
fn read(value: &Value) -> Result<Quantity, String> {
    match value {
        Value::String(text) => Quantity::parse(text).map_err(|error| error.to_string()),
        Value::Number(number) => Quantity::parse(&number.to_string()).map_err(|error| error.to_string()),
        other => Err(format!("{other} is not a quantity")),
    }
}

/// Resources that come in pieces.
fn is_whole_only(name: &str) -> bool {
    name == "pods" || name.contains('/')
}

fn quantities(case: &Case<'_>, broken: &mut Vec<String>) {
    for name in LISTS {
        for (dimension, written) in entries(list(case.object, name)) {
            let place = format!("{}: spec.{name}[{dimension}]", case.subject());
            match read(written) {
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

/// A pair that was already wrong and is left alone may stay: the rest of the queue can be edited.
fn ordered(case: &Case<'_>, broken: &mut Vec<String>) {
    for (lower, upper) in [(LISTS[0], LISTS[1]), (LISTS[1], LISTS[2]), (LISTS[0], LISTS[2])] {
        for (dimension, written) in entries(list(case.object, lower)) {
            let limit = at_key(list(case.object, upper), dimension);
            let (Ok(amount), Ok(most)) = (read(written), read(limit)) else {
                continue;
            };
            let same = |list_name| {
                case.old
                    .is_some_and(|old| list(old, list_name) == list(case.object, list_name))
            };
            if amount > most && !(same(lower) && same(upper)) {
                broken.push(format!(
                    "{}: spec.{lower}[{dimension}] is {amount}, more than spec.{upper}[{dimension}], which is {most}: lower the one or raise the other",
                    case.subject()
                ));
            }
        }
    }
}

fn at_key<'a>(map: &'a Value, key: &str) -> &'a Value {
    map.get(key).unwrap_or(&Value::Null)
}
