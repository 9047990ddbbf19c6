//! What the agent watches.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod, Secret, Service};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use tracing::warn;

use super::super::hosts::NamedService;

/// What an object is, as far as pods refer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    ConfigMap,
    Secret,
    Claim,
}

/// What the watches say.
pub(super) enum News {
    /// A list of the node's pods begins.
    PodsRelisting,
    Pod(Box<Pod>),
    PodGone(Box<Pod>),
    /// The list is complete.
    PodsListed,
    Service {
        namespace: String,
        name: String,
        now: Option<NamedService>,
    },
    /// An object came, changed or went.
    Object {
        kind: Kind,
        namespace: String,
        name: String,
    },
    /// Somebody deleted our Node.
    NodeGone,
}

/// Everything, in one stream that never ends.
pub(super) fn all(client: &Client, node: &str) -> impl Stream<Item = News> + use<> {
    let pods = Api::<Pod>::all(client.clone());
    let bound = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
    let pods = watched("pods", pods, bound, |event| match event {
        watcher::Event::Init => Some(News::PodsRelisting),
        watcher::Event::InitDone => Some(News::PodsListed),
        watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => Some(News::Pod(Box::new(pod))),
        watcher::Event::Delete(pod) => Some(News::PodGone(Box::new(pod))),
    });
    let own = watcher::Config::default().fields(&format!("metadata.name={node}"));
    let mut there = false;
    let nodes = watched(
        "nodes",
        Api::<Node>::all(client.clone()),
        own,
        move |event| match event {
            watcher::Event::Init => {
                there = false;
                None
            }
            watcher::Event::InitApply(_) => {
                there = true;
                None
            }
            // It may have gone before the watch began.
            watcher::Event::InitDone => (!there).then_some(News::NodeGone),
            watcher::Event::Delete(_) => Some(News::NodeGone),
            watcher::Event::Apply(_) => None,
        },
    );
    let services = watched(
        "services",
        Api::<Service>::all(client.clone()),
        watcher::Config::default(),
        service,
    );
    stream::select_all([
        pods.boxed(),
        nodes.boxed(),
        services.boxed(),
        objects::<ConfigMap>(client, "config maps", Kind::ConfigMap).boxed(),
        objects::<Secret>(client, "secrets", Kind::Secret).boxed(),
        objects::<PersistentVolumeClaim>(client, "claims", Kind::Claim).boxed(),
    ])
}

fn service(event: watcher::Event<Service>) -> Option<News> {
    let (service, there) = match event {
        watcher::Event::Apply(service) | watcher::Event::InitApply(service) => (service, true),
        watcher::Event::Delete(service) => (service, false),
        watcher::Event::Init | watcher::Event::InitDone => return None,
    };
    let (namespace, name) = (service.namespace().unwrap_or_default(), service.name_any());
    let spec = service.spec.unwrap_or_default();
    let now = there.then(|| NamedService {
        name: name.clone(),
        selector: spec.selector.unwrap_or_else(BTreeMap::new),
        unready_too: spec.publish_not_ready_addresses == Some(true),
    });
    Some(News::Service { namespace, name, now })
}

fn objects<K>(client: &Client, what: &'static str, kind: Kind) -> impl Stream<Item = News> + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    watched(
        what,
        Api::<K>::all(client.clone()),
        watcher::Config::default(),
        move |event| match event {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) | watcher::Event::Delete(object) => {
                Some(News::Object {
                    kind,
                    namespace: object.namespace().unwrap_or_default(),
                    name: object.name_any(),
                })
            }
            watcher::Event::Init | watcher::Event::InitDone => None,
        },
    )
}

fn watched<K, F>(
    what: &'static str,
    api: Api<K>,
    config: watcher::Config,
    mut told: F,
) -> impl Stream<Item = News> + Send + use<K, F>
where
    F: FnMut(watcher::Event<K>) -> Option<News> + Send + 'static,
    K: kube::Resource + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    watcher(api, config).default_backoff().filter_map(move |event| {
        let news = match event {
            Ok(event) => told(event),
            Err(error) => {
                warn!(%error, "this machine's node: the watch on {what} failed; trying again");
                None
            }
        };
        futures::future::ready(news)
    })
}
