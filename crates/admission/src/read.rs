//! Reading JSON that nobody has promised anything about.

use serde_json::Value;

const NULL: &Value = &Value::Null;

/// The value at a JSON pointer, or null.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    let mut names = pointer.split('/').skip(1);
    // As `Value::pointer` does, but without copying every name on the way: rules ask often, and no name has a `~` in it.
    names
        .try_fold(value, |here, name| match here {
            Value::Object(map) => map.get(name),
            Value::Array(list) => list.get(name.parse::<usize>().ok()?),
            _ => None,
        })
        .unwrap_or(NULL)
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
    let here = at(value, pointer);
    here.is_null() || here == ""
}

/// Whether something is written that is not a whole number in the range.
pub(crate) fn outside(value: &Value, range: &std::ops::RangeInclusive<i64>) -> bool {
    !value.is_null() && !value.as_i64().is_some_and(|number| range.contains(&number))
}
