//! The flags of `basalt up`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use basalt_admission::Settings;
use basalt_api::fraction::Fraction;
use basalt_node::local::agent::LocalOptions;

use super::system::SystemOptions;
use crate::commands::nodes::NodeFlags;
use crate::flags::scheduling::{RelockFlags, SchedulingFlags};
use basalt_runtime::scheduler::SchedulerOptions;

/// Run the whole system on this machine: API server, scheduler, controllers, nodes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  basalt up                                          this machine is the one node: pods run as processes
  basalt up --nodes 3                                three fake nodes that run nothing, instead of this machine
  basalt up --nodes 3 --local                        both
  basalt up --nodes 100 --node-cpu 64 --node-gpu 8   a hundred GPU nodes that run nothing
  basalt up --data ./cluster --listen 127.0.0.1:7443
  basalt up --nodes 10 --node-template node.yaml     nodes with the labels, taints and sizes of a manifest")]
pub struct UpOptions {
    /// Folder that keeps everything; made if it does not exist [default: basalt in the user's data folder]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Address of the API server; only this machine can reach the default. Port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Where to write the kubeconfig [default: kubeconfig in the data folder]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Number of fake nodes, which run pods without running anything, instead of this machine
    #[arg(long, value_name = "N", default_value_t = 0)]
    nodes: u32,
    /// This machine is a node too, beside the fake ones [default without --nodes]
    #[arg(long)]
    local: bool,
    /// Let pods mount paths of this machine (hostPath) that lie in this folder; may be given several times
    #[arg(long, value_name = "PREFIX")]
    allow_host_path: Vec<PathBuf>,
    /// Let pods run as root (runAsUser: 0); otherwise they are refused
    #[arg(long)]
    allow_root: bool,
    /// End the pods of this machine when the server is stopped; otherwise they go on, and the next start takes them over
    #[arg(long)]
    stop_pods: bool,
    #[command(flatten)]
    looks: NodeFlags,
    #[command(flatten)]
    scheduling: SchedulingFlags,
    #[command(flatten)]
    relock: RelockFlags,
    /// Leave scheduling to a `basalt scheduler` outside, of which there may be only one
    #[arg(long, conflicts_with_all = ["conf", "strict_conf"])]
    no_scheduler: bool,
    /// Levels under root that the tree of queues may have
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=32))]
    max_queue_depth: u8,
    /// The part of the cluster that all queues together may be guaranteed, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "1.0")]
    guarantee_share: Fraction,
    /// Leave the controllers to a `basalt controllers` outside, of which there may be only one
    #[arg(long)]
    no_controllers: bool,
    /// Show a small company's queues and jobs, as real processes, in a folder of their own; on a terminal with a live screen
    #[arg(long, conflicts_with_all = ["no_scheduler", "no_controllers", "nodes"])]
    demo: bool,
}

impl UpOptions {
    /// Whether the demo is asked for.
    pub(super) fn is_demo(&self) -> bool {
        self.demo
    }

    /// The same for the demo: a folder that goes with it unless one is given, and a free port if the usual one is taken.
    pub(crate) fn for_demo(mut self) -> anyhow::Result<(SystemOptions, Option<tempfile::TempDir>)> {
        let folder = match self.data {
            Some(_) => None,
            None => Some(tempfile::Builder::new().prefix("basalt-demo-").tempdir()?),
        };
        if let Some(folder) = &folder {
            self.data = Some(folder.path().to_owned());
            // Nobody could take them over.
            self.stop_pods = true;
        }
        if std::net::TcpListener::bind(self.listen).is_err() {
            self.listen.set_port(0);
        }
        Ok((self.resolve()?, folder))
    }

    /// Reads the files that the flags name and fills in what was left out.
    pub(super) fn resolve(self) -> anyhow::Result<SystemOptions> {
        let data = match self.data {
            Some(data) => data,
            None => default_data_folder()?,
        };
        let data = std::path::absolute(&data).with_context(|| format!("--data {}", data.display()))?;
        let template = self.looks.template()?;
        let kubeconfig = self.kubeconfig.unwrap_or_else(|| data.join("kubeconfig"));
        let local = (self.local || self.nodes == 0).then(|| LocalOptions {
            host_paths: self.allow_host_path,
            allow_root: self.allow_root,
            stop_pods: self.stop_pods,
            ..LocalOptions::new(data.clone())
        });
        Ok(SystemOptions {
            data,
            listen: self.listen,
            kubeconfig,
            nodes: self.nodes,
            template,
            local,
            scheduler: !self.no_scheduler,
            controllers: !self.no_controllers,
            scheduling: self.scheduling.over(SchedulerOptions::default()),
            relock_period: self.relock.period(),
            admission: Settings {
                queue_depth_max: self.max_queue_depth.into(),
                guarantee_share: self.guarantee_share,
                ..Settings::default()
            },
        })
    }
}

/// `$XDG_DATA_HOME/basalt`, or `~/.local/share/basalt`.
fn default_data_folder() -> anyhow::Result<PathBuf> {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|folder| folder.join("basalt"))
        .context("neither XDG_DATA_HOME nor HOME is set: say where the data goes with --data DIR")
}
