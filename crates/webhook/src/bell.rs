//! Rings when one object may have changed: whoever hears it looks at the object itself.

use std::pin::Pin;
use std::time::Duration;

use basalt_api::backoff::Backoff;
use futures::{Stream, StreamExt};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};

/// A look without a ring: for a watch that is not allowed, or that is cut without anybody noticing.
const AT_LEAST_EVERY: Duration = Duration::from_secs(30);

/// The delays after which a failed repair is tried again.
pub(super) const REPAIR_RETRY: Backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(15));

/// A watch of one object by its name, which is all that a right with `resourceNames` allows.
pub(super) struct Bell {
    rings: Pin<Box<dyn Stream<Item = ()> + Send>>,
}

impl Bell {
    /// Of the object of that name; without a namespace it is one of the whole cluster's.
    pub(super) fn new(client: &Client, kind: &ApiResource, namespace: Option<&str>, name: &str) -> Self {
        let client = client.clone();
        let api: Api<PartialObjectMeta<DynamicObject>> = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, kind),
            None => Api::all_with(client, kind),
        };
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let name = name.to_owned();
        let rings = watcher(api, config).default_backoff().filter_map(move |event| {
            if let Err(error) = &event {
                tracing::debug!(name, %error, "watch interrupted, will resume");
            }
            let rings = matches!(event, Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone));
            std::future::ready(rings.then_some(()))
        });
        Self { rings: rings.boxed() }
    }

    /// Resolves when the object may have changed, and after `at_most` in any case.
    pub(super) async fn rung(&mut self, at_most: Duration) {
        tokio::select! {
            Some(()) = self.rings.next() => {}
            () = tokio::time::sleep(at_most.min(AT_LEAST_EVERY)) => {}
        }
    }
}
