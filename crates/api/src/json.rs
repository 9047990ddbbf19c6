//! Readers of JSON objects that no schema has checked: what is absent, null or of another type reads as empty.
//!
//! A place in an object is a JSON pointer (`/spec/queue`, RFC 6901), or the bare name of a field of the object itself
//! (`spec`). Keys that contain `/` or `~` (annotations, labels) are read with [`annotation`] or `Value::get`.

use serde_json::{Map, Value};

const NULL: &Value = &Value::Null;

/// Returns the value at `place`. Unlike `Value::pointer` this copies no name on the way: it is called millions of times.
pub fn value_at<'a>(object: &'a Value, place: &str) -> Option<&'a Value> {
    match place.strip_prefix('/') {
        None if place.is_empty() => Some(object),
        None => object.get(place),
        Some(_) if place.contains('~') => object.pointer(place),
        Some(steps) => value_at_steps(object, steps.split('/')),
    }
}

/// Returns the value that is reached by following keys and list positions one after the other.
pub fn value_at_steps<'a, 's>(object: &'a Value, mut steps: impl Iterator<Item = &'s str>) -> Option<&'a Value> {
    steps.try_fold(object, |here, step| match here {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Returns the value at `place`, or null.
pub fn value_or_null<'a>(object: &'a Value, place: &str) -> &'a Value {
    value_at(object, place).unwrap_or(NULL)
}

/// Returns the string at `place`, or an empty one.
pub fn string_at<'a>(object: &'a Value, place: &str) -> &'a str {
    value_or_null(object, place).as_str().unwrap_or_default()
}

/// Returns the strings of the list at `place`.
pub fn strings_at<'a>(object: &'a Value, place: &str) -> impl Iterator<Item = &'a str> {
    list_at(object, place).iter().filter_map(Value::as_str)
}

/// Returns the elements of the list at `place`; none if there is no list.
pub fn list_at<'a>(object: &'a Value, place: &str) -> &'a [Value] {
    value_or_null(object, place).as_array().map_or(&[], Vec::as_slice)
}

/// Returns the integer at `place`.
pub fn integer_at(object: &Value, place: &str) -> Option<i64> {
    value_or_null(object, place).as_i64()
}

/// Returns the integer at `place`; 0 if there is none.
pub fn integer_or_zero(object: &Value, place: &str) -> i64 {
    integer_at(object, place).unwrap_or_default()
}

/// Whether `place` holds `true`.
pub fn is_true_at(object: &Value, place: &str) -> bool {
    value_or_null(object, place).as_bool().unwrap_or_default()
}

/// Returns the value of an object's annotation, or an empty string.
pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let annotation = value_or_null(object, "/metadata/annotations").get(key);
    annotation.and_then(Value::as_str).unwrap_or_default()
}

/// Whether the deletion of an object has begun.
pub fn is_deleting(object: &Value) -> bool {
    !string_at(object, "/metadata/deletionTimestamp").is_empty()
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
        let object = json!({
            "metadata": {"name": "a"}, "list": ["b", 2, {"c": true}], "count": 7, "a~b": {"/": "odd"}, "": {"": "empty"},
        });
        let places = [
            "",
            "/metadata",
            "/metadata/name",
            "/metadata/name/more",
            "/metadata/",
            "/list/2/c",
            "/list/9",
            "/list/x",
            "/count/x",
            "/a~0b/~1",
            "/",
            "//",
            "/absent",
        ];
        for place in places {
            assert_eq!(value_at(&object, place), object.pointer(place), "{place}");
        }
        assert_eq!(value_at(&object, "count"), Some(&json!(7)));
        assert_eq!(value_at(&object, "absent"), None);
    }

    #[test]
    fn what_is_not_there_reads_as_empty() {
        let object = json!({"text": "a", "number": 3, "flag": true, "list": ["a", 1, "b"],
            "metadata": {"deletionTimestamp": "t", "annotations": {"x/y": "z", "number": 1}}});
        for (place, expected) in [("text", "a"), ("/text", "a"), ("/number", ""), ("/no/where", "")] {
            assert_eq!(string_at(&object, place), expected, "{place}");
        }
        assert_eq!(
            (integer_at(&object, "number"), integer_at(&object, "text")),
            (Some(3), None)
        );
        assert_eq!(
            (integer_or_zero(&object, "/number"), integer_or_zero(&object, "x")),
            (3, 0)
        );
        assert_eq!(
            (is_true_at(&object, "flag"), is_true_at(&object, "number")),
            (true, false)
        );
        assert_eq!((list_at(&object, "list").len(), list_at(&object, "text").len()), (3, 0));
        assert_eq!(strings_at(&object, "/list").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((annotation(&object, "x/y"), annotation(&object, "number")), ("z", ""));
        assert_eq!((is_deleting(&object), is_deleting(&json!({}))), (true, false));
    }
}
