//! From stored bytes to what a client asked for: another version, another shape, a table, or only metadata.

use axum::body::Body;
use basalt_apimachinery::table;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::http::metadata;
use crate::http::registry::kinds::Kind;
use crate::http::request::call::Call;
use crate::http::request::negotiation::Form;
use crate::http::response::status::{ApiError, ApiResult, bytes_response};
use crate::store::Object;

/// Fields of events by their names in core and in `events.k8s.io`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The stored bytes as the kind's version serves them; no copy in the usual case.
pub(crate) fn bytes(kind: &Kind, body: &Bytes) -> Bytes {
    if kind.converted() {
        return Bytes::from(value(kind, body).to_string());
    }
    // Drafts begin with the apiVersion they were stored in, so another one is a change of the first bytes only.
    const BEFORE: &[u8] = b"{\"apiVersion\":\"";
    let split = body
        .strip_prefix(BEFORE)
        .and_then(|rest| Some(rest.split_at(rest.iter().position(|byte| *byte == b'"')?)));
    let Some((stored, rest)) = split else {
        return Bytes::from(value(kind, body).to_string());
    };
    if stored == kind.api_version.as_bytes() {
        return body.clone();
    }
    [BEFORE, kind.api_version.as_bytes(), rest].concat().into()
}

/// The stored bytes as a value of the kind's version.
pub(crate) fn value(kind: &Kind, body: &[u8]) -> Value {
    let mut object: Value = serde_json::from_slice(body).unwrap_or_default();
    to_served(kind, &mut object);
    object
}

/// From the stored form to the kind's version.
pub(crate) fn to_served(kind: &Kind, object: &mut Value) {
    if kind.converted() {
        rename(object, EVENT_FIELDS);
    }
    if object.is_object() {
        object["apiVersion"] = kind.api_version.as_ref().into();
    }
}

/// From the kind's version to the stored form.
pub(crate) fn to_stored(kind: &Kind, object: &mut Value) {
    if kind.converted() {
        rename(object, EVENT_FIELDS.map(|(core, new)| (new, core)));
    }
    if object.is_object() {
        object["apiVersion"] = kind.stored_api_version.as_ref().into();
    }
}

fn rename<const N: usize>(object: &mut Value, names: [(&str, &str); N]) {
    let Some(map) = object.as_object_mut() else { return };
    for (from, to) in names {
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}

/// Only the metadata of an object.
pub(crate) fn metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_default(),
    })
}

/// Only the metadata of a stored body, without parsing it.
pub(crate) fn metadata_bytes(body: &[u8]) -> Bytes {
    let metadata = metadata::metadata_text(body).unwrap_or("{}");
    format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{metadata}}}"#).into()
}

/// Answers with one stored object in the form that was asked for.
pub(crate) fn answer(call: &Call, code: StatusCode, object: &Object) -> Response<Body> {
    match call.form {
        Form::Plain => bytes_response(code, bytes(&call.kind, &object.body)),
        Form::Metadata => bytes_response(code, metadata_bytes(&object.body)),
        Form::Table => answer_value(call, code, value(&call.kind, &object.body)),
    }
}

/// Answers with one object that is already in the served version.
pub(crate) fn answer_value(call: &Call, code: StatusCode, object: Value) -> Response<Body> {
    let answer = match call.form {
        Form::Plain => object,
        Form::Metadata => metadata(&object),
        Form::Table => {
            let revision = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
            table(call, json!({"resourceVersion": revision}), &[object], true)
        }
    };
    bytes_response(code, answer.to_string().into())
}

/// A Table of objects in the served version; `list` is the metadata of the list.
pub(crate) fn table(call: &Call, list: Value, objects: &[Value], heads: bool) -> Value {
    let list = if let Value::Object(list) = list {
        list
    } else {
        Map::new()
    };
    let (now, include) = (call.server.now(), call.query.include_object);
    table::render(&call.kind.printer(), list, objects, now, include, heads)
}

/// Adds `Warning` headers.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    const MAX: usize = 32;
    for warning in warnings.iter().take(MAX) {
        let text: String = warning.chars().filter(|c| !c.is_control()).take(1024).collect();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(http::header::WARNING, value);
        }
    }
}

/// Parses a stored body; a body that is not JSON would be a bug of this server.
pub(crate) fn parse(object: &Object) -> ApiResult<Value> {
    serde_json::from_slice(&object.body).map_err(|error| ApiError::internal(format!("{}: {error}", object.key)))
}
