//! `basalt manager`: scheduler, controllers and webhook in one process, against any cluster.

use crate::cluster_process::{MonitoringFlags, Parts};
use crate::commands::scheduler::SchedulerFlags;
use crate::flags::connection::ConnectionFlags;
use crate::flags::scheduling::RelockFlags;
use basalt_runtime::controllers::ControllersOptions;
use basalt_runtime::leader_election::ElectionFlags;
use basalt_runtime::process;
use basalt_webhook::WebhookFlags;

/// Run scheduler, controllers and webhook in one process, against any cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Of several copies one leads in scheduling, one in controlling, and all serve admission; when a leader ends, another takes
over. They hold Volcano's Leases (volcano or the one --scheduler-name, and vc-controller-manager), and refuse to start
beside a Volcano that holds them. See docs/manager.md.

Examples:
  basalt manager --kubeconfig ~/.kube/config --no-webhook
  basalt manager --conf volcano-scheduler.conf --metrics-listen 0.0.0.0:8080 --log info --log-format json
                                                        inside a pod: with its service account
  basalt manager --tls-cert tls.crt --tls-key tls.key   with a certificate of somebody else's for the webhook")]
#[command(mut_arg("webhook_host", |flag| flag.alias("host")))]
pub struct ManagerArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    scheduler: SchedulerFlags,
    #[command(flatten)]
    relock: RelockFlags,
    /// Do not schedule
    #[arg(long)]
    no_scheduler: bool,
    /// Do not control
    #[arg(long)]
    no_controllers: bool,
    /// Do not serve admission
    #[arg(long)]
    no_webhook: bool,
    #[command(flatten)]
    monitoring: MonitoringFlags,
    #[command(flatten)]
    election: ElectionFlags,
    #[command(flatten, next_help_heading = "Webhook")]
    webhook: WebhookFlags,
}

/// Runs everything until it is told to stop.
pub fn main(arguments: ManagerArguments) -> anyhow::Result<()> {
    let ManagerArguments {
        no_scheduler,
        no_controllers,
        no_webhook,
        ..
    } = arguments;
    anyhow::ensure!(
        !(no_scheduler && no_controllers && no_webhook),
        "nothing is left to run: leave out one of --no-scheduler, --no-controllers and --no-webhook"
    );
    let scheduler = arguments.scheduler.options();
    let names = scheduler.engine.scheduler_names.clone();
    let controllers = ControllersOptions {
        schedulers: names.iter().cloned().collect(),
        conf: scheduler.conf.clone(),
        built_in: scheduler.built_in,
        relock_period: arguments.relock.period(),
    };
    let parts = Parts {
        name: "basalt manager",
        connection: arguments.connection,
        monitoring: arguments.monitoring,
        election: Some(arguments.election),
        scheduler: (!no_scheduler).then_some(scheduler),
        controllers: (!no_controllers).then_some(controllers),
        webhook: (!no_webhook).then_some((arguments.webhook, names)),
    };
    process::run(|stop| parts.run(stop))
}
