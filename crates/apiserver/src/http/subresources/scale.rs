//! The scale subresource of custom kinds.

use axum::body::Body;
use basalt_apimachinery::field_error::FieldError;
use basalt_apimachinery::json::{integer_at, value_at, value_at_steps};
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use crate::http::registry::kinds::ScalePaths;
use crate::http::request::body;
use crate::http::request::call::Call;
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult, json_response};
use crate::http::verbs::patch::Patch;
use crate::http::verbs::update::{self, Modified};

fn paths(call: &Call) -> ApiResult<&ScalePaths> {
    call.kind
        .custom()
        .and_then(|shape| shape.scale.as_ref())
        .ok_or_else(ApiError::no_resource)
}

/// Returns the keys of a path such as `.spec.replicas`.
fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.trim_start_matches('.').split('.')
}

/// The object seen as a Scale.
fn scale_of(call: &Call, object: &Value) -> ApiResult<Value> {
    let paths = paths(call)?;
    let number = |path: &str| {
        let value = value_at_steps(object, steps(path));
        value.and_then(Value::as_i64).unwrap_or_default()
    };
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.get("metadata").and_then(|metadata| metadata.get(key)) {
            metadata[key] = value.clone();
        }
    }
    let mut status = json!({"replicas": number(&paths.status)});
    if let Some(selector) = paths
        .selector
        .as_deref()
        .and_then(|path| value_at_steps(object, steps(path)))
        .and_then(Value::as_str)
        .filter(|s| !s.is_empty())
    {
        status["selector"] = selector.into();
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number(&paths.spec)}, "status": status,
    }))
}

/// Answers a GET of the scale.
pub(crate) fn get(call: &Call) -> ApiResult<Response<Body>> {
    let object = call
        .store()
        .get(&call.key(&call.name))
        .ok_or_else(|| call.not_found())?;
    Ok(json_response(
        StatusCode::OK,
        &scale_of(call, &presentation::parse(&object)?)?,
    ))
}

/// Answers a PUT or PATCH of the scale: only the wanted replicas change.
pub(crate) async fn change(call: &Call, method: &Method, bytes: &[u8]) -> ApiResult<Response<Body>> {
    let path = &paths(call)?.spec;
    let replacement = match *method {
        Method::PUT => Some(body::decode(&call.headers, bytes, "Scale")?.value),
        _ => None,
    };
    let patch = if replacement.is_none() {
        Some(Patch::read(call, bytes)?)
    } else {
        None
    };
    // The change is one of the object itself, so that its generation and rules follow.
    let plain = Call {
        sub: None,
        ..call.copy()
    };
    let mut warnings = Vec::new();
    let modified = update::modify(&plain, &mut warnings, |current, _| {
        let wanted = match (&replacement, &patch) {
            (Some(scale), _) => scale.clone(),
            (None, Some(patch)) => patch.apply(call, &scale_of(call, current)?)?,
            (None, None) => return Err(ApiError::method_not_allowed()),
        };
        let replicas = integer_at(&wanted, "/spec/replicas").unwrap_or_default();
        if replicas < 0 {
            let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            return Err(ApiError::invalid(&call.kind, &call.name, &[error]));
        }
        let mut new = current.clone();
        set(&mut new, steps(path), replicas.into());
        if let Some(revision) = value_at(&wanted, "/metadata/resourceVersion") {
            new["metadata"]["resourceVersion"] = revision.clone();
        }
        Ok(new)
    })
    .await?;
    let object = match modified {
        Modified::Stored(object) => presentation::parse(&object)?,
        Modified::Dry(object) => object,
    };
    Ok(json_response(StatusCode::OK, &scale_of(call, &object)?))
}

fn set<'s>(object: &mut Value, path: impl Iterator<Item = &'s str>, value: Value) {
    let mut place = object;
    for step in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[step];
    }
    *place = value;
}
