//! The one place that writes: carries out the [`Change`]s that the pure crates ask for.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use basalt_api::{ObjectRef, resource_kind};
use basalt_controllers::{Change, EventType};
use futures::stream::{self, StreamExt};
use http::{Method, Request};
use jiff::Timestamp;
use kube::core::Status;
use serde_json::{Value, json};

use crate::write::writer::Writer;

/// Writes of one list of changes that are under way at the same time.
const IN_FLIGHT_MAX: usize = 64;
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Why a change was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The object is not the one that the decision was made for (other uid or version): decide again.
    #[error("{} {target} changed since the decision: {message}", .target.kind)]
    Outdated {
        /// What was to be written.
        target: ObjectRef,
        /// What the server said.
        message: String,
    },
    /// The server refused or could not be reached.
    #[error("{verb} of {} {target}", .target.kind)]
    Refused {
        /// What was to be written.
        target: ObjectRef,
        /// How.
        verb: Box<Method>,
        /// What the server said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The request could not be formed; an object's name or namespace is no part of a URL.
    #[error("the request for {} {target} cannot be formed", .target.kind)]
    Malformed {
        /// What was to be written.
        target: ObjectRef,
        /// Why.
        #[source]
        source: http::Error,
    },
}

/// An object as the server answered it.
#[derive(Debug)]
pub struct Written {
    /// Which.
    pub target: ObjectRef,
    /// Its JSON.
    pub body: String,
}

/// Carries out changes through one writer.
#[derive(Clone)]
pub struct Executor {
    writer: Writer,
    component: &'static str,
}

/// Neighbours that may run at the same time.
#[derive(PartialEq, Eq, Clone, Copy)]
enum Manner {
    Create,
    Delete,
    Alone,
}

fn manner(change: &Change) -> Manner {
    match change {
        Change::Create { .. } => Manner::Create,
        Change::Delete { .. } => Manner::Delete,
        Change::Patch { .. } | Change::Strategic { .. } | Change::Event { .. } => Manner::Alone,
    }
}

impl Executor {
    /// An executor whose events name `component` as their source.
    pub fn new(writer: impl Into<Writer>, component: &'static str) -> Self {
        let writer = writer.into();
        Self { writer, component }
    }

    /// What it writes with.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Carries out `changes` in order (neighbouring creates, and neighbouring deletes, at the same time). Returns
    /// what was written, and the first failure, after which the rest was dropped.
    pub async fn run(&self, changes: Vec<Change>) -> (Vec<Written>, Option<ExecuteError>) {
        let mut written = Vec::new();
        let mut left = VecDeque::from(changes);
        while let Some(first) = left.front().map(manner) {
            let mut length = 1;
            if first != Manner::Alone {
                length = left.iter().take_while(|change| manner(change) == first).count();
            }
            let group: Vec<Change> = left.drain(..length).collect();
            let mut failure = None;
            let mut results = stream::iter(group)
                .map(|change| self.one(change))
                .buffer_unordered(IN_FLIGHT_MAX);
            while let Some(result) = results.next().await {
                match result {
                    Ok(done) => written.extend(done),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            if failure.is_some() {
                return (written, failure);
            }
        }
        (written, None)
    }

    async fn one(&self, change: Change) -> Result<Option<Written>, ExecuteError> {
        match &change {
            Change::Create { target, object } => {
                let answer = self
                    .send(
                        Method::POST,
                        &target.collection_path(),
                        target,
                        "application/json",
                        object,
                    )
                    .await;
                already_exists_is_outdated(answer, target)
            }
            Change::Patch {
                target,
                subresource,
                uid,
                resource_version,
                merge,
            } => {
                let path = target.path(subresource.as_deref());
                let body = with_preconditions(merge.clone(), uid.as_deref(), resource_version.as_deref());
                let answer = self.send(Method::PATCH, &path, target, MERGE, &body).await;
                gone_is_done(answer, target, Method::PATCH)
            }
            Change::Strategic {
                target,
                subresource,
                uid,
                patch,
            } => {
                let path = target.path(subresource.as_deref());
                let body = with_preconditions(patch.clone(), Some(uid), None);
                let answer = self.send(Method::PATCH, &path, target, STRATEGIC, &body).await;
                gone_is_done(answer, target, Method::PATCH)
            }
            Change::Delete {
                target,
                uid,
                resource_version,
            } => self.delete(target, uid, resource_version.as_deref()).await,
            Change::Event {
                regarding,
                uid,
                reason,
                message,
                event_type,
            } => {
                self.event(regarding, uid, reason, message, *event_type).await?;
                Ok(None)
            }
        }
    }

    async fn delete(
        &self,
        target: &ObjectRef,
        uid: &str,
        version: Option<&str>,
    ) -> Result<Option<Written>, ExecuteError> {
        let mut body = json!({"preconditions": {"uid": uid}, "propagationPolicy": "Background"});
        if let Some(version) = version {
            body["preconditions"]["resourceVersion"] = Value::from(version);
        }
        let path = target.path(None);
        let answer = self
            .send(Method::DELETE, &path, target, "application/json", &body)
            .await;
        match gone_is_done(answer, target, Method::DELETE) {
            // Another incarnation is not ours to delete; another version may be this one, changed since.
            Err(ExecuteError::Outdated { .. }) if version.is_none() => Ok(None),
            result => result.map(|_| None),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        target: &ObjectRef,
        content_type: &str,
        body: &Value,
    ) -> Result<Result<String, kube::Error>, ExecuteError> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body.to_string().into_bytes())
            .map_err(|source| ExecuteError::Malformed {
                target: target.clone(),
                source,
            })?;
        Ok(self.writer.request_text(request).await)
    }

    /// Writes an event. Its name is a function of what it says, so that a repetition raises the count of the first.
    async fn event(
        &self,
        regarding: &ObjectRef,
        uid: &str,
        reason: &str,
        message: &str,
        event_type: EventType,
    ) -> Result<(), ExecuteError> {
        let mut hasher = DefaultHasher::new();
        (uid, reason, message).hash(&mut hasher);
        let namespace = if regarding.namespace.is_empty() {
            "default"
        } else {
            &regarding.namespace
        };
        let name = format!("{}.{:016x}", regarding.name, hasher.finish());
        let target = ObjectRef::new(resource_kind::EVENT, namespace, &name);
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let kind = match event_type {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        let object = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": regarding.api_version, "kind": regarding.kind,
                "namespace": regarding.namespace, "name": regarding.name, "uid": uid,
            },
            "reason": reason, "message": message, "type": kind, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": self.component}, "reportingComponent": self.component, "reportingInstance": "",
        });
        let answer = self
            .send(
                Method::POST,
                &target.collection_path(),
                &target,
                "application/json",
                &object,
            )
            .await?;
        match answer {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_already_exists() => self.count_event(&target, &now).await,
            // An event is a courtesy: a namespace that is going away takes none, and that harms nobody.
            Err(kube::Error::Api(status)) if status.code == 404 || status.is_forbidden() => Ok(()),
            Err(source) => Err(ExecuteError::Refused {
                target,
                verb: Box::new(Method::POST),
                source: Box::new(source),
            }),
        }
    }

    async fn count_event(&self, target: &ObjectRef, now: &str) -> Result<(), ExecuteError> {
        let path = target.path(None);
        let known = self
            .send(Method::GET, &path, target, "application/json", &Value::Null)
            .await?;
        let count = known
            .ok()
            .and_then(|body| serde_json::from_str::<Value>(&body).ok())
            .and_then(|event| event["count"].as_i64())
            .unwrap_or(1)
            .saturating_add(1);
        let patch = json!({"count": count, "lastTimestamp": now});
        let answer = self.send(Method::PATCH, &path, target, MERGE, &patch).await?;
        gone_is_done(Ok(answer), target, Method::PATCH).map(|_| ())
    }
}

