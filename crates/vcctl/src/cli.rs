//! Commands and flags. Names and shorthands are Volcano's where it has them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::error::CliError;
use crate::job::JobCommand;
use crate::links::LinksArgs;
use crate::name::checked;
use crate::node::NodeCommand;
use crate::pod::PodCommand;
use crate::queue::QueueCommand;
use crate::session::Session;

/// Queues and batch jobs from the command line.
#[derive(Debug, Parser)]
#[command(
    name = "vcctl",
    version,
    about = "Queues and batch jobs from the command line",
    after_help = "Examples:\n  vcctl queue create --name research --weight 4\n  vcctl job run -f train.yaml\n  vcctl job explain train",
    arg_required_else_help = true,
    disable_help_subcommand = true,
    propagate_version = false
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which server to talk to.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Global {
    /// Kubeconfig file [default: $KUBECONFIG, then ~/.kube/config]
    #[arg(long, short = 'k', global = true, value_name = "FILE", help_heading = "Server")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Address of the API server, instead of the kubeconfig's
    #[arg(long, short = 's', global = true, value_name = "URL", help_heading = "Server")]
    pub(crate) master: Option<String>,
    /// Context of the kubeconfig, instead of its current one
    #[arg(long, global = true, value_name = "NAME", help_heading = "Server")]
    pub(crate) context: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run, show, explain, scale, suspend and delete jobs
    #[command(
        after_help = "Examples:\n  vcctl job run hello --image busybox --replicas 3 --min 3\n  vcctl job list -q research\n  vcctl job explain hello",
        arg_required_else_help = true,
        disable_help_subcommand = true
    )]
    Job {
        #[command(subcommand)]
        command: JobCommand,
    },
    /// Create, show, change, open, close and delete queues
    #[command(
        after_help = "Examples:\n  vcctl queue create research --weight 4 --parent root\n  vcctl queue tree\n  vcctl queue close research",
        arg_required_else_help = true,
        disable_help_subcommand = true
    )]
    Queue {
        #[command(subcommand)]
        command: QueueCommand,
    },
    /// List pods
    #[command(
        after_help = "Examples:\n  vcctl pod list -j train\n  vcctl pod list -q research --all-namespaces",
        arg_required_else_help = true,
        disable_help_subcommand = true
    )]
    Pod {
        #[command(subcommand)]
        command: PodCommand,
    },
    /// List nodes
    #[command(
        after_help = "Examples:\n  vcctl node list\n  vcctl node list -q research",
        arg_required_else_help = true,
        disable_help_subcommand = true
    )]
    Node {
        #[command(subcommand)]
        command: NodeCommand,
    },
    /// Print the version
    #[command(after_help = "Example:\n  vcctl version")]
    Version,
    /// Print a completion script for a shell
    #[command(
        after_help = "Examples:\n  source <(vcctl completion bash)\n  vcctl completion zsh > ~/.zfunc/_vcctl\n  vcctl completion fish > ~/.config/fish/completions/vcctl.fish"
    )]
    Completion {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
    /// Link this program as vsub, vjobs, vqueues, vcancel, vsuspend and vresume
    Links(LinksArgs),
}

/// One namespace.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Namespace {
    /// Namespace [default: the context's, else default]
    #[arg(long, short = 'n', value_name = "NAMESPACE", value_parser = checked)]
    pub(crate) namespace: Option<String>,
}

/// One namespace, or all.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Namespaces {
    #[command(flatten)]
    one: Namespace,
    /// All namespaces
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
}

impl Namespaces {
    /// The one to look into; nothing for all, whatever else was said, as with kubectl.
    pub(crate) async fn take(&self, session: &mut Session<'_>) -> Result<Option<String>, CliError> {
        if self.all_namespaces {
            return Ok(None);
        }
        session.namespace(self.one.namespace.clone()).await.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_namespaces_may_be_asked_for_beside_one() {
        for kind in ["job", "pod"] {
            let words = ["vcctl", kind, "list", "--all-namespaces", "-n", "ml"];
            assert!(<Cli as Parser>::try_parse_from(words).is_ok(), "{kind}");
        }
    }
}
