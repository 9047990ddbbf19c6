//! Tokens of service accounts: opaque, for nothing here asks for them.

use axum::body::Body;
use basalt_apimachinery::json::value_at;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::http::metadata;
use crate::http::request::body;
use crate::http::request::call::Call;
use crate::http::response::status::{ApiError, ApiResult, json_response};

/// Answers a TokenRequest.
pub(crate) fn create(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    let mut request = body::decode(&call.headers, bytes, "TokenRequest")?.value;
    call.store()
        .get(&call.key(&call.name))
        .ok_or_else(|| call.not_found())?;
    let seconds = value_at(&request, "/spec/expirationSeconds")
        .and_then(Value::as_i64)
        .unwrap_or(3600);
    let until = call
        .server
        .now()
        .saturating_add(jiff::SignedDuration::from_secs(seconds.clamp(600, 1 << 32)));
    let until = until.map_err(|error| ApiError::bad_request(format!("spec.expirationSeconds: {error}")))?;
    let uids = &call.server.inner.options.uids;
    metadata::field_mut(&mut request, "status")?;
    request["status"] =
        json!({"token": format!("{}.{}", uids(), uids()), "expirationTimestamp": metadata::time(until)});
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    Ok(json_response(StatusCode::CREATED, &request))
}
