//! Small questions about single JSON values.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

use core::net::{Ipv4Addr, Ipv6Addr};

/// The JSON Schema name of a value's type.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Beyond this not every whole number is a float: 2^53 - 1.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;

/// Whether a value is a whole number (`1` and `1.0` both are) that fits in 64 bits.
pub(super) fn is_integer(value: &Value) -> bool {
    value.is_i64() || (value.is_f64() && value.as_f64().is_some_and(is_whole))
}

fn is_whole(number: f64) -> bool {
    number.fract() == 0.0 && number.abs() <= WHOLE_MAX
}

/// Writes whole floats (`2.0`) as integers (`2`), as Go's encoder does: typed clients read nothing else into integers.
pub fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().filter(|number| is_whole(*number)) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(fields) => fields.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// Equality in which `1` equals `1.0`.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => left == right,
    }
}

/// The positions of values that were there before, each value reported once.
pub(super) fn repeated(entries: &[Value]) -> Vec<usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut positions = Vec::new();
    for (position, entry) in entries.iter().enumerate() {
        let count = seen.entry(entry.to_string()).or_default();
        *count += 1;
        if *count == 2 {
            positions.push(position);
        }
    }
    positions
}

/// The first value that is there twice.
pub(super) fn first_repeated<'a>(entries: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    let mut seen = BTreeSet::new();
    entries.into_iter().find(|entry| !seen.insert(entry.to_string()))
}

/// Whether text has a named format; formats that we do not know hold for every text.
pub(super) fn has_format(text: &str, format: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "byte" => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD
                .decode(text.replace(['\r', '\n'], ""))
                .is_ok()
        }
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uuid" => is_uuid(text),
        "email" => text
            .split_once('@')
            .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()),
        "hostname" => !text.is_empty() && text.len() <= 255 && !text.contains(|sign: char| sign.is_whitespace()),
        _ => true,
    }
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let shaped = lengths == [8, 4, 4, 4, 12] || lengths == [32];
    shaped
        && groups
            .iter()
            .all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
