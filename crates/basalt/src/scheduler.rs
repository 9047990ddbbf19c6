//! `basalt scheduler`: the scheduler alone, against any cluster.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use basalt_engine::Conf;

use crate::connection::ConnectionFlags;
use crate::live::scheduler::{Scheduler, SchedulerOptions};
use crate::process;
use crate::scheduling::SchedulingFlags;

/// Run the scheduler alone, against any cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --conf, Volcano's own configuration is in force.
Only one scheduler may serve a name: two at the same time would give the same room away twice.

Examples:
  basalt scheduler --kubeconfig ~/.kube/config --conf volcano-scheduler.conf
  basalt scheduler                                    inside a pod: with its service account
  basalt scheduler --scheduler-name team-a --metrics-listen 0.0.0.0:8080")]
pub struct SchedulerArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    scheduling: SchedulingFlags,
    /// Serve pods that name this scheduler; may be repeated [default: volcano, basalt]
    #[arg(long, value_name = "NAME")]
    scheduler_name: Vec<String>,
    /// Where /healthz, /readyz and /metrics are served; port 0 takes a free one
    #[arg(
        long,
        alias = "listen-address",
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:8080"
    )]
    metrics_listen: SocketAddr,
    /// Seconds that a gang of which only a part could be bound has to become whole, before it is let go
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    gang_grace: u64,
}

impl SchedulerArguments {
    fn options(&self) -> SchedulerOptions {
        let defaults = SchedulerOptions::default();
        let mut engine = defaults.engine.clone();
        if !self.scheduler_name.is_empty() {
            engine.scheduler_names.clone_from(&self.scheduler_name);
        }
        self.scheduling.over(SchedulerOptions {
            built_in: volcanos_default,
            engine,
            gang_grace: Duration::from_secs(self.gang_grace),
            ..defaults
        })
    }
}

/// What Volcano's chart ships.
const VOLCANOS: &str = r#"
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"#;

/// Volcano's own configuration: on a cluster nothing may surprise those who come from there.
pub(crate) fn volcanos_default() -> Conf {
    Conf::parse(VOLCANOS).unwrap_or_default()
}

/// Runs the scheduler until it is told to stop.
pub fn main(arguments: SchedulerArguments) -> anyhow::Result<()> {
    process::run(|mut stop| async move {
        let scheduler = Scheduler::new(arguments.connection.client().await?, arguments.options())?;
        let listener = process::listen(arguments.metrics_listen, "--metrics-listen").await?;
        println!(
            "basalt scheduler: health and metrics at http://{}",
            listener.local_addr()?
        );
        let serving = axum::serve(listener, scheduler.face().router());
        tokio::select! {
            () = stop.wished() => Ok(()),
            failure = scheduler.run() => failure.context("the scheduler failed"),
            failure = serving => failure.context("serving health and metrics"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volcanos_configuration_reads() {
        let conf = volcanos_default();
        assert_eq!(conf.actions, ["enqueue", "allocate", "backfill"]);
        assert_eq!(conf.tiers.iter().map(Vec::len).collect::<Vec<_>>(), [3, 6]);
    }
}
