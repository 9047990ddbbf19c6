//! `basalt scheduler`: the scheduler alone, against any cluster.

use std::time::Duration;

use basalt_engine::{Conf, ConfError};

use crate::cluster_process::{MonitoringFlags, Parts};
use crate::flags::connection::ConnectionFlags;
use crate::flags::scheduling::{NameFlags, SchedulingFlags};
use basalt_runtime::leader_election::ElectionFlags;
use basalt_runtime::process;
use basalt_runtime::scheduler::SchedulerOptions;

/// Run the scheduler alone, against any cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --conf, Volcano's own configuration is in force.
Of several copies one leads, and the others stand by: it holds Volcano's Lease, and refuses to start beside a Volcano
that holds it. See docs/manager.md.

Examples:
  basalt scheduler --kubeconfig ~/.kube/config --conf volcano-scheduler.conf
  basalt scheduler                                    inside a pod: with its service account
  basalt scheduler --scheduler-name team-a --metrics-listen 0.0.0.0:8080")]
pub struct SchedulerArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    flags: SchedulerFlags,
    #[command(flatten)]
    monitoring: MonitoringFlags,
    #[command(flatten)]
    election: ElectionFlags,
}

/// The flags of a scheduler that works against any cluster.
#[derive(Debug, clap::Args)]
pub struct SchedulerFlags {
    #[command(flatten)]
    scheduling: SchedulingFlags,
    #[command(flatten)]
    names: NameFlags,
    /// Seconds that a gang of which only a part could be bound has to become whole, before it is let go
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    gang_grace: u64,
}

impl SchedulerFlags {
    /// What the flags say.
    pub fn options(&self) -> SchedulerOptions {
        let defaults = SchedulerOptions::default();
        let mut engine = defaults.engine.clone();
        engine.scheduler_names = self.names.names();
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
pub(crate) fn volcanos_default() -> Result<Conf, ConfError> {
    Conf::parse(VOLCANOS)
}

/// Runs the scheduler until it is told to stop.
pub fn main(arguments: SchedulerArguments) -> anyhow::Result<()> {
    let scheduler = arguments.flags.options();
    let parts = Parts {
        name: "basalt scheduler",
        connection: arguments.connection,
        monitoring: arguments.monitoring,
        election: Some(arguments.election),
        scheduler: Some(scheduler),
        controllers: None,
        webhook: None,
    };
    process::run(|stop| parts.run(stop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volcanos_configuration_reads() {
        let conf = volcanos_default().expect("the built-in configuration");
        let actions: Vec<&str> = conf.actions.iter().map(|action| action.name()).collect();
        assert_eq!(actions, ["enqueue", "allocate", "backfill"]);
        assert_eq!(conf.tiers.iter().map(Vec::len).collect::<Vec<_>>(), [3, 6]);
    }
}
