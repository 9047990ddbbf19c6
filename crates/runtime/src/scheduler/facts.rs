//! What the watches show, in the engine's words.

use std::sync::Arc;

use basalt_api::NamespacedName;
use basalt_engine::facts::Event;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, ResourceQuota};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Client, Resource};

use super::News;
use crate::event_loop::Frame;
use crate::watch::feed::FeedEvent;

/// Turns a watch event into the engine's.
pub(super) fn translate<K: Resource>(
    event: FeedEvent<K>,
    upsert: impl Fn(&K) -> Event,
    gone: impl Fn(NamespacedName, Arc<str>) -> Event,
) -> Option<Event> {
    match event {
        FeedEvent::Upsert(object) => Some(upsert(&object)),
        FeedEvent::Delete { key, uid } => Some(gone(key, uid.into())),
        FeedEvent::Synced => None,
    }
}

/// News of a kind by name, which only the engine cares for.
macro_rules! named {
    ($kind:ty, $fact:ident, $gone:ident) => {
        |event: FeedEvent<$kind>| {
            let gone = |key: NamespacedName, uid| Event::$gone {
                name: key.name.into(),
                uid: Some(uid),
            };
            News::Fact(translate(event, |object| Event::$fact(object.into()), gone).map(Box::new))
        }
    };
}

/// The same of a kind by namespace and name.
macro_rules! keyed {
    ($kind:ty, $fact:ident, $gone:ident) => {
        |event: FeedEvent<$kind>| {
            let gone = |key: NamespacedName, uid| Event::$gone {
                key: key.to_string().into(),
                uid: Some(uid),
            };
            News::Fact(translate(event, |object| Event::$fact(object.into()), gone).map(Box::new))
        }
    };
}

/// Follows the kinds that only the engine cares for.
pub(super) fn follow(frame: &mut Frame<News>, client: &Client) {
    frame.follow(client, named!(PriorityClass, PriorityClass, PriorityClassGone));
    frame.follow(client, named!(Namespace, Namespace, NamespaceGone));
    frame.follow(client, named!(PersistentVolume, Volume, VolumeGone));
    frame.follow(client, named!(StorageClass, Storage, StorageGone));
    frame.follow(client, keyed!(PersistentVolumeClaim, Claim, ClaimGone));
    frame.follow(client, keyed!(ResourceQuota, Quota, QuotaGone));
    frame.follow(client, keyed!(PodDisruptionBudget, Budget, BudgetGone));
}
