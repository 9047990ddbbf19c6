//! `basalt controllers`: the controllers alone, against any cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use basalt_api::names;

use crate::connection::ConnectionFlags;
use crate::lease::ElectionFlags;
use crate::live::controllers::ControllersOptions;
use crate::live::scheduler::ConfSource;
use crate::parts::Parts;
use crate::process;
use crate::scheduler::volcanos_default;
use crate::scheduling::RelockFlags;

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
    /// Where /healthz, /readyz, /metrics and /log are served; port 0 takes a free one
    #[arg(
        long,
        alias = "listen-address",
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:8081"
    )]
    metrics_listen: SocketAddr,
    #[command(flatten)]
    election: ElectionFlags,
}

/// Runs the controllers until they are told to stop.
pub fn main(arguments: ControllersArguments) -> anyhow::Result<()> {
    let controllers = ControllersOptions {
        schedulers: schedulers(&arguments.scheduler_name),
        conf: ConfSource {
            path: arguments.scheduler_conf,
            strict: false,
        },
        built_in: volcanos_default,
        relock_period: arguments.relock.period(),
    };
    let parts = Parts {
        name: "basalt controllers",
        connection: arguments.connection,
        metrics_listen: arguments.metrics_listen,
        election: arguments.election,
        scheduler: None,
        controllers: Some(controllers),
        webhook: None,
    };
    process::run(|stop| parts.run(stop))
}

/// The schedulers whose pods are ours.
fn schedulers(named: &[String]) -> BTreeSet<String> {
    if named.is_empty() {
        [names::SCHEDULER_NAME, "basalt"].map(str::to_owned).into()
    } else {
        named.iter().cloned().collect()
    }
}
