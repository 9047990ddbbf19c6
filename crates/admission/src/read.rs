//! Reading JSON that nobody has promised anything about.

use basalt_api::json::value_or_null;
use serde_json::Value;

/// Whether the number at a pointer says nothing: clients write an unset number as zero or leave it out.
pub(crate) fn absent_or_zero(value: &Value, pointer: &str) -> bool {
    let number = value_or_null(value, pointer);
    number.is_null() || number.as_i64() == Some(0)
}

/// Sets `key` of the map at `pointer` (created where absent). Nothing happens if something else
/// than a map is there: the schema refuses that object anyway.
pub(crate) fn set(object: &mut Value, pointer: &str, key: &str, value: Value) {
    let mut here = object;
    for step in pointer.split('/').filter(|step| !step.is_empty()) {
        let Some(map) = here.as_object_mut() else { return };
        here = map.entry(step).or_insert_with(|| Value::Object(serde_json::Map::new()));
        if here.is_null() {
            *here = Value::Object(serde_json::Map::new());
        }
    }
    if let Some(map) = here.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}

/// A text, cut where it is longer than messages should be.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A value as messages quote it.
pub(crate) fn brief(value: &Value) -> String {
    const MOST: usize = 80;
    match value {
        Value::Null => "absent".to_owned(),
        Value::String(text) => format!("{:?}", cut(text, MOST)),
        other => cut(&other.to_string(), MOST),
    }
}

/// Whether nothing is written at a pointer: absent, null or an empty text. Something of another type is not
/// nothing, and is not filled in over.
pub(crate) fn unset(value: &Value, pointer: &str) -> bool {
    let here = value_or_null(value, pointer);
    here.is_null() || here == ""
}

/// Whether something is written that is not a whole number in the range.
pub(crate) fn outside(value: &Value, range: &std::ops::RangeInclusive<i64>) -> bool {
    !value.is_null() && !value.as_i64().is_some_and(|number| range.contains(&number))
}
