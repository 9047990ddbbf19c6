//! How our commands reach a cluster.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A connection on which nothing comes for so long is dead: a watch is ended by the server before that.
const SILENCE_MAX: Duration = Duration::from_secs(295);

/// The flags of every command that works against any cluster.
#[derive(Debug, clap::Args)]
pub struct ConnectionFlags {
    /// How to reach the cluster [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
}

impl ConnectionFlags {
    /// A client of that cluster.
    pub async fn client(&self) -> anyhow::Result<Client> {
        client(self.config().await?)
    }

    /// How to reach it, in a form from which several clients can be made.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let kubeconfig =
                    Kubeconfig::read_from(path).with_context(|| format!("--kubeconfig {}", path.display()))?;
                let options = KubeConfigOptions {
                    context: self.context.clone(),
                    ..KubeConfigOptions::default()
                };
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(|| format!("--kubeconfig {}", path.display()))?
            }
            None => Config::infer().await.context(
                "there is no kubeconfig, and this is no pod: say how to reach the cluster with --kubeconfig",
            )?,
        };
        // Whoever writes decides what a failure means: a client that repeats a write in silence hides that.
        config.default_retry = false;
        config.read_timeout = Some(SILENCE_MAX);
        Ok(config)
    }
}

/// The same, for requests that say which part of us asks: people find it in audit logs and in `managedFields`.
pub fn named(config: &Config, part: &str) -> Config {
    let mut config = config.clone();
    let name = format!("basalt-{part}/{}", env!("CARGO_PKG_VERSION"));
    if let Ok(name) = HeaderValue::from_str(&name) {
        config.headers.push((USER_AGENT, name));
    }
    config
}

/// One client more.
pub fn client(config: Config) -> anyhow::Result<Client> {
    Client::try_from(config).context("the configuration of the cluster makes no client")
}
