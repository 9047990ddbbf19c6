//! Object metadata, as the API server keeps it.

use basalt_api::json::list_at;
use serde_json::{Map, Value};

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

/// Whether a finalizer holds the object.
pub(crate) fn is_held(object: &Value) -> bool {
    !list_at(object, "/metadata/finalizers").is_empty()
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
