//! A running server as it is seen over the network: TLS, authentication, admission, JSON.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use basalt_api::resource_kind;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::{KEYS_PER_WRITER, Load, Writer, load, name};

/// Connections, shared by the writers: as many as programs that would write at the same time.
const CONNECTIONS: usize = 8;

/// A server to write ConfigMaps to.
pub(crate) struct Server {
    clients: Vec<Client>,
}

impl Server {
    /// Connects by a kubeconfig file.
    pub(crate) async fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        let clients: Result<Vec<Client>, kube::Error> =
            (0..CONNECTIONS).map(|_| Client::try_from(config.clone())).collect();
        Ok(Self { clients: clients? })
    }

    /// Creates by concurrent writers, then updates of what they created.
    pub(crate) async fn load(&self, writers: usize, time: Duration, bytes: u32) -> anyhow::Result<Load> {
        let value: Arc<str> = "x".repeat(bytes as usize).into();
        let writer = |number| Requester {
            number,
            writers,
            client: self.clients[number % CONNECTIONS].clone(),
            value: Arc::clone(&value),
        };
        load(writers, time, writer).await
    }
}

/// Sends to a server.
struct Requester {
    number: usize,
    /// Of how many.
    writers: usize,
    client: Client,
    value: Arc<str>,
}

impl Writer for Requester {
    async fn write(&mut self, count: u64) -> anyhow::Result<()> {
        // Runs with different numbers of writers must not meet what the others created.
        let name = format!("bench-{}-{}", self.writers, name(self.number, count));
        // The count makes each write a change: one that changes nothing is not written.
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"count":"{count}","value":"{}"}}}}"#,
            self.value
        );
        let request = if count < KEYS_PER_WRITER {
            http::Request::post(resource_kind::CONFIG_MAP.collection_path("default"))
        } else {
            http::Request::put(resource_kind::CONFIG_MAP.object_path("default", &name))
        };
        let request = request
            .header("content-type", "application/json")
            .body(body.into_bytes())?;
        self.client.request_text(request).await?;
        Ok(())
    }
}
