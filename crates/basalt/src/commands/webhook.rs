//! `basalt webhook`: admission over HTTPS, as a webhook of any cluster.

use basalt_runtime::process;
use basalt_webhook::WebhookFlags;

use crate::cluster_process::{MonitoringFlags, Parts};
use crate::flags::connection::ConnectionFlags;
use crate::flags::scheduling::NameFlags;

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
