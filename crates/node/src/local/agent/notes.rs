//! Events about pods, one after another; the same thing told again is counted, not repeated.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use super::super::status::seconds;
use crate::events::{self, Note};

/// Who tells.
const COMPONENT: &str = "basalt-node";
/// More than this are not remembered: they are told anew then.
const REMEMBERED_MAX: usize = 4_096;

/// Something about a pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Said {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) note: Note,
}

/// Writes them all.
pub(super) async fn post_all(client: Client, mut notes: UnboundedReceiver<Said>) {
    let mut known: HashMap<Said, (String, u32)> = HashMap::new();
    while let Some(said) = notes.recv().await {
        if let Some((event, count)) = known.get_mut(&said) {
            *count = count.saturating_add(1);
            let api: Api<Event> = Api::namespaced(client.clone(), &said.namespace);
            let patch = json!({"count": *count, "lastTimestamp": seconds(Timestamp::now())});
            if api
                .patch(event, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .is_ok()
            {
                continue;
            }
        }
        let (namespace, name, uid) = (&said.namespace, &said.name, &said.uid);
        let posted = events::post(&client, COMPONENT, namespace, name, uid, &said.note).await;
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        match posted {
            Some(event) => known.insert(said, (event, 1)),
            None => known.remove(&said),
        };
    }
}
