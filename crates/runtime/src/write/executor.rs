//! Carries out the [`Change`]s that the pure crates ask for.
//!
//! What an answer of the server means for a change stands in [`Change::refusal_meaning`]; every request leaves through the
//! [`Writer`].

use std::collections::VecDeque;

use basalt_api::change::RefusalMeaning;
use basalt_api::stable_hash::StableHash;
use basalt_api::{Change, EventType, ObjectRef, resource_kind};
use futures::stream::{self, StreamExt};
use http::Method;
use jiff::Timestamp;
use kube::core::Status;
use serde_json::{Value, json};

use crate::write::writer::{JSON, Writer};

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
        let (target, method, path, content_type, body) = match &change {
            Change::Create { target, object } => (target, Method::POST, target.collection_path(), JSON, object.clone()),
            Change::Patch {
                target,
                subresource,
                uid,
                resource_version,
                merge,
            } => {
                let path = target.path(subresource.as_deref());
                let body = with_preconditions(merge.clone(), uid.as_deref(), resource_version.as_deref());
                (target, Method::PATCH, path, MERGE, body)
            }
            Change::Strategic {
                target,
                subresource,
                uid,
                patch,
            } => {
                let path = target.path(subresource.as_deref());
                let body = with_preconditions(patch.clone(), Some(uid), None);
                (target, Method::PATCH, path, STRATEGIC, body)
            }
            Change::Delete {
                target,
                uid,
                resource_version,
            } => {
                let body = delete_options(uid, resource_version.as_deref());
                (target, Method::DELETE, target.path(None), JSON, body)
            }
            Change::Event { .. } => return self.event(&change).await.map(|()| None),
        };
        let answer = self.writer.send_json(method.clone(), &path, content_type, &body).await;
        let body = conclude(&change, target, method, answer)?;
        let is_written = !matches!(change, Change::Delete { .. });
        Ok(body.filter(|_| is_written).map(|body| Written {
            target: target.clone(),
            body,
        }))
    }

    /// Writes an event. Its name is a function of what it says, so that a repetition raises the count of the first.
    async fn event(&self, change: &Change) -> Result<(), ExecuteError> {
        let Change::Event {
            regarding,
            uid,
            reason,
            message,
            event_type,
        } = change
        else {
            return Ok(());
        };
        let namespace = match &*regarding.namespace {
            "" => "default",
            namespace => namespace,
        };
        let name = event_name(&regarding.name, uid, reason, message);
        let target = ObjectRef::new(resource_kind::EVENT, namespace, &name);
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let kind = match event_type {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        let object = json!({
            "apiVersion": target.api_version, "kind": target.kind,
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": regarding.api_version, "kind": regarding.kind,
                "namespace": regarding.namespace, "name": regarding.name, "uid": uid,
            },
            "reason": reason, "message": message, "type": kind, "count": 1,
            "firstTimestamp": now, "lastTimestamp": now,
            "source": {"component": self.component}, "reportingComponent": self.component, "reportingInstance": "",
        });
        let path = target.collection_path();
        match self.writer.send_json(Method::POST, &path, JSON, &object).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => self.count_event(target, &now).await,
            answer => conclude(change, &target, Method::POST, answer).map(drop),
        }
    }

    async fn count_event(&self, target: ObjectRef, now: &str) -> Result<(), ExecuteError> {
        let path = target.path(None);
        let known = self.writer.send_json(Method::GET, &path, JSON, &Value::Null).await;
        let count = known
            .ok()
            .and_then(|body| serde_json::from_str::<Value>(&body).ok())
            .and_then(|event| event["count"].as_i64())
            .unwrap_or(1)
            .saturating_add(1);
        let change = Change::Patch {
            target,
            subresource: None,
            uid: None,
            resource_version: None,
            merge: json!({"count": count, "lastTimestamp": now}),
        };
        Box::pin(self.one(change)).await.map(drop)
    }
}

/// Returns the name of an event: the same for the same words about the same object, on every machine and in every
/// version, so that another replica counts on.
fn event_name(regarding: &str, uid: &str, reason: &str, message: &str) -> String {
    format!("{regarding}.{:016x}", StableHash::of_texts(&[uid, reason, message]))
}

fn delete_options(uid: &str, resource_version: Option<&str>) -> Value {
    let mut options = json!({"preconditions": {"uid": uid}, "propagationPolicy": "Background"});
    if let Some(version) = resource_version {
        options["preconditions"]["resourceVersion"] = Value::from(version);
    }
    options
}

/// Returns the body of an answer, nothing if a refusal counts as done, and else what the refusal means.
fn conclude(
    change: &Change,
    target: &ObjectRef,
    verb: Method,
    answer: Result<String, kube::Error>,
) -> Result<Option<String>, ExecuteError> {
    let error = match answer {
        Ok(body) => return Ok(Some(body)),
        Err(error) => error,
    };
    let meaning = match &error {
        kube::Error::Api(status) => change.refusal_meaning(&status.reason, is_of_another_uid(status)),
        _ => RefusalMeaning::Failed,
    };
    match (meaning, error) {
        (RefusalMeaning::Done, _) => Ok(None),
        (RefusalMeaning::Outdated, kube::Error::Api(status)) => Err(ExecuteError::Outdated {
            target: target.clone(),
            message: status.message,
        }),
        (_, source) => Err(ExecuteError::Refused {
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

    #[tokio::test]
    async fn an_object_that_exists_already_is_not_taken_for_ours() {
        let status =
            json!({"kind": "Status", "status": "Failure", "code": 409, "message": "no", "reason": "AlreadyExists"});
        let client = scripted_server::client(move |_, _| Answer::Status(409, status.clone()));
        let change = Change::Create {
            target: ObjectRef::new(resource_kind::POD, "a", "b"),
            object: json!({}),
        };
        let (written, failure) = Executor::new(client, "test").run(vec![change]).await;
        assert!(written.is_empty(), "{written:?}");
        assert!(matches!(failure, Some(ExecuteError::Outdated { .. })), "{failure:?}");
    }

    #[test]
    fn the_name_of_an_event_is_the_same_in_every_version() {
        assert_eq!(event_name("p", "u", "Scheduled", "m"), "p.310ab8830db8612d");
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
