//! How our commands reach a cluster.

use std::path::PathBuf;

use anyhow::Context;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

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
        Ok(config)
    }
}

/// One client more.
pub fn client(config: Config) -> anyhow::Result<Client> {
    Client::try_from(config).context("the configuration of the cluster makes no client")
}
