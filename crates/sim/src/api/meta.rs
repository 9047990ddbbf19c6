//! Object metadata, as the API server keeps it.

use serde_json::{Map, Value};

/// The text at a pointer of an object, or empty.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// As [`Value::pointer`], which copies every name on the way; asked millions of times.
fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    if pointer.contains('~') {
        return object.pointer(pointer);
    }
    let mut names = pointer.split('/').skip(1);
    names.try_fold(object, |here, name| match here {
        Value::Object(map) => map.get(name),
        _ => None,
    })
}

/// The `metadata` map, made where it is absent; none for what is no object.
pub(crate) fn metadata(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let metadata = object.as_object_mut()?.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut()
}

/// Takes away what is the same as absent.
pub(crate) fn tidy(metadata: &mut Map<String, Value>) {
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    });
}

/// Whether deletion has begun.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Whether a finalizer holds the object.
pub(crate) fn is_held(object: &Value) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|list| !list.is_empty())
}

/// Only the server changes these.
const KEPT: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "generateName",
    "resourceVersion",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Gives a changed object the metadata that a request cannot change.
pub(crate) fn keep(old: &Value, new: &mut Value) {
    let Some(metadata) = metadata(new) else { return };
    tidy(metadata);
    for key in KEPT {
        match old.pointer("/metadata").and_then(|old| old.get(key)) {
            Some(value) => drop(metadata.insert(key.to_owned(), value.clone())),
            None => drop(metadata.remove(key)),
        }
    }
}

/// One more generation.
pub(crate) fn bump_generation(object: &mut Value) {
    if let Some(generation) = object.pointer_mut("/metadata/generation")
        && let Some(number) = generation.as_i64()
    {
        *generation = number.saturating_add(1).into();
    }
}
