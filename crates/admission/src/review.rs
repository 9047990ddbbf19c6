//! AdmissionReview v1: the request as Kubernetes sends it to a webhook, and the answer.

use basalt_api::json::{list_at, string_at, value_or_null};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::decision::{AccessReview, Decision, Refusal, Verdict};
use crate::request::{Operation, Request, User};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Why a body is no review that can be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    /// No JSON.
    #[error("the body is not JSON: {0}")]
    Json(String),
    /// Another kind or version.
    #[error("the body is {kind:?} of {api_version:?}, not an {KIND} of {API_VERSION:?}")]
    Kind {
        /// What it says it is.
        kind: String,
        /// In which version.
        api_version: String,
    },
    /// A part is missing or wrong.
    #[error("{field} is {found}, {wanted}")]
    Field {
        /// Which part.
        field: &'static str,
        /// What is there.
        found: String,
        /// What should be.
        wanted: &'static str,
    },
}

/// Which of the two questions of a webhook is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// What to fill in. Never refuses.
    Mutate,
    /// Whether it may be stored.
    Validate,
}

/// A request that came as an AdmissionReview.
#[derive(Clone, Debug)]
pub struct Review {
    uid: String,
    operation: Operation,
    group: String,
    resource: String,
    subresource: Option<String>,
    namespace: String,
    name: String,
    user: User,
    /// All that is known of the user, for authorisers that look at more than name and groups.
    user_info: Value,
    object: Option<Value>,
    old: Option<Value>,
    dry_run: bool,
}

impl Review {
    /// Reads the body of a call.
    pub fn read(body: &[u8]) -> Result<Self, ReviewError> {
        let mut review: Value = serde_json::from_slice(body).map_err(|error| ReviewError::Json(error.to_string()))?;
        let (kind, api_version) = (string_at(&review, "/kind"), string_at(&review, "/apiVersion"));
        if (kind, api_version) != (KIND, API_VERSION) {
            return Err(ReviewError::Kind {
                kind: kind.to_owned(),
                api_version: api_version.to_owned(),
            });
        }
        let wrong = |field, found: &Value, wanted| ReviewError::Field {
            field,
            found: found.to_string().chars().take(100).collect(),
            wanted,
        };
        let request = value_or_null(&review, "/request");
        let part = |pointer| string_at(request, pointer).to_owned();
        let uid = part("/uid");
        if uid.is_empty() {
            return Err(wrong(
                "request.uid",
                value_or_null(request, "/uid"),
                "it must be there to be answered",
            ));
        }
        let operation = match string_at(request, "/operation") {
            "CREATE" => Operation::Create,
            "UPDATE" => Operation::Update,
            "DELETE" => Operation::Delete,
            _ => {
                let found = value_or_null(request, "/operation");
                return Err(wrong("request.operation", found, "known are CREATE, UPDATE and DELETE"));
            }
        };
        let groups = list_at(request, "/userInfo/groups").iter();
        let user = User {
            name: part("/userInfo/username"),
            groups: groups.filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        let user_info = value_or_null(request, "/userInfo").clone();
        let subresource = Some(part("/subResource")).filter(|name| !name.is_empty());
        let (group, resource) = (part("/resource/group"), part("/resource/resource"));
        let (namespace, name) = (part("/namespace"), part("/name"));
        let dry_run = value_or_null(request, "/dryRun").as_bool() == Some(true);
        let mut take = |pointer| review.pointer_mut(pointer).map(Value::take).filter(Value::is_object);
        let (object, old) = (take("/request/object"), take("/request/oldObject"));
        // A delete has no object, whatever is sent along; a create has nothing before it.
        Ok(Self {
            uid,
            operation,
            group,
            resource,
            subresource,
            namespace,
            name,
            user,
            user_info,
            object: object.filter(|_| operation != Operation::Delete),
            old: old.filter(|_| operation != Operation::Create),
            dry_run,
        })
    }

    /// The request, for [`crate::admit`].
    pub fn request(&self) -> Request<'_> {
        let named = self.object.as_ref().or(self.old.as_ref());
        let named = named.map_or("", |object| string_at(object, "/metadata/name"));
        Request {
            operation: self.operation,
            group: &self.group,
            resource: &self.resource,
            subresource: self.subresource.as_deref(),
            namespace: &self.namespace,
            name: if self.name.is_empty() { named } else { &self.name },
            user: &self.user,
            object: self.object.as_ref(),
            old: self.old.as_ref(),
            dry_run: self.dry_run,
        }
    }

    /// The plural resource that the request is about, for example `queues`.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The SubjectAccessReview that finds out whether the user has a right.
    pub fn access(&self, access: &AccessReview) -> Value {
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": self.user.name, "groups": self.user.groups,
                "uid": string_at(&self.user_info, "/uid"), "extra": self.user_info.get("extra"),
                "resourceAttributes": {
                    "verb": access.verb, "group": access.group, "resource": access.resource,
                    "namespace": access.namespace, "name": access.name,
                },
            },
        })
    }

    /// The answer. `granted` says whether the user has the right that a [`Verdict::Review`] asks about.
    pub fn answer(&self, stage: Stage, decision: &Decision, granted: bool) -> Value {
        let mut response = json!({"uid": self.uid, "allowed": true});
        match stage {
            Stage::Mutate => {
                if let (Some(came), Some(filled)) = (&self.object, &decision.object) {
                    let patch = json_patch::diff(came, filled);
                    let patch = serde_json::to_vec(&patch).unwrap_or_default();
                    response["patchType"] = json!("JSONPatch");
                    response["patch"] = json!(STANDARD.encode(patch));
                }
            }
            Stage::Validate => {
                if !decision.warnings.is_empty() {
                    response["warnings"] = json!(decision.warnings);
                }
                let refusal = match &decision.verdict {
                    Verdict::Refuse(refusal) => Some(refusal.clone()),
                    Verdict::Review(access) if !granted => Some(Refusal::denied(access)),
                    Verdict::Allow | Verdict::Review(_) => None,
                };
                if let Some(refusal) = refusal {
                    response["allowed"] = json!(false);
                    response["status"] = status(&refusal);
                }
            }
        }
        json!({"apiVersion": API_VERSION, "kind": KIND, "response": response})
    }
}

fn status(refusal: &Refusal) -> Value {
    json!({
        "status": "Failure", "code": refusal.code, "reason": refusal.reason, "message": refusal.message,
        // Of an invalid object kubectl shows field and message of each cause, and nothing else.
        "details": {"causes": [{"reason": "AdmissionRule", "field": refusal.rule, "message": refusal.message}]},
    })
}
