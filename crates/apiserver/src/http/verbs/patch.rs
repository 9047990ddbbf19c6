//! Patch: JSON, merge and strategic merge.

use axum::body::Body;
use basalt_apimachinery::patch::{self, PatchError};
use basalt_apimachinery::schema::strict_json;
use http::{Response, StatusCode};
use serde_json::Value;

use crate::http::request::body::Decoded;
use crate::http::request::call::Call;
use crate::http::request::{incoming_object, negotiation};
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult};
use crate::http::verbs::update;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A patch, read once and applied to whatever is current.
pub(crate) enum Patch {
    Json(Vec<u8>),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    /// Reads a patch by its content type.
    pub(crate) fn read(call: &Call, bytes: &[u8]) -> ApiResult<Patch> {
        let custom = call.kind.custom().is_some();
        let document = || {
            let read = strict_json(bytes).map(|(value, _)| value);
            read.map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
        };
        match negotiation::content_type(&call.headers) {
            JSON => {
                document()?;
                Ok(Patch::Json(bytes.to_vec()))
            }
            MERGE => document().map(Patch::Merge),
            STRATEGIC if !custom => document().map(Patch::Strategic),
            APPLY => Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "server-side apply is not served here; use client-side apply (kubectl apply without --server-side)",
            )),
            _ if custom => Err(ApiError::unsupported_media_type(&[JSON, MERGE])),
            _ => Err(ApiError::unsupported_media_type(&[JSON, MERGE, STRATEGIC])),
        }
    }

    /// The object after the patch.
    pub(crate) fn apply(&self, call: &Call, current: &Value) -> ApiResult<Value> {
        let patched = match self {
            Patch::Json(bytes) => patch::json(current, bytes),
            Patch::Merge(value) => patch::merge(current, value),
            Patch::Strategic(value) => patch::strategic(&call.kind.kind, current, value),
        };
        patched.map_err(|error| refuse(call, &error))
    }
}

fn refuse(call: &Call, error: &PatchError) -> ApiError {
    match error.code() {
        400 => ApiError::bad_request(error.to_string()),
        413 => ApiError::new(413, "RequestEntityTooLarge", error.to_string()),
        415 => ApiError::new(415, "UnsupportedMediaType", error.to_string()),
        _ => {
            let message = format!("the server rejected our request due to an error in our request: {error}");
            ApiError::new(422, "Invalid", message).about(&call.kind.group, &call.kind.plural, &call.name)
        }
    }
}

/// Answers a PATCH of an object or of its status.
pub(crate) async fn patch(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    let patch = Patch::read(call, bytes)?;
    let mut warnings = Vec::new();
    let mut faults = Vec::new();
    let modified = update::modify(call, &mut warnings, |current, _| {
        let mut current = current.clone();
        presentation::to_served(&call.kind, &mut current);
        let patched = patch.apply(call, &current)?;
        update::check_path(call, &patched)?;
        let taken = incoming_object::take(
            call,
            Decoded {
                value: patched,
                duplicates: Vec::new(),
            },
        )?;
        faults = taken.warnings;
        Ok(taken.object)
    })
    .await?;
    warnings.extend(faults);
    Ok(update::answer(call, StatusCode::OK, modified, &warnings))
}
