//! Requests to the API server with plain JSON in and out, so that no field is lost on the way.

use basalt_api::ResourceKind;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, ValidationDirective};
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde_json::Value;

use crate::error::CliError;
use crate::name::checked;

/// Returns the path of the objects of `kind`, after a check that no name can change it: namespaces and names of files come
/// here unchecked.
fn collection_path(kind: ResourceKind, namespace: Option<&str>, name: Option<&str>) -> Result<String, CliError> {
    for part in namespace.iter().chain(&name) {
        checked(part).map_err(|why| CliError::Usage(format!("{part:?} is no name: {why}")))?;
    }
    Ok(kind.collection_path(namespace.unwrap_or_default()))
}

/// What the server answered, and what it warned of.
pub(crate) struct Reply {
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

/// A connection to one server.
pub(crate) struct Rest {
    pub(crate) client: Client,
    pub(crate) server: String,
}

/// What a request is about, for its error messages.
#[derive(Debug, Clone)]
pub(crate) struct Subject<'a> {
    pub(crate) verb: &'static str,
    pub(crate) kind: ResourceKind,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
}

impl Subject<'_> {
    fn place(&self) -> String {
        match (self.namespace, self.name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            (None, Some(name)) => name.to_owned(),
            _ => String::new(),
        }
    }

    fn action(&self) -> String {
        match self.name {
            Some(_) => format!("{} {} {}", self.verb, self.kind.singular(), self.place()),
            None => format!("{} {}", self.verb, self.kind.plural),
        }
    }
}

