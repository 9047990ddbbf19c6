//! Request bodies: size and depth limits, and the three encodings that are understood.

use std::time::Duration;

use axum::body::Body;
use basalt_apimachinery::protobuf::{self, ProtoError};
use basalt_apimachinery::schema::strict_json;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value;

use crate::http::request::negotiation;
use crate::http::response::status::{ApiError, ApiResult};

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_mins(1);

/// Largest request body, as in Kubernetes.
pub const BODY_MAX: usize = 3 * 1024 * 1024;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Media types of objects.
const OBJECT_TYPES: &[&str] = &["application/json", "application/yaml", PROTOBUF];

/// Reads a whole body within the limit.
pub(crate) async fn read(body: Body) -> ApiResult<Bytes> {
    read_up_to(body, BODY_MAX).await
}

/// Reads a whole body within a limit of its own.
pub(crate) async fn read_up_to(body: Body, max: usize) -> ApiResult<Bytes> {
    let collected = tokio::time::timeout(PATIENCE, Limited::new(body, max).collect()).await;
    let collected = collected.map_err(|_| ApiError::new(504, "Timeout", "the request body did not arrive in time"))?;
    match collected {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(ApiError::too_large(max)),
        Err(error) => Err(ApiError::bad_request(format!("cannot read the request body: {error}"))),
    }
}

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    /// Paths of keys that the text has twice; the last one counts.
    pub(crate) duplicates: Vec<String>,
}

/// Decodes an object by its content type; `kind` is what was expected, for messages.
pub(crate) fn decode(headers: &HeaderMap, bytes: &[u8], kind: &str) -> ApiResult<Decoded> {
    let unrecognized = |what: &str| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {what}"
        ))
    };
    match negotiation::content_type(headers) {
        "" | "application/json" => {
            let (value, duplicates) = strict_json(bytes)
                .map_err(|error| unrecognized(&format!("couldn't get version/kind; json parse error: {error}")))?;
            Ok(Decoded { value, duplicates })
        }
        "application/yaml" => {
            yaml(bytes).map_err(|error| unrecognized(&format!("couldn't get version/kind; yaml parse error: {error}")))
        }
        PROTOBUF => match protobuf::decode(bytes) {
            Ok(value) => Ok(Decoded {
                value,
                duplicates: Vec::new(),
            }),
            Err(ProtoError::UnknownKind { .. }) => Err(ApiError::unsupported_media_type(OBJECT_TYPES)),
            Err(error) => Err(unrecognized(&error.to_string())),
        },
        _ => Err(ApiError::unsupported_media_type(OBJECT_TYPES)),
    }
}

/// Decodes YAML (one document).
pub(crate) fn yaml(bytes: &[u8]) -> Result<Decoded, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    Ok(Decoded {
        value,
        duplicates: Vec::new(),
    })
}
