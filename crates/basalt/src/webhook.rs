//! `basalt webhook`: admission over HTTPS, as a webhook of any cluster.

mod serve;
mod tls;
mod watches;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use basalt_admission::Settings;
use basalt_api::fraction::Fraction;
use basalt_apiserver::face::{TlsOptions, serve_router};
use kube::Client;

use crate::connection::ConnectionFlags;
use crate::process;
pub use serve::Webhook;

/// Serve admission over HTTPS, as a webhook of any cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Paths: /queues/mutate, /queues/validate, and the same for jobs, podgroups, pods and commands; /healthz and /readyz.
Everything else is in docs/admission.md.

Examples:
  basalt webhook --tls-cert tls.crt --tls-key tls.key         inside a pod, with a certificate of the cluster's
  basalt webhook --kubeconfig ~/.kube/config --cert-dir certs --host webhook.basalt-system.svc
                                                              with one of its own; caBundle is certs/ca.crt
  basalt webhook --queue-acl --max-queue-depth 3              a delivery needs the right to use its queue")]
#[command(mut_arg("webhook_listen", |flag| flag.alias("listen")), mut_arg("webhook_host", |flag| flag.alias("host")))]
pub struct WebhookArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    webhook: WebhookFlags,
}

/// The flags of admission, wherever it is served.
#[derive(Debug, clap::Args)]
pub struct WebhookFlags {
    /// Where admission is served; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:8443")]
    webhook_listen: SocketAddr,
    /// Certificate chain in PEM
    #[arg(long, alias = "tls-cert-file", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate in PEM
    #[arg(long, alias = "tls-private-key-file", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Without a certificate: the folder in which an authority of its own is made and kept
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "tls_cert",
        required_unless_present = "tls_cert"
    )]
    cert_dir: Option<PathBuf>,
    /// Names and addresses that such a certificate is for; may be repeated
    #[arg(long, value_name = "NAME", default_values = ["localhost", "127.0.0.1"])]
    webhook_host: Vec<String>,
    /// Levels under root that the tree of queues may have
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=32))]
    max_queue_depth: u8,
    /// The part of the cluster that all queues together may be guaranteed, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1.0")]
    guarantee_share: Fraction,
    /// Whoever delivers to a queue needs the right to use it (verb use on queues/NAME)
    #[arg(long)]
    queue_acl: bool,
}

impl WebhookFlags {
    fn settings(&self) -> Settings {
        Settings {
            queue_depth_max: self.max_queue_depth.into(),
            guarantee_share: self.guarantee_share,
            queue_acl: self.queue_acl,
        }
    }

    /// What to serve with; and the certificate that others renew, if it is one of those.
    fn tls(&self) -> anyhow::Result<(TlsOptions, Option<Arc<tls::Given>>)> {
        match (&self.tls_cert, &self.tls_key, &self.cert_dir) {
            (Some(certificate), Some(key), _) => {
                let given = tls::Given::read(certificate, key)?;
                Ok((TlsOptions::new(given.config()?), Some(given)))
            }
            (_, _, Some(folder)) => Ok((TlsOptions::new(tls::own(folder, &self.webhook_host)?), None)),
            _ => anyhow::bail!("give --tls-cert and --tls-key, or --cert-dir"),
        }
    }
}

impl WebhookFlags {
    /// The webhook that these flags describe. It answers nothing until [`WebhookFlags::serve`] runs.
    pub fn webhook(&self, client: Client) -> Webhook {
        Webhook::new(client, self.settings())
    }

    /// Serves `webhook` until `stop` resolves; the requests that are in flight then are answered.
    pub async fn serve(&self, webhook: &Webhook, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        let (tls, given) = self.tls()?;
        let listener = process::listen(self.webhook_listen, "--webhook-listen").await?;
        println!("basalt webhook: serving at https://{}", listener.local_addr()?);
        let serving = serve_router(listener, webhook.router(), tls, stop);
        tokio::select! {
            ended = serving => ended.context("serving admission"),
            () = renewal(given) => anyhow::bail!("looking after the certificate ended"),
            () = webhook.clone().watch() => anyhow::bail!("the watches ended"),
        }
    }
}

/// Serves until it is told to stop.
pub fn main(arguments: WebhookArguments) -> anyhow::Result<()> {
    process::run(|mut stop| async move {
        let webhook = arguments.webhook.webhook(arguments.connection.client().await?);
        arguments.webhook.serve(&webhook, stop.wished()).await
    })
}

async fn renewal(given: Option<Arc<tls::Given>>) {
    match given {
        Some(given) => given.renew().await,
        None => std::future::pending().await,
    }
}
