//! OpenAPI v3: an index with hashes, and one document per group and version, made when first asked for.

use std::hash::{Hash, Hasher};

use axum::body::Body;
use basalt_apimachinery::openapi::{ResourceDoc, document as make, is_builtin};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::http::registry::kinds::{Kind, api_version};
use crate::http::registry::{GroupVersion, Registry};
use crate::http::response::status::{ApiError, ApiResult, bytes_response, json_response};

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// Answers `/openapi/v3`.
pub(crate) fn index(registry: &Registry) -> Response<Body> {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for gv in &versions.versions {
            let path = path_of(group, &gv.version);
            let url = format!("/openapi/v3/{path}?hash={:016X}", fingerprint(gv));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json_response(StatusCode::OK, &json!({"paths": paths}))
}

/// Changes whenever the document does: of built-in kinds with the program, of custom ones with their schemas.
fn fingerprint(gv: &GroupVersion) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    for kind in gv.kinds.values() {
        (&kind.kind, &kind.plural, kind.namespaced, kind.subresources.len()).hash(&mut hasher);
        if let Some(shape) = kind.custom() {
            shape.open_api.hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Answers `/openapi/v3/{path}`.
pub(crate) fn document(registry: &Registry, path: &str) -> ApiResult<Response<Body>> {
    let parts: Vec<&str> = path.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Err(ApiError::no_resource()),
    };
    let gv = registry
        .group_version(group, version)
        .ok_or_else(ApiError::no_resource)?;
    let body = registry.document(&format!("openapi {path}"), || {
        let resources: Vec<ResourceDoc> = gv.kinds.values().filter_map(|kind| resource(kind)).collect();
        Bytes::from(make(&api_version(group, version), &resources).to_string())
    });
    Ok(bytes_response(StatusCode::OK, body))
}

fn resource(kind: &Kind) -> Option<ResourceDoc> {
    let schema: Option<Value> = kind
        .custom()
        .and_then(|shape| serde_json::from_str(&shape.open_api).ok());
    if schema.is_none() && !is_builtin(&kind.api_version, &kind.kind) {
        return None;
    }
    Some(ResourceDoc {
        kind: kind.kind.to_string(),
        plural: kind.plural.to_string(),
        namespaced: kind.namespaced,
        schema,
        verbs: kind.verbs.names().iter().map(ToString::to_string).collect(),
        subresources: kind.subresources.iter().map(|sub| sub.name().to_owned()).collect(),
    })
}
