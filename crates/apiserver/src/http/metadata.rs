//! Object metadata: reading it from JSON, checking it, and giving it what the server owns.

pub(crate) use basalt_apimachinery::json::is_deleting;
use basalt_apimachinery::json::{string_at, strings_at};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::http::registry::kinds::Kind;
use crate::http::response::status::{ApiError, ApiResult};
use crate::store::Draft;

/// The `metadata` map, made if it is absent; `object` must be a JSON object.
pub(crate) fn metadata_mut(object: &mut Value) -> ApiResult<&mut Map<String, Value>> {
    field_mut(object, "metadata")
}

/// A map-valued field, made if it is absent or null.
pub(crate) fn field_mut<'a>(object: &'a mut Value, key: &str) -> ApiResult<&'a mut Map<String, Value>> {
    let map = object
        .as_object_mut()
        .ok_or_else(|| ApiError::bad_request("the object is not a JSON object"))?;
    let value = map.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value
        .as_object_mut()
        .ok_or_else(|| ApiError::bad_request(format!("{key} is not a JSON object")))
}

/// Sets or removes a metadata field.
pub(crate) fn put(metadata: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => metadata.insert(key.to_owned(), value),
        None => metadata.remove(key),
    };
}

/// Takes away what is not kept, and what is the same as absent.
pub(crate) fn tidy(metadata: &mut Map<String, Value>) {
    metadata.remove("managedFields");
    metadata.remove("selfLink");
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    });
}

/// Whether any finalizer holds the object.
pub(crate) fn is_held(object: &Value) -> bool {
    strings_at(object, "/metadata/finalizers").next().is_some()
        || (string_at(object, "/kind") == "Namespace" && strings_at(object, "/spec/finalizers").next().is_some())
}

/// Seconds precision, as `metav1.Time` prints it.
pub(crate) fn time(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The suffix that makes a generated name: letters and digits that spell no words.
pub(crate) fn suffix(seed: &str) -> String {
    use std::hash::Hasher;
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(seed.as_bytes());
    let mut hash = hasher.finish();
    (0..5)
        .filter_map(|_| {
            let letter = ALPHABET.get((hash % ALPHABET.len() as u64) as usize);
            hash /= ALPHABET.len() as u64;
            letter.map(|letter| char::from(*letter))
        })
        .collect()
}

/// Splits an object's JSON where the revision goes. `apiVersion`, `kind` and `metadata.resourceVersion` come first, so
/// that the served form can be made from stored bytes without parsing them.
pub(crate) fn draft(object: &Value) -> Draft {
    let empty = Map::new();
    let map = object.as_object().unwrap_or(&empty);
    let before = format!(
        "{{\"apiVersion\":{},\"kind\":{},\"metadata\":{{\"resourceVersion\":\"",
        map.get("apiVersion").unwrap_or(&Value::Null),
        map.get("kind").unwrap_or(&Value::Null)
    );
    let mut draft = Draft::new(before.as_bytes(), b"\"");
    let after = draft.after();
    after.reserve(1024);
    let metadata = map.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        member(after, key, value);
    }
    after.push(b'}');
    for (key, value) in map
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"))
    {
        member(after, key, value);
    }
    after.push(b'}');
    draft
}

fn member(out: &mut Vec<u8>, key: &str, value: &Value) {
    out.push(b',');
    // Writing JSON values to memory cannot fail: keys are strings.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

/// The metadata that the server's own workers look at.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Head {
    pub(crate) uid: String,
    pub(crate) owner_references: Vec<Owner>,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) creation_timestamp: Option<String>,
    pub(crate) finalizers: Vec<String>,
}

impl Head {
    pub(crate) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }
}

/// An owner reference.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) block_owner_deletion: Option<bool>,
}

/// Where stored bodies have their metadata, and in it the revision.
pub(crate) const REVISION_MARK: &[u8] = b"\"metadata\":{\"resourceVersion\":\"";

/// The text of a stored body from its metadata on.
fn from_metadata(body: &[u8]) -> Option<&[u8]> {
    let at = body
        .windows(REVISION_MARK.len())
        .position(|window| window == REVISION_MARK)?;
    body.get(at + b"\"metadata\":".len()..)
}

/// Reads the metadata of a stored body and nothing after it.
pub(crate) fn head(body: &[u8]) -> Head {
    let metadata = from_metadata(body).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_slice(metadata).into_iter::<Head>();
    values.next().and_then(Result::ok).unwrap_or_default()
}

/// The JSON text of a stored body's metadata, as it is.
pub(crate) fn metadata_text(body: &[u8]) -> Option<&str> {
    let mut values = serde_json::Deserializer::from_slice(from_metadata(body)?).into_iter::<&RawValue>();
    values.next()?.ok().map(RawValue::get)
}

/// The wrong types in `metadata`, which no schema of a custom kind covers: Kubernetes cannot decode such an object.
pub(crate) fn check_types(kind: &Kind, object: &Value) -> ApiResult<()> {
    let Some(metadata) = object.get("metadata").filter(|value| !value.is_null()) else {
        return Ok(());
    };
    let fault = match metadata.as_object() {
        None => Some("metadata".to_owned()),
        Some(map) => map
            .iter()
            .find_map(|(key, value)| wrong_type(key, value))
            .map(|path| format!("metadata.{path}")),
    };
    match fault {
        None => Ok(()),
        Some(path) => Err(ApiError::bad_request(format!(
            "{0} in version \"{1}\" cannot be handled as a {0}: json: cannot unmarshal {path} into its Go type",
            kind.kind, kind.version
        ))),
    }
}

fn wrong_type(key: &str, value: &Value) -> Option<String> {
    if value.is_null() {
        return None;
    }
    let strings = |value: &Value| value.as_object().is_some_and(|map| map.values().all(Value::is_string));
    let fits = match key {
        "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "creationTimestamp"
        | "deletionTimestamp" | "selfLink" => value.is_string(),
        "labels" | "annotations" => strings(value),
        "finalizers" => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
        "ownerReferences" | "managedFields" => value.as_array().is_some_and(|list| list.iter().all(Value::is_object)),
        "generation" | "deletionGracePeriodSeconds" => value.is_i64(),
        _ => true,
    };
    (!fits).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn draft_puts_the_revision_first() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "spec": {"a": 1},
            "metadata": {"name": "x", "resourceVersion": "5"}});
        let draft = draft(&object);
        let text = String::from_utf8(draft.seal(77).to_vec()).expect("text");
        let prefix = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"77","name":"x"}"#;
        assert_eq!(text, format!(r#"{prefix},"spec":{{"a":1}}}}"#));
    }

    #[test]
    fn suffixes_are_short_and_lower_case() {
        assert_eq!(suffix("a").len(), 5);
        assert_ne!(suffix("a"), suffix("b"));
    }
}
