//! The command line of `basalt`.

use std::ffi::OsString;
use std::process::ExitCode;

use basalt_node::local::shim;
use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::controllers::ControllersArguments;
use crate::commands::manager::ManagerArguments;
use crate::commands::nodes::NodesArguments;
use crate::commands::scheduler::SchedulerArguments;
use crate::commands::uninstall::UninstallArguments;
use crate::commands::webhook::WebhookArguments;
use crate::plan::PlanOptions;
use crate::up::UpOptions;
use basalt_runtime::logging::{self, LogFlags};

/// Batch scheduling for Kubernetes: queues, gangs, reservations; embedded or on any cluster.
#[derive(Debug, Parser)]
#[command(
    name = "basalt",
    version,
    about,
    propagate_version = true,
    disable_help_subcommand = true
)]
#[command(after_help = "\
Examples:
  basalt up --nodes 3                 a Kubernetes-compatible API with three fake nodes on this machine
  basalt plan -f cluster.yaml         what the scheduler would do with these objects
  basalt manager --kubeconfig FILE    scheduler, controllers and webhook, against any cluster
  basalt scheduler --kubeconfig FILE  the scheduler alone, against any cluster
  basalt controllers                  the controllers alone, against any cluster
  basalt vcctl queue list             Volcano's command line
  basalt completion bash              shell completion, to be sourced")]
struct Cli {
    #[command(flatten)]
    log: LogFlags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the whole system on this machine: API server, scheduler, controllers, nodes
    Up(Box<UpOptions>),
    /// Run scheduler, controllers and webhook in one process, against any cluster
    Manager(Box<ManagerArguments>),
    /// Run the scheduler alone, against any cluster
    Scheduler(Box<SchedulerArguments>),
    /// Run the controllers alone, against any cluster
    Controllers(Box<ControllersArguments>),
    /// Serve admission over HTTPS, as a webhook of any cluster
    Webhook(Box<WebhookArguments>),
    /// Take back what would outlive the system on a cluster: webhook configurations and finalizers
    Uninstall(Box<UninstallArguments>),
    /// Serve fake nodes on any cluster: they run the pods bound to them without running anything
    Nodes(Box<NodesArguments>),
    /// Decide offline: manifests in, binds, evictions and reasons out
    Plan(Box<PlanOptions>),
    /// Volcano's command line: queues and jobs
    #[command(disable_help_flag = true)]
    Vcctl {
        /// Arguments of vcctl
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Print the completion script of a shell
    #[command(after_help = "Examples:\n  source <(basalt completion bash)")]
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Runs the command line of this process; 0 ok, 1 failed or refused, 2 usage.
pub fn main() -> ExitCode {
    // Before anything else: two of these start with every container.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == shim::WORD) {
        return shim::main(arguments);
    }
    // A link named vcctl, vsub, vjobs, … to this program is that program.
    if std::env::args_os()
        .next()
        .is_some_and(|program| basalt_vcctl::answers_to(&program))
    {
        return basalt_vcctl::run(std::env::args_os());
    }
    let cli = Cli::parse();
    if let Err(error) = logging::start(&cli.log) {
        eprintln!("error: {error}");
        return ExitCode::from(2);
    }
    match cli.command {
        Command::Up(options) => report(crate::up::main(*options)),
        Command::Manager(arguments) => report(crate::commands::manager::main(*arguments)),
        Command::Scheduler(arguments) => report(crate::commands::scheduler::main(*arguments)),
        Command::Controllers(arguments) => report(crate::commands::controllers::main(*arguments)),
        Command::Webhook(arguments) => report(crate::commands::webhook::main(*arguments)),
        Command::Uninstall(arguments) => report(crate::commands::uninstall::main(*arguments)),
        Command::Nodes(arguments) => report(crate::commands::nodes::main(*arguments)),
        Command::Plan(options) => crate::plan::main(*options),
        Command::Vcctl { args } => basalt_vcctl::run(std::iter::once(OsString::from("vcctl")).chain(args)),
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "basalt", &mut std::io::stdout());
            ExitCode::SUCCESS
        }
    }
}

/// Prints the whole chain of an error once, at the edge.
fn report(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Who reads JSON wants the most important line in it too.
            if logging::is_json() && tracing::enabled!(tracing::Level::ERROR) {
                tracing::error!("{error:#}");
            } else {
                eprintln!("error: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
