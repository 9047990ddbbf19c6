//! `basalt controllers`: the controllers alone, against any cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use basalt_api::names;

use crate::connection::ConnectionFlags;
use crate::live::controllers::{self, ControllersOptions, Numbers};
use crate::live::scheduler::ConfSource;
use crate::process;
use crate::scheduler::volcanos_default;
use crate::scheduling::RelockFlags;

/// Run the controllers alone, against any cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
They keep queues (state, counters, conditions, Commands, deletion in order, the nodes that are locked for them), Jobs
(PodGroup, pods, status) and the PodGroups of plain pods. Only one may serve a cluster: two at the same time would write
against each other.

Nodes are locked only while the plugin node_reservation is in the scheduler's configuration: give both the same file.
Without --scheduler-conf, Volcano's own configuration counts, as for `basalt scheduler`: nothing is locked.

Examples:
  basalt controllers --kubeconfig ~/.kube/config
  basalt controllers --scheduler-conf volcano-scheduler.conf
  basalt controllers                                    inside a pod: with its service account
  basalt controllers --scheduler-name team-a --metrics-listen 0.0.0.0:8081")]
pub struct ControllersArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    /// Plain pods that name this scheduler get a PodGroup; may be repeated [default: volcano, basalt]
    #[arg(long, value_name = "NAME")]
    scheduler_name: Vec<String>,
    /// The scheduler's configuration file, read again when it changes: whether nodes are locked, and for whom
    #[arg(long, value_name = "FILE")]
    scheduler_conf: Option<PathBuf>,
    #[command(flatten)]
    relock: RelockFlags,
    /// Where /healthz, /readyz and /metrics are served; port 0 takes a free one
    #[arg(
        long,
        alias = "listen-address",
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:8081"
    )]
    metrics_listen: SocketAddr,
}

/// Runs the controllers until they are told to stop.
pub fn main(arguments: ControllersArguments) -> anyhow::Result<()> {
    process::run(|mut stop| async move {
        let client = arguments.connection.client().await?;
        let mut schedulers: BTreeSet<String> = arguments.scheduler_name.iter().cloned().collect();
        if schedulers.is_empty() {
            schedulers = [names::SCHEDULER_NAME, "basalt"].map(str::to_owned).into();
        }
        let options = ControllersOptions {
            schedulers,
            conf: ConfSource {
                path: arguments.scheduler_conf,
                strict: false,
            },
            built_in: volcanos_default,
            relock_period: arguments.relock.period(),
        };
        let running = controllers::prepare(options)?;
        let listener = process::listen(arguments.metrics_listen, "--metrics-listen").await?;
        println!(
            "basalt controllers: health and metrics at http://{}",
            listener.local_addr()?
        );
        let numbers = Numbers::default();
        let serving = axum::serve(listener, numbers.router());
        tokio::select! {
            () = stop.wished() => Ok(()),
            failure = running.run(client, numbers) => failure.context("the controllers failed"),
            failure = serving => failure.context("serving health and metrics"),
        }
    })
}
