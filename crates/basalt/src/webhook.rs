//! `basalt webhook`: admission over HTTPS, as a webhook of any cluster.

mod authority;
mod bell;
mod flags;
mod inject;
mod limits;
mod numbers;
mod secret;
mod serve;
mod tls;
mod watches;

use std::sync::Arc;

use anyhow::Context;
use basalt_apiserver::http::{FaceOptions, serve_router};
use futures::future::join_all;
use kube::Client;
use rustls::ServerConfig;

use crate::connection::ConnectionFlags;
use crate::parts::{MonitoringFlags, Parts};
use crate::process;
use crate::scheduling::NameFlags;
pub use flags::WebhookFlags;
pub(crate) use flags::pod_namespace;
pub use limits::{Limits, REVIEW_MAX};
use secret::Keeper;
pub(crate) use secret::MADE_BY;
pub use serve::Webhook;
use tls::{Given, InForce};

/// Serve admission over HTTPS, as a webhook of any cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Paths: /queues/mutate, /queues/validate, and the same for jobs, podgroups, pods and commands; /healthz and /readyz.
Without --tls-cert and --cert-dir it keeps an authority and a certificate of its own in the Secret --tls-secret, renews
both without a restart, and writes the authority into the webhook configurations.
Everything else is in docs/admission.md.

Examples:
  basalt webhook                                               inside a pod
  basalt webhook --tls-secret batch/webhook-tls --host webhook.batch.svc
                                                               under other names
  basalt webhook --kubeconfig ~/.kube/config --webhook-listen 0.0.0.0:9443 --webhook-url https://10.0.0.7:9443
                                                               beside the cluster, called by its address
  basalt webhook --tls-cert tls.crt --tls-key tls.key          with a certificate of somebody else's (cert-manager)
  basalt webhook --kubeconfig ~/.kube/config --cert-dir certs --host localhost
                                                               with one in a folder; caBundle is certs/ca.crt
  basalt webhook --queue-acl --max-queue-depth 3               a delivery needs the right to use its queue")]
#[command(mut_arg("metrics_listen", |flag| flag.default_value("127.0.0.1:8082")))]
#[command(mut_arg("webhook_listen", |flag| flag.alias("listen")), mut_arg("webhook_host", |flag| flag.alias("host")))]
pub struct WebhookArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    monitoring: MonitoringFlags,
    #[command(flatten)]
    names: NameFlags,
    #[command(flatten)]
    webhook: WebhookFlags,
}

/// Where the certificate comes from.
enum Source {
    /// From files that somebody else renews.
    Files(Given, Arc<InForce>),
    /// From a folder of our own; it stays until the end.
    Folder(Arc<ServerConfig>),
    /// From a Secret that all replicas keep.
    Secret(Keeper, Arc<InForce>),
}

impl Source {
    fn config(&self) -> anyhow::Result<Arc<ServerConfig>> {
        match self {
            Self::Files(_, in_force) | Self::Secret(_, in_force) => in_force.config(),
            Self::Folder(config) => Ok(Arc::clone(config)),
        }
    }

    /// Resolves when there is something to serve with.
    async fn there(&self) {
        if let Self::Secret(_, in_force) = self {
            in_force.there().await;
        }
    }
}

impl WebhookFlags {
    /// The webhook that these flags describe, for the schedulers of these names. It answers nothing until
    /// [`WebhookFlags::serve`] runs.
    pub fn webhook(&self, client: Client, schedulers: Vec<String>) -> Webhook {
        Webhook::new(client, self.settings(schedulers.into())).with_limits(self.limits())
    }

    /// Serves `webhook` until `stop` resolves; the requests that are in flight then are answered.
    pub async fn serve(&self, webhook: &Webhook, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let source = self.source(webhook.client())?;
        let listener = process::listen(self.listen_address(), "--webhook-listen").await?;
        println!("basalt webhook: serving at https://{}", listener.local_addr()?);
        let tls = FaceOptions {
            connections_max: limits::CONNECTIONS_MAX,
            patience: limits::GREETING,
            head_max: Some(limits::HEAD_MAX),
            idle_max: Some(limits::IDLE_MAX),
            ..FaceOptions::new(source.config()?)
        };
        let stop = async {
            stop.await;
            tokio::time::sleep(self.drain()).await;
        };
        let serving = async {
            let mut stop = std::pin::pin!(stop);
            // Whoever connects earlier waits: that is better than a handshake that fails.
            tokio::select! {
                () = source.there() => serve_router(listener, webhook.router(), tls, stop).await,
                () = &mut stop => Ok(()),
            }
        };
        tokio::select! {
            ended = serving => ended.context("serving admission"),
            () = self.look_after(&source, webhook) => anyhow::bail!("looking after the certificate ended"),
            () = webhook.clone().watch() => anyhow::bail!("the watches ended"),
        }
    }

    /// Renews what is served with, and tells the API server whom to trust, for ever.
    async fn look_after(&self, source: &Source, webhook: &Webhook) {
        match source {
            Source::Files(given, _) => given.renew().await,
            Source::Folder(_) => std::future::pending().await,
            Source::Secret(keeper, _) => {
                let inject = |configuration| {
                    let url = self.url().map(str::to_owned);
                    inject::inject(webhook.clone(), configuration, keeper.bundle(), url)
                };
                let configurations = self.configurations();
                webhook.courts(configurations.iter().map(ToString::to_string));
                let injections = join_all(configurations.into_iter().map(inject));
                tokio::join!(keeper.keep(), injections);
            }
        }
    }
}

/// A page of metrics with everything on it.
#[cfg(test)]
pub(crate) fn example_page() -> String {
    numbers::Numbers::example().encode()
}

/// Serves until it is told to stop.
pub fn main(arguments: WebhookArguments) -> anyhow::Result<()> {
    let parts = Parts {
        name: "basalt webhook",
        connection: arguments.connection,
        monitoring: arguments.monitoring,
        election: None,
        scheduler: None,
        controllers: None,
        webhook: Some((arguments.webhook, arguments.names.names())),
    };
    process::run(|stop| parts.run(stop))
}