impl Rest {
    pub(crate) async fn list(
        &self,
        kind: ResourceKind,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<Reply, CliError> {
        let subject = Subject {
            verb: "list",
            kind,
            namespace,
            name: None,
        };
        self.send(
            &subject,
            Request::new(collection_path(kind, namespace, None)?)
                .list(params)
                .map_err(Error::BuildRequest),
        )
        .await
    }

    pub(crate) async fn get(&self, kind: ResourceKind, namespace: Option<&str>, name: &str) -> Result<Reply, CliError> {
        let subject = Subject {
            verb: "get",
            kind,
            namespace,
            name: Some(name),
        };
        let request = Request::new(collection_path(kind, namespace, Some(name))?).get(name, &GetParams::default());
        self.send(&subject, request.map_err(Error::BuildRequest)).await
    }

    /// A merge patch: only the fields that are given change.
    pub(crate) async fn patch(
        &self,
        verb: &'static str,
        kind: ResourceKind,
        namespace: Option<&str>,
        name: &str,
        change: &Value,
    ) -> Result<Reply, CliError> {
        let subject = Subject {
            verb,
            kind,
            namespace,
            name: Some(name),
        };
        let params = PatchParams {
            field_manager: Some("vcctl".to_owned()),
            // A server whose definitions lack a field must say so, not drop it in silence.
            field_validation: Some(ValidationDirective::Strict),
            ..PatchParams::default()
        };
        let request =
            Request::new(collection_path(kind, namespace, Some(name))?).patch(name, &params, &Patch::Merge(change));
        self.send(&subject, request.map_err(Error::BuildRequest)).await
    }

    pub(crate) async fn create(
        &self,
        kind: ResourceKind,
        namespace: Option<&str>,
        object: &Value,
    ) -> Result<Reply, CliError> {
        let subject = Subject {
            verb: "create",
            kind,
            namespace,
            name: object["metadata"]["name"]
                .as_str()
                .or_else(|| object["metadata"]["generateName"].as_str()),
        };
        let body = object.to_string().into_bytes();
        let params = PostParams {
            dry_run: false,
            field_manager: Some("vcctl".to_owned()),
        };
        let mut request = Request::new(collection_path(kind, namespace, None)?)
            .create(&params, body)
            .map_err(Error::BuildRequest);
        if let Ok(request) = &mut request
            // A misspelt field must not be dropped in silence.
            && let Ok(uri) = format!("{}&fieldValidation=Strict", request.uri()).parse()
        {
            *request.uri_mut() = uri;
        }
        self.send(&subject, request).await
    }

    pub(crate) async fn delete(
        &self,
        kind: ResourceKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Reply, CliError> {
        let subject = Subject {
            verb: "delete",
            kind,
            namespace,
            name: Some(name),
        };
        let params = DeleteParams::background();
        self.send(
            &subject,
            Request::new(collection_path(kind, namespace, Some(name))?)
                .delete(name, &params)
                .map_err(Error::BuildRequest),
        )
        .await
    }

    async fn send(
        &self,
        subject: &Subject<'_>,
        request: Result<http::Request<Vec<u8>>, Error>,
    ) -> Result<Reply, CliError> {
        let failed = |error: Error| self.transport_error(subject, &error);
        let request = request.map_err(failed)?.map(Body::from);
        let (parts, body) = self.client.send(request).await.map_err(failed)?.into_parts();
        let body = body.collect_bytes().await.map_err(failed)?;
        if parts.status.is_success() {
            let body = serde_json::from_slice(&body).map_err(|e| failed(Error::SerdeError(e)))?;
            let headers = parts.headers.get_all(http::header::WARNING);
            return Ok(Reply {
                body,
                warnings: headers.iter().filter_map(|h| warning(h.to_str().ok()?)).collect(),
            });
        }
        let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| Status {
            code: parts.status.as_u16(),
            message: String::from_utf8_lossy(&body).trim().to_owned(),
            ..Status::default()
        });
        Err(self.refusal(subject, &status))
    }

    /// The server answered, and the answer is no.
    fn refusal(&self, subject: &Subject<'_>, status: &Status) -> CliError {
        let (action, message) = (subject.action(), status.message.clone());
        let named = status
            .details
            .as_ref()
            .map(|d| d.name.as_str())
            .filter(|name| !name.is_empty());
        match status.code {
            401 => CliError::Unauthorized { action, message },
            // Access control's wording; what admission refuses says its own reason.
            403 if message.contains("\" cannot ") => CliError::Forbidden { action, message },
            404 if named.is_some() && named == subject.name => CliError::NotFound {
                kind: subject.kind.singular(),
                name: subject.place(),
            },
            404 if named.is_none() => CliError::UnknownResource {
                server: self.server.clone(),
                resource: subject.kind.group_resource(),
            },
            409 if status.reason == "AlreadyExists" => CliError::Exists { action },
            409 if status.reason == "Conflict" => CliError::Conflict { action, message },
            _ if message.is_empty() => CliError::Refused {
                action,
                message: format!("the server says {}", status.code),
            },
            _ => CliError::Refused { action, message },
        }
    }

    /// There was no answer.
    fn transport_error(&self, subject: &Subject<'_>, error: &Error) -> CliError {
        match error {
            Error::Service(_) | Error::HyperError(_) => CliError::Unreachable {
                server: self.server.clone(),
                why: root_cause(error),
            },
            Error::Auth(why) => CliError::Unauthorized {
                action: subject.action(),
                message: why.to_string(),
            },
            _ => CliError::Refused {
                action: subject.action(),
                message: root_cause(error),
            },
        }
    }
}

/// The innermost reason, which is the one that says something ("Connection refused").
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The text of a `Warning` header: `299 - "text"`.
fn warning(header: &str) -> Option<String> {
    let quoted = header.splitn(3, ' ').nth(2)?.trim();
    let text = quoted.strip_prefix('"')?.strip_suffix('"')?;
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use basalt_api::resource_kind::{JOB, POD};

    #[test]
    fn warnings_are_read_from_their_header() {
        for (header, text) in [
            (r#"299 - "unknown field \"spec.x\"""#, Some(r#"unknown field "spec.x""#)),
            (r#"299 basalt "a \\ b""#, Some(r"a \ b")),
            (r#"299 - """#, Some("")),
            ("299 - text", None),
            ("299", None),
            (r#"299 - ""#, None),
        ] {
            assert_eq!(warning(header).as_deref(), text, "{header}");
        }
    }

    fn rest() -> Rest {
        let service = tower::service_fn(|_: http::Request<Body>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::empty()))
        });
        Rest {
            client: Client::new(service, "default"),
            server: "https://basalt:6443/".into(),
        }
    }

    #[test]
    fn addresses_and_names() {
        assert_eq!(
            collection_path(JOB, Some("ml"), Some("a")).unwrap(),
            "/apis/batch.volcano.sh/v1alpha1/namespaces/ml/jobs"
        );
        assert_eq!(collection_path(POD, None, None).unwrap(), "/api/v1/pods");
        for (namespace, name) in [(Some("a/b"), None), (Some("ml"), Some("a/status")), (None, Some(".."))] {
            assert!(collection_path(JOB, namespace, name).is_err(), "{namespace:?} {name:?}");
        }
    }

    #[tokio::test]
    async fn answers_become_errors_that_say_what_to_do() {
        let check = |name: Option<&str>, status: Value, expected: &str| {
            let subject = Subject {
                verb: "delete",
                kind: JOB,
                namespace: Some("ml"),
                name,
            };
            let status: Status = serde_json::from_value(status).unwrap();
            assert_eq!(rest().refusal(&subject, &status).to_string(), expected);
        };
        let details = |name: &str| serde_json::json!({"name": name, "group": "", "kind": "", "uid": "", "causes": []});
        check(
            Some("a"),
            serde_json::json!({"code": 404, "message": "x", "reason": "NotFound", "details": details("a")}),
            "job ml/a not found",
        );
        check(
            Some("a"),
            serde_json::json!({"code": 404, "message": "namespaces \"ml\" not found", "reason": "NotFound", "details": details("ml")}),
            "cannot delete job ml/a: namespaces \"ml\" not found",
        );
        check(
            None,
            serde_json::json!({"code": 404, "message": "404 page not found"}),
            "the server at https://basalt:6443/ does not know jobs.batch.volcano.sh",
        );
        check(
            Some("a"),
            serde_json::json!({"code": 403, "reason": "Forbidden", "message": "jobs \"a\" is forbidden: User \"eve\" cannot delete resource"}),
            "cannot delete job ml/a: forbidden: jobs \"a\" is forbidden: User \"eve\" cannot delete resource",
        );
        check(
            Some("a"),
            serde_json::json!({"code": 403, "reason": "Forbidden", "message": "queue b is closed"}),
            "cannot delete job ml/a: queue b is closed",
        );
        check(
            Some("a"),
            serde_json::json!({"code": 409, "reason": "AlreadyExists", "message": "x"}),
            "cannot delete job ml/a: it exists already",
        );
        check(
            Some("a"),
            serde_json::json!({"code": 409, "reason": "Conflict", "message": "x"}),
            "cannot delete job ml/a: it was changed meanwhile: x",
        );
        check(
            Some("a"),
            serde_json::json!({"code": 500}),
            "cannot delete job ml/a: the server says 500",
        );
        check(
            Some("a"),
            serde_json::json!({"code": 401, "message": "Unauthorized"}),
            "cannot delete job ml/a: not logged in: Unauthorized",
        );
    }
}
