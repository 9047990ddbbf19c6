//! Readers of JSON objects that no schema has checked: what is absent or of another type reads as empty.
//!
//! A place in an object is a JSON pointer (`/spec/queue`), or the bare name of a field of the object itself (`spec`).

use serde_json::Value;

const NULL: &Value = &Value::Null;

/// Returns the value at `place`.
pub fn get<'a>(object: &'a Value, place: &str) -> Option<&'a Value> {
    let Some(names) = place.strip_prefix('/') else {
        return if place.is_empty() {
            Some(object)
        } else {
            object.get(place)
        };
    };
    if place.contains('~') {
        return object.pointer(place);
    }
    // As `Value::pointer` does, but without a copy of every name on the way: this is called millions of times.
    names.split('/').try_fold(object, |here, name| match here {
        Value::Object(map) => map.get(name),
        Value::Array(list) => list.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Returns the value at `place`, or null.
pub fn at<'a>(object: &'a Value, place: &str) -> &'a Value {
    get(object, place).unwrap_or(NULL)
}

/// Returns the text at `place`; empty if there is none.
pub fn text<'a>(object: &'a Value, place: &str) -> &'a str {
    at(object, place).as_str().unwrap_or_default()
}

/// Returns the whole number at `place`.
pub fn integer(object: &Value, place: &str) -> Option<i64> {
    at(object, place).as_i64()
}

/// Returns the whole number at `place`; 0 if there is none.
pub fn integer_or_zero(object: &Value, place: &str) -> i64 {
    integer(object, place).unwrap_or_default()
}

/// Whether `place` holds `true`.
pub fn is_true(object: &Value, place: &str) -> bool {
    at(object, place).as_bool().unwrap_or_default()
}

/// Returns the items of the list at `place`; none if there is no list.
pub fn items<'a>(object: &'a Value, place: &str) -> &'a [Value] {
    at(object, place).as_array().map_or(&[], Vec::as_slice)
}

/// Returns the texts in the list at `place`.
pub fn texts<'a>(object: &'a Value, place: &str) -> impl Iterator<Item = &'a str> {
    items(object, place).iter().filter_map(Value::as_str)
}

/// Returns the annotation `key` of an object; empty if it has none.
pub fn annotation<'a>(object: &'a Value, key: &str) -> &'a str {
    let annotation = at(object, "/metadata/annotations").get(key);
    annotation.and_then(Value::as_str).unwrap_or_default()
}

/// Whether the deletion of an object has begun.
pub fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_are_found_as_json_pointers_say() {
        let object = json!({
            "metadata": {"name": "a", "annotations": {"x/y": "z", "number": 1}},
            "list": ["b", 2, {"c": true}], "count": 7, "a~b": {"/": "odd"}, "": {"": "empty"},
        });
        for place in [
            "",
            "/metadata/name",
            "/list/2/c",
            "/list/9",
            "/list/x",
            "/count/x",
            "/a~0b/~1",
            "/",
            "//",
            "/metadata/",
        ] {
            assert_eq!(get(&object, place), object.pointer(place), "{place}");
        }
        assert_eq!(get(&object, "count"), Some(&json!(7)));
        assert_eq!(get(&object, "none"), None);
    }

    #[test]
    fn what_is_not_there_is_empty() {
        let object = json!({"text": "a", "number": 3, "flag": true, "list": ["a", 1, "b"],
            "metadata": {"deletionTimestamp": "t", "annotations": {"x/y": "z", "number": 1}}});
        assert_eq!(
            (
                text(&object, "text"),
                text(&object, "/number"),
                text(&object, "/no/where")
            ),
            ("a", "", "")
        );
        assert_eq!((integer(&object, "number"), integer(&object, "text")), (Some(3), None));
        assert_eq!(
            (integer_or_zero(&object, "/number"), integer_or_zero(&object, "x")),
            (3, 0)
        );
        assert_eq!((is_true(&object, "flag"), is_true(&object, "number")), (true, false));
        assert_eq!((items(&object, "list").len(), items(&object, "text").len()), (3, 0));
        assert_eq!(texts(&object, "/list").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((annotation(&object, "x/y"), annotation(&object, "number")), ("z", ""));
        assert_eq!((is_deleting(&object), is_deleting(&json!({}))), (true, false));
    }
}
