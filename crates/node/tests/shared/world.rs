//! The real API server, in memory and in this process.

use std::pin::Pin;
use std::time::Duration;

use basalt_apiserver::Workers;
use basalt_apiserver::http::{Server, ServerOptions, index};
use basalt_apiserver::store::{Backend, Options, Store};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::Client;
use kube::api::Api;
use kube::runtime::wait::{Condition, await_condition};

/// No wait takes longer, also on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) client: Client,
    _workers: Workers,
}

impl World {
    pub(crate) async fn new() -> Self {
        let mut options = Options::new(Backend::Memory);
        options.indexer = index;
        let server = Server::new(
            Store::open(options).expect("a store in memory"),
            ServerOptions::default(),
        );
        server.bootstrap().await.expect("bootstrap");
        Self {
            client: server.client("tester"),
            _workers: server.start_workers(),
        }
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn until_phase(&self, name: &str, phase: &'static str) -> PodStatus {
        let reached = |pod: Option<&Pod>| pod.and_then(|p| p.status.as_ref()?.phase.as_deref()) == Some(phase);
        let pod = until(self.pods(), name, reached).await.expect("the pod is there");
        pod.status.expect("a status")
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        until(self.pods(), name, |pod: Option<&Pod>| pod.is_none()).await;
    }
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("{what}: not in time"))
}

/// Boxed, for a watch is a large future.
pub(crate) fn until<K>(
    api: Api<K>,
    name: &str,
    condition: impl Condition<K>,
) -> Pin<Box<impl Future<Output = Option<K>>>>
where
    K: Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + kube::Resource + 'static,
{
    Box::pin(async move {
        within(name, await_condition(api, name, condition))
            .await
            .expect("the watch works")
    })
}

pub(crate) fn is_true(status: Option<&PodStatus>, kind: &str) -> bool {
    let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == kind && c.status == "True")
}
