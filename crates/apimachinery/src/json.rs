//! Reading JSON values of which nothing is known yet: absent, null and wrongly typed values read as empty.
//!
//! Pointers are those of RFC 6901 without escapes, and following one allocates nothing; keys that contain `/` or `~`
//! (annotations, labels) are read with [`annotation`] or `Value::get`.

use serde_json::{Map, Value};

/// Returns the value at a JSON pointer such as `/metadata/name`.
pub fn value_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    value_at_steps(value, pointer.split('/').skip(1))
}

/// Returns the value that is reached by following keys and list positions one after the other.
pub fn value_at_steps<'a, 's>(value: &'a Value, mut steps: impl Iterator<Item = &'s str>) -> Option<&'a Value> {
    steps.try_fold(value, |here, step| match here {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Returns the string at a JSON pointer, or an empty one.
pub fn string_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value_at(value, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the strings of the list at a JSON pointer.
pub fn strings_at<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a str> {
    list_at(value, pointer).iter().filter_map(Value::as_str)
}

/// Returns the elements of the list at a JSON pointer.
pub fn list_at<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let list = value_at(value, pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Returns the integer at a JSON pointer.
pub fn integer_at(value: &Value, pointer: &str) -> Option<i64> {
    value_at(value, pointer).and_then(Value::as_i64)
}

/// Returns the value of an object's annotation, or an empty string.
pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let annotations = value_at(object, "/metadata/annotations");
    annotations
        .and_then(|annotations| annotations.get(key))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the string in a field, or an empty one.
pub fn string_field<'a>(fields: &'a Map<String, Value>, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_find_what_serde_json_finds() {
        let object =
            json!({"metadata": {"name": "a", "finalizers": ["x", 1, "y"]}, "count": 3, "list": [{"key": "b"}]});
        for pointer in [
            "",
            "/metadata",
            "/metadata/name",
            "/metadata/name/more",
            "/list/0/key",
            "/list/1",
            "/list/x",
            "/absent",
        ] {
            assert_eq!(value_at(&object, pointer), object.pointer(pointer), "{pointer}");
        }
        assert_eq!(string_at(&object, "/metadata/name"), "a");
        assert_eq!(string_at(&object, "/count"), "");
        assert_eq!(integer_at(&object, "/count"), Some(3));
        let finalizers: Vec<&str> = strings_at(&object, "/metadata/finalizers").collect();
        assert_eq!(finalizers, ["x", "y"]);
    }

    #[test]
    fn annotations_may_have_slashes() {
        let object = json!({"metadata": {"annotations": {"a.b/c": "d"}}});
        assert_eq!(annotation(&object, "a.b/c"), "d");
        assert_eq!(annotation(&object, "absent"), "");
    }
}
