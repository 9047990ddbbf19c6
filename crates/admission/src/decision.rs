//! What comes out.

use serde::Serialize;
use serde_json::Value;

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The object to store instead of the one that came; none where nothing was filled in.
    pub object: Option<Value>,
    /// Shown to the user whatever the verdict.
    pub warnings: Vec<String>,
    /// Whether it goes on.
    pub verdict: Verdict,
}

/// Whether the request goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Yes.
    Allow,
    /// No, and why.
    Refuse(Refusal),
    /// Only if the user may also do this, which the caller finds out.
    Review(AccessReview),
}

/// A refusal that a person can act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// Id of the first rule that was broken.
    pub rule: &'static str,
    /// HTTP status: 422 for an object that is wrong in itself, 403 for one that may not be there.
    pub code: u16,
    /// Kubernetes' status reason that belongs to the code.
    pub reason: &'static str,
    /// One clause for each broken rule: object, field, numbers, what to do.
    pub message: String,
}

impl Refusal {
    /// The refusal of a user who lacks a right.
    pub fn denied(access: &AccessReview) -> Self {
        Self {
            rule: access.rule,
            code: 403,
            reason: "Forbidden",
            message: access.denied.clone(),
        }
    }
}

/// A question to authorisation: may this user do that as well?
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessReview {
    /// Id of the rule that asks.
    pub rule: &'static str,
    /// Verb, for example `update`.
    pub verb: String,
    /// API group of what is accessed.
    pub group: String,
    /// Resource of what is accessed.
    pub resource: String,
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Object name.
    pub name: String,
    /// What to tell the user if the answer is no.
    pub denied: String,
}