/// Names are functions of their owner, so "already exists" means that our view is old, or that somebody else holds
/// the name. Either way: decide again, later.
fn already_exists_is_outdated(
    answer: Result<Result<String, kube::Error>, ExecuteError>,
    target: &ObjectRef,
) -> Result<Option<Written>, ExecuteError> {
    match answer? {
        Ok(body) => Ok(Some(Written {
            target: target.clone(),
            body,
        })),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Err(ExecuteError::Outdated {
            target: target.clone(),
            message: status.message,
        }),
        Err(source) => Err(ExecuteError::Refused {
            target: target.clone(),
            verb: Box::new(Method::POST),
            source: Box::new(source),
        }),
    }
}

fn gone_is_done(
    answer: Result<Result<String, kube::Error>, ExecuteError>,
    target: &ObjectRef,
    verb: Method,
) -> Result<Option<Written>, ExecuteError> {
    match answer? {
        Ok(body) => Ok(Some(Written {
            target: target.clone(),
            body,
        })),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(kube::Error::Api(status)) if status.is_conflict() || is_of_another_uid(&status) => {
            Err(ExecuteError::Outdated {
                target: target.clone(),
                message: status.message,
            })
        }
        Err(source) => Err(ExecuteError::Refused {
            target: target.clone(),
            verb: Box::new(verb),
            source: Box::new(source),
        }),
    }
}

/// Whether a patch was refused because the object has another uid: to Kubernetes that is an attempt to change it.
fn is_of_another_uid(status: &Status) -> bool {
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    status.code == 422 && causes.iter().any(|cause| cause.field == "metadata.uid")
}

/// Kubernetes refuses a patch whose metadata names another uid or version than the object has. The status of a custom
/// resource is the exception: there the uid is not looked at, and whoever writes one sees it and writes it again.
fn with_preconditions(mut merge: Value, uid: Option<&str>, resource_version: Option<&str>) -> Value {
    for (field, value) in [("uid", uid), ("resourceVersion", resource_version)] {
        if let Some(value) = value {
            merge["metadata"][field] = Value::from(value);
        }
    }
    merge
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_server::{self, Answer};

    #[tokio::test]
    async fn a_patch_of_an_object_that_was_made_anew_is_outdated_and_not_refused() {
        let causes = |field: &str| json!({"causes": [{"field": field, "reason": "FieldValueInvalid"}]});
        for (code, reason, details, outdated) in [
            (409, "Conflict", json!({}), true),
            (422, "Invalid", causes("metadata.uid"), true),
            (422, "Invalid", causes("status.phase"), false),
            (403, "Forbidden", json!({}), false),
        ] {
            let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": reason, "details": details});
            let client = scripted_server::client(move |_, _| Answer::Status(code, status.clone()));
            let change = Change::Patch {
                target: ObjectRef::new(resource_kind::POD, "a", "b"),
                subresource: None,
                uid: Some("u".to_owned()),
                resource_version: None,
                merge: json!({}),
            };
            let (_, failure) = Executor::new(client, "test").run(vec![change]).await;
            let found = matches!(failure, Some(ExecuteError::Outdated { .. }));
            assert_eq!(found, outdated, "{code}: {failure:?}");
        }
    }

    #[test]
    fn preconditions_go_into_the_metadata() {
        assert_eq!(
            with_preconditions(json!({"status": {"a": 1}}), Some("u"), None),
            json!({"status": {"a": 1}, "metadata": {"uid": "u"}})
        );
        assert_eq!(
            with_preconditions(json!({}), None, Some("7")),
            json!({"metadata": {"resourceVersion": "7"}})
        );
    }
}
