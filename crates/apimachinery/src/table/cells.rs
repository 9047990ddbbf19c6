//! Single cells: ages, lists, and what a custom column shows.

use crate::json::string_at;
use jiff::Timestamp;
use serde_json::Value;

/// Text at a pointer, or `<none>`.
pub(super) fn or_none(object: &Value, pointer: &str) -> Value {
    none_if_empty(string_at(object, pointer))
}

/// The text, or `<none>`.
pub(super) fn none_if_empty(text: &str) -> Value {
    Value::from(if text.is_empty() { "<none>" } else { text })
}

/// How many entries the map or list at a pointer has.
pub(super) fn size(object: &Value, pointer: &str) -> usize {
    match object.pointer(pointer) {
        Some(Value::Object(fields)) => fields.len(),
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    }
}

/// A map of text as `a=b,c=d`, or `<none>`.
pub(super) fn pairs(map: Option<&Value>) -> Value {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    let entries: Vec<String> = entries.map(|(key, value)| format!("{key}={}", plain(value))).collect();
    none_if_empty(&entries.join(","))
}

/// A value as plain words: strings without quotes, the rest as JSON.
pub(super) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The name of an object.
pub(super) fn name(object: &Value) -> Value {
    Value::from(string_at(object, "/metadata/name"))
}

/// The age of an object.
pub(super) fn object_age(object: &Value, now: Timestamp) -> Value {
    Value::from(since(string_at(object, "/metadata/creationTimestamp"), now))
}

/// How long ago a time was; `<unknown>` if it is no time.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    time.parse::<Timestamp>().map_or_else(
        |_| "<unknown>".to_owned(),
        |time| age(now.as_second().saturating_sub(time.as_second())),
    )
}

/// Seconds as kubectl writes ages: two units at most, coarser with time.
pub fn age(seconds: i64) -> String {
    let pair = |whole: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 {
            format!("{whole}{unit}")
        } else {
            format!("{whole}{unit}{rest}{small}")
        }
    };
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

/// The cell of a custom column: what its path found, in the column's type; null if nothing.
pub(super) fn custom(found: &[&Value], kind: &str, now: Timestamp) -> Value {
    let Some(first) = found.first().filter(|value| !value.is_null()) else {
        return Value::Null;
    };
    match kind {
        "integer" => match first {
            Value::Number(number) => number
                .as_i64()
                .or_else(|| number.as_f64().map(|fraction| fraction as i64))
                .map_or(Value::Null, Value::from),
            _ => Value::Null,
        },
        "number" if first.is_number() => (*first).clone(),
        "boolean" if first.is_boolean() => (*first).clone(),
        "number" | "boolean" => Value::Null,
        "date" => match first.as_str() {
            Some(time) if time.parse::<Timestamp>().is_ok() => Value::from(since(time, now)),
            _ => Value::from("<invalid>"),
        },
        _ => Value::from(found.iter().map(|value| plain(value)).collect::<Vec<_>>().join(" ")),
    }
}
