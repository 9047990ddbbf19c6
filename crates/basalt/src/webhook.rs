//! `basalt webhook`: admission over HTTPS, as a webhook of any cluster.

mod serve;
mod tls;
mod watches;

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use basalt_admission::Settings;
use basalt_apiserver::face::{TlsOptions, serve_router};
use tokio::net::TcpListener;

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
pub struct WebhookArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    /// Where to serve; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:8443")]
    listen: SocketAddr,
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
    host: Vec<String>,
    /// Levels under root that the tree of queues may have
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=32))]
    max_queue_depth: u8,
    /// Whoever delivers to a queue needs the right to use it (verb use on queues/NAME)
    #[arg(long)]
    queue_acl: bool,
}

impl WebhookArguments {
    fn settings(&self) -> Settings {
        Settings {
            queue_depth_max: self.max_queue_depth.into(),
            queue_acl: self.queue_acl,
        }
    }

    fn tls(&self) -> anyhow::Result<TlsOptions> {
        let config = match (&self.tls_cert, &self.tls_key, &self.cert_dir) {
            (Some(certificate), Some(key), _) => tls::given(certificate, key)?,
            (_, _, Some(folder)) => tls::own(folder, &self.host)?,
            _ => anyhow::bail!("give --tls-cert and --tls-key, or --cert-dir"),
        };
        Ok(TlsOptions::new(config))
    }
}

/// Serves until it is told to stop.
pub fn main(arguments: WebhookArguments) -> anyhow::Result<()> {
    process::run(|mut stop| async move {
        let tls = arguments.tls()?;
        let webhook = Webhook::new(arguments.connection.client().await?, arguments.settings());
        let listener = TcpListener::bind(arguments.listen).await.with_context(|| {
            format!(
                "listening on {}: take another address with --listen ADDR:PORT",
                arguments.listen
            )
        })?;
        println!("basalt webhook: serving at https://{}", listener.local_addr()?);
        let serving = serve_router(listener, webhook.router(), tls, stop.wished());
        tokio::select! {
            ended = serving => ended.context("serving admission"),
            () = webhook.clone().watch() => anyhow::bail!("the watches ended"),
        }
    })
}
