//! Reading JSON that nobody has promised anything about.

use serde_json::Value;

const NULL: &Value = &Value::Null;

/// The value at a JSON pointer, or null.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(NULL)
}

/// The text at a pointer; empty if absent or not a text.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).as_str().unwrap_or_default()
}

/// The whole number at a pointer, if there is one.
pub(crate) fn integer(value: &Value, pointer: &str) -> Option<i64> {
    at(value, pointer).as_i64()
}

/// Whether the number at a pointer says nothing: clients write an unset number as zero or leave it out.
pub(crate) fn absent_or_zero(value: &Value, pointer: &str) -> bool {
    let number = at(value, pointer);
    number.is_null() || number.as_i64() == Some(0)
}

/// The elements at a pointer; none if absent or not a list.
pub(crate) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    at(value, pointer).as_array().map_or(&[], Vec::as_slice)
}

/// The annotation `key` of an object; empty if absent.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    at(object, "/metadata/annotations")
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
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
