//! The webhook's view, filled by watches.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use basalt_admission::View;
use basalt_api::{Job, PodGroup, Queue};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Webhook;
use basalt_runtime::watch::feed::{self, Manner};

/// What there is to watch: a resource as the view names it, and as the API does.
fn kinds() -> [(&'static str, ApiResource); 6] {
    View::RESOURCES.map(|resource| {
        let kind = match resource {
            "pods" => ApiResource::erase::<Pod>(&()),
            "nodes" => ApiResource::erase::<Node>(&()),
            "namespaces" => ApiResource::erase::<Namespace>(&()),
            "jobs.batch.volcano.sh" => ApiResource::erase::<Job>(&()),
            "podgroups.scheduling.volcano.sh" => ApiResource::erase::<PodGroup>(&()),
            _ => ApiResource::erase::<Queue>(&()),
        };
        (resource, kind)
    })
}

/// Watches everything for ever.
pub(super) async fn run(webhook: &Webhook) {
    let watches = kinds().map(|(resource, kind)| watch(webhook, resource, kind));
    futures::future::join_all(watches).await;
}

async fn watch(webhook: &Webhook, resource: &'static str, kind: ApiResource) {
    let is_bare = matches!(resource, "pods" | "namespaces");
    let client = feed::reader(webhook.client().clone(), is_bare);
    let config = watcher::Config::default();
    match resource {
        // There may be many, and only what their metadata say is looked at. Those that have ended are of no interest.
        "pods" => {
            let living = config.fields("status.phase!=Succeeded,status.phase!=Failed");
            let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client, &kind);
            follow(webhook, resource, api, living).await;
        }
        "namespaces" => {
            let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client, &kind);
            follow(webhook, resource, api, config).await;
        }
        _ => follow(webhook, resource, Api::<DynamicObject>::all_with(client, &kind), config).await,
    }
}

fn key_of(object: &impl ResourceExt) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

async fn follow<K>(webhook: &Webhook, resource: &'static str, api: Api<K>, config: watcher::Config)
where
    K: ResourceExt + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let mut manner = Manner::Streamed;
    let begin = |manner| feed::events(api.clone(), config.clone(), manner);
    let mut stream = begin(manner);
    let mut listed = BTreeSet::new();
    while let Some(event) = stream.next().await {
        // The beginning of a list is only an attempt.
        if matches!(event, Ok(ref event) if !matches!(event, Event::Init)) {
            webhook.watches().works(resource);
        }
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.insert(key_of(&object));
                put(webhook, resource, &object);
            }
            Ok(Event::InitDone) => {
                let listed = std::mem::take(&mut listed);
                webhook.change(|view| view.retain(resource, &listed));
                webhook.seen(resource);
            }
            Ok(Event::Apply(object)) => put(webhook, resource, &object),
            Ok(Event::Delete(object)) => {
                let (namespace, name) = key_of(&object);
                webhook.change(|view| view.remove(resource, &namespace, &name));
            }
            Err(error) if manner == Manner::Streamed && feed::cannot_stream(&error) => {
                manner = Manner::Listed;
                stream = begin(manner);
            }
            Err(error) => {
                webhook.watches().failed(resource);
                tracing::warn!(resource, %error, "watch interrupted, will resume");
            }
        }
    }
}

fn put<K: ResourceExt + Serialize>(webhook: &Webhook, resource: &str, object: &K) {
    match serde_json::to_value(object) {
        Ok(value) => webhook.change(|view| view.put(resource, &Arc::new(value))),
        Err(error) => tracing::warn!(resource, name = object.name_any(), %error, "not understood, and left out"),
    }
}
