//! `basalt controllers`: the controllers alone, against any cluster.

use std::path::PathBuf;

use crate::cluster_process::{MonitoringFlags, Parts};
use crate::commands::scheduler::volcanos_default;
use crate::flags::connection::ConnectionFlags;
use crate::flags::scheduling::{NameFlags, RelockFlags};
use basalt_runtime::controllers::ControllersOptions;
use basalt_runtime::leader_election::ElectionFlags;
use basalt_runtime::process;
use basalt_runtime::scheduler::ConfSource;

/// Run the controllers alone, against any cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
They keep queues (state, counters, conditions, Commands, deletion in order, the nodes that are locked for them), Jobs
(PodGroup, pods, status) and the PodGroups of plain pods. Of several copies one leads, and the others stand by: it holds
Volcano's Lease, and refuses to start beside a Volcano that holds it. See docs/manager.md.

Nodes are locked only while the plugin node_reservation is in the scheduler's configuration: give both the same file.
Without --scheduler-conf, Volcano's own configuration counts, as for `basalt scheduler`: nothing is locked.

Examples:
  basalt controllers --kubeconfig ~/.kube/config
  basalt controllers --scheduler-conf volcano-scheduler.conf
  basalt controllers                                    inside a pod: with its service account
  basalt controllers --scheduler-name team-a --metrics-listen 0.0.0.0:8081")]
// Beside a scheduler on the same machine.
#[command(mut_arg("metrics_listen", |flag| flag.default_value("127.0.0.1:8081")))]
pub struct ControllersArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    names: NameFlags,
    /// The scheduler's configuration file, read again when it changes: whether nodes are locked, and for whom
    #[arg(long, value_name = "FILE")]
    scheduler_conf: Option<PathBuf>,
    #[command(flatten)]
    relock: RelockFlags,
    #[command(flatten)]
    monitoring: MonitoringFlags,
    #[command(flatten)]
    election: ElectionFlags,
}

/// Runs the controllers until they are told to stop.
pub fn main(arguments: ControllersArguments) -> anyhow::Result<()> {
    let controllers = ControllersOptions {
        schedulers: arguments.names.names().into_iter().collect(),
        conf: ConfSource::new(arguments.scheduler_conf, false),
        built_in: volcanos_default,
        relock_period: arguments.relock.period(),
    };
    let parts = Parts {
        name: "basalt controllers",
        connection: arguments.connection,
        monitoring: arguments.monitoring,
        election: Some(arguments.election),
        scheduler: None,
        controllers: Some(controllers),
        webhook: None,
    };
    process::run(|stop| parts.run(stop))
}
