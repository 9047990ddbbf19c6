//! A running server as it is seen over the network: TLS, authentication, admission, JSON.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::{KEYS_PER_WRITER, Load, load, name};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A server to write ConfigMaps to.
pub(crate) struct Server {
    client: Client,
}

impl Server {
    /// Connects by a kubeconfig file.
    pub(crate) async fn connect(kubeconfig: &Path) -> anyhow::Result<Self> {
        let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
        let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Self::new(Client::try_from(config)?))
    }

    /// Uses a client that is there already.
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates by concurrent writers, then updates of what they created.
    pub(crate) async fn load(&self, writers: usize, time: Duration, bytes: u32) -> anyhow::Result<Load> {
        let client = self.client.clone();
        let value: Arc<str> = "x".repeat(bytes as usize).into();
        load(writers, time, move |writer, count| {
            let (client, value) = (client.clone(), Arc::clone(&value));
            async move {
                // Runs with different numbers of writers must not meet what the others created.
                let name = format!("bench-{writers}-{}", name(writer, count));
                let body = format!(
                    r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"value":"{value}"}}}}"#
                );
                let request = if count < KEYS_PER_WRITER {
                    http::Request::post(CONFIG_MAPS)
                } else {
                    http::Request::put(format!("{CONFIG_MAPS}/{name}"))
                };
                let request = request.header("content-type", "application/json").body(body.into_bytes())?;
                client.request_text(request).await?;
                Ok(())
            }
        })
        .await
    }
}
