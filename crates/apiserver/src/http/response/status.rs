//! Errors as Kubernetes tells them: `metav1.Status` with code, reason, message and details.

use axum::body::Body;
use basalt_apimachinery::field_error::{FieldError, aggregate};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use crate::http::registry::kinds::Kind;

/// A refusal in Kubernetes' words. Every failing request ends as one of these.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, e.g. `NotFound`; empty where Kubernetes has none.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
    details: Box<Map<String, Value>>,
    continue_token: Option<String>,
}

/// What handlers return.
pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// An error with a code, a reason and a message, without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        ApiError {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
            continue_token: None,
        }
    }

    fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Names the object that the error is about (`details.name/group/kind`).
    #[must_use]
    pub fn about(self, group: &str, kind: &str, name: &str) -> Self {
        let this = if name.is_empty() {
            self
        } else {
            self.detail("name", name)
        };
        let this = if group.is_empty() {
            this
        } else {
            this.detail("group", group)
        };
        if kind.is_empty() {
            this
        } else {
            this.detail("kind", kind)
        }
    }

    /// Adds one entry to `details.causes`.
    #[must_use]
    pub fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = json!({"reason": reason, "message": message});
        if !field.is_empty() {
            cause["field"] = field.into();
        }
        match self.details.get_mut("causes") {
            Some(Value::Array(causes)) => causes.push(cause),
            _ => {
                self.details.insert("causes".to_owned(), Value::Array(vec![cause]));
            }
        }
        self
    }

    /// The object does not exist.
    pub fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(
            404,
            "NotFound",
            format!("{} \"{name}\" not found", kind.group_resource()),
        )
        .about(&kind.group, &kind.plural, name)
    }

    /// No such path or resource.
    pub fn no_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// The name is taken.
    pub fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", kind.group_resource()),
        )
        .about(&kind.group, &kind.plural, name)
    }

    /// The request lost against another write, or a precondition does not hold.
    pub fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let resource = kind.group_resource();
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}"),
        )
        .about(&kind.group, &kind.plural, name)
    }

    /// The usual conflict: the request was built on an older state.
    pub fn stale(kind: &Kind, name: &str) -> Self {
        const WHY: &str = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, WHY)
    }

    /// The object breaks rules; each broken rule is a cause.
    pub fn invalid(kind: &Kind, name: &str, errors: &[FieldError]) -> Self {
        let group_kind = kind.group_kind();
        let text = aggregate(errors);
        let this = Self::new(422, "Invalid", format!("{group_kind} \"{name}\" is invalid: {text}"));
        let this = this.about(&kind.group, &kind.kind, name);
        errors.iter().fold(this, |this, error| {
            this.cause(error.kind.reason(), &error.body(), &error.path)
        })
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Understood, and not permitted.
    pub fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let resource = kind.group_resource();
        Self::new(403, "Forbidden", format!("{resource} \"{name}\" is forbidden: {why}")).about(
            &kind.group,
            &kind.plural,
            name,
        )
    }

    /// No or wrong credentials.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// The resource exists and does not have this verb.
    pub fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// The body's media type is not one of `accepted`.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        Self::new(
            415,
            "UnsupportedMediaType",
            format!("the body of the request was in an unknown format - accepted media types include: {list}"),
        )
    }

    /// No media type that the client accepts can be produced.
    pub fn not_acceptable() -> Self {
        Self::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        )
    }

    /// The body is larger than the limit.
    pub fn too_large(limit: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// The asked-for revision is no longer in the history.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A watch or exact read from before the oldest kept revision.
    pub fn too_old(asked: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {asked} ({oldest})"))
    }

    /// A read "not older than" a revision that does not exist yet.
    pub fn too_large_revision(asked: u64, current: u64) -> Self {
        Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
        .cause("ResourceVersionTooLarge", "Too large resource version", "")
        .detail("retryAfterSeconds", 1)
    }

    /// The server failed.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// Hands the client a token to go on with an inconsistent list.
    #[must_use]
    pub fn with_continue(mut self, token: String) -> Self {
        self.continue_token = Some(token);
        self
    }

    /// The error as a `metav1.Status` object.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_empty() {
            status["details"] = Value::Object((*self.details).clone());
        }
        if let Some(token) = &self.continue_token {
            status["metadata"]["continue"] = token.as_str().into();
        }
        status
    }

    /// The error as an HTTP answer.
    pub fn response(&self) -> Response<Body> {
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = json_response(code, &self.status());
        if self.code == 401 {
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.code == 429 {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
        }
        response
    }
}

/// A JSON answer.
pub(crate) fn json_response(code: StatusCode, value: &Value) -> Response<Body> {
    bytes_response(code, value.to_string().into())
}

/// An answer of bytes that are JSON already.
pub(crate) fn bytes_response(code: StatusCode, body: bytes::Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The answer to a delete that left nothing behind.
pub(crate) fn success(kind: &Kind, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name, "kind": kind.plural.as_ref()});
    if !kind.group.is_empty() {
        details["group"] = kind.group.as_ref().into();
    }
    if !uid.is_empty() {
        details["uid"] = uid.into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
