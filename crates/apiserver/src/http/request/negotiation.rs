//! What form of answer the client asks for (`Accept`) and what form its body has (`Content-Type`).

use http::{HeaderMap, header};

use crate::http::response::status::{ApiError, ApiResult};

/// Form of an object answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// The objects themselves.
    #[default]
    Plain,
    /// Rows and columns for people.
    Table,
    /// Only metadata.
    Metadata,
}

/// Form of a discovery answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    V2,
    V2Beta1,
    Plain,
}

struct Wanted<'a> {
    media: &'a str,
    kind: &'a str,
    version: &'a str,
    group: &'a str,
}

fn wanted(accept: &str) -> impl Iterator<Item = Wanted<'_>> {
    accept.split(',').map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let mut wanted = Wanted {
            media: parts.next().unwrap_or_default(),
            kind: "",
            version: "",
            group: "",
        };
        for part in parts {
            match part.split_once('=') {
                Some(("as", value)) => wanted.kind = value,
                Some(("v", value)) => wanted.version = value,
                Some(("g", value)) => wanted.group = value,
                _ => {}
            }
        }
        wanted
    })
}

fn is_json(media: &str) -> bool {
    matches!(media, "application/json" | "application/*" | "*/*" | "")
}

/// The first form in `Accept` that can be served.
pub(crate) fn form(headers: &HeaderMap) -> ApiResult<Form> {
    let Some(accept) = headers.get(header::ACCEPT) else {
        return Ok(Form::Plain);
    };
    let accept = accept.to_str().map_err(|_| ApiError::not_acceptable())?;
    for item in wanted(accept).filter(|item| is_json(item.media)) {
        let meta = item.group == "meta.k8s.io" && matches!(item.version, "v1" | "v1beta1");
        match item.kind {
            "" => return Ok(Form::Plain),
            "Table" if meta => return Ok(Form::Table),
            "PartialObjectMetadata" | "PartialObjectMetadataList" if meta => return Ok(Form::Metadata),
            _ => {}
        }
    }
    Err(ApiError::not_acceptable())
}

/// The first form of discovery in `Accept` that can be served.
pub(crate) fn discovery(headers: &HeaderMap) -> Discovery {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .unwrap_or_default();
    for item in wanted(accept).filter(|item| is_json(item.media)) {
        match (item.kind, item.version) {
            ("APIGroupDiscoveryList", "v2") => return Discovery::V2,
            ("APIGroupDiscoveryList", "v2beta1") => return Discovery::V2Beta1,
            ("", _) => return Discovery::Plain,
            _ => {}
        }
    }
    Discovery::Plain
}

/// The media type of a body, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}
