//! The admission server on Kubernetes: HTTPS, certificates of its own, and the decisions of `basalt_admission`.

mod authority;
mod bell;
mod flags;
mod inject;
mod limits;
mod numbers;
mod secret;
mod serve;
#[cfg(any(test, feature = "testing"))]
pub mod test_server;
mod tls;
mod watches;

use std::sync::Arc;

use anyhow::Context;
use basalt_apiserver::http::{FaceOptions, serve_router};
use basalt_runtime::process;
use futures::future::join_all;
use kube::Client;
use rustls::ServerConfig;

pub use flags::{WebhookFlags, pod_namespace};
pub use limits::{Limits, REVIEW_MAX};
use secret::Keeper;
pub use secret::MADE_BY;
pub use serve::Webhook;
use tls::{Given, InForce};

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
pub fn example_page() -> String {
    numbers::Numbers::example().encode()
}
