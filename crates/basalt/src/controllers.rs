//! `basalt controllers`: the controllers alone, against any cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::Context;
use basalt_api::names;

use crate::connection::ConnectionFlags;
use crate::live::controllers::{self, Numbers};
use crate::process;

/// Run the controllers alone, against any cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
They keep queues (state, counters, conditions, Commands, deletion in order), Jobs (PodGroup, pods, status) and the
PodGroups of plain pods. Only one may serve a cluster: two at the same time would write against each other.

Examples:
  basalt controllers --kubeconfig ~/.kube/config
  basalt controllers                                    inside a pod: with its service account
  basalt controllers --scheduler-name team-a --metrics-listen 0.0.0.0:8081")]
pub struct ControllersArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    /// Plain pods that name this scheduler get a PodGroup; may be repeated [default: volcano, basalt]
    #[arg(long, value_name = "NAME")]
    scheduler_name: Vec<String>,
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
        let listener = process::listen(arguments.metrics_listen, "--metrics-listen").await?;
        println!(
            "basalt controllers: health and metrics at http://{}",
            listener.local_addr()?
        );
        let numbers = Numbers::default();
        let serving = axum::serve(listener, numbers.router());
        tokio::select! {
            () = stop.wished() => Ok(()),
            failure = controllers::run(client, schedulers, numbers) => failure.context("the controllers failed"),
            failure = serving => failure.context("serving health and metrics"),
        }
    })
}
