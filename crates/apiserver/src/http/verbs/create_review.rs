//! Create of access reviews, which are answered and not stored: there is one admin, so access is allowed.

use axum::body::Body;
use basalt_apimachinery::json::string_at;
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::http::metadata;
use crate::http::request::authentication::{self, ADMIN};
use crate::http::request::body;
use crate::http::request::call::Call;
use crate::http::response::status::{ApiResult, json_response};

/// Answers a POST of a kind that is not stored.
pub(crate) fn create(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    let mut review = body::decode(&call.headers, bytes, &call.kind.kind)?.value;
    metadata::metadata_mut(&mut review)?.insert("creationTimestamp".to_owned(), Value::Null);
    review["kind"] = call.kind.kind.as_ref().into();
    review["apiVersion"] = call.kind.api_version.as_ref().into();
    review["status"] = answer(call, &review);
    Ok(json_response(StatusCode::CREATED, &review))
}

fn answer(call: &Call, review: &Value) -> Value {
    let everything = json!(["*"]);
    match call.kind.kind.as_ref() {
        "SelfSubjectReview" => json!({"userInfo": user(call)}),
        "TokenReview" => {
            let token = call.server.inner.options.token.as_deref().unwrap_or_default();
            let known = authentication::same(string_at(review, "/spec/token").as_bytes(), token.as_bytes());
            if known {
                json!({"authenticated": true, "user": {"username": ADMIN, "groups": ["system:masters", "system:authenticated"]}})
            } else {
                json!({"authenticated": false})
            }
        }
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": everything, "apiGroups": everything, "resources": everything}],
            "nonResourceRules": [{"verbs": everything, "nonResourceURLs": everything}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    }
}

fn user(call: &Call) -> Value {
    let user = call.identity.user();
    json!({"username": user.name, "groups": user.groups})
}
