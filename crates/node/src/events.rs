//! Events: what a pod's owner is told beside its status.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, PostParams};
use tracing::warn;

/// What is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Note {
    /// Normal, or Warning.
    pub(crate) warning: bool,
    /// One word, for programs.
    pub(crate) reason: String,
    /// In words, for people.
    pub(crate) message: String,
}

impl Note {
    pub(crate) fn warning(reason: &str, message: String) -> Self {
        Self {
            warning: true,
            reason: reason.to_owned(),
            message,
        }
    }

    pub(crate) fn normal(reason: &str, message: String) -> Self {
        Self {
            warning: false,
            reason: reason.to_owned(),
            message,
        }
    }
}

/// Writes an event about a pod and gives its name; if that fails, nothing else does.
pub(crate) async fn post(
    client: &Client,
    component: &str,
    namespace: &str,
    name: &str,
    uid: &str,
    note: &Note,
) -> Option<String> {
    let now = jiff::Timestamp::now();
    let time = Time(now);
    let event_name = format!("{name}.{:x}", now.as_nanosecond());
    let event = Event {
        metadata: kube::core::ObjectMeta {
            name: Some(event_name.clone()),
            namespace: Some(namespace.to_owned()),
            ..Default::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            ..Default::default()
        },
        type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(note.reason.clone()),
        message: Some(note.message.clone()),
        source: Some(EventSource {
            component: Some(component.to_owned()),
            host: None,
        }),
        first_timestamp: Some(time.clone()),
        last_timestamp: Some(time),
        count: Some(1),
        ..Default::default()
    };
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    match events.create(&PostParams::default(), &event).await {
        Ok(_) => Some(event_name),
        Err(error) => {
            warn!(%error, pod = name, "an event could not be written");
            None
        }
    }
}
