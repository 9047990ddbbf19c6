//! The command line, as a library: Volcano's words, and what its users miss.
//!
//! [`run`] is the whole program. `vcctl` calls it with its own arguments and `basalt vcctl …` with the rest of its own.
//! Exit status: 0 done, 1 failed or refused, 2 wrong usage. Results go to stdout; errors and hints to stderr.

mod cli;
mod connect;
mod error;
mod job;
pub mod manifest;
mod output;
mod queue;
mod resources;
mod rest;
mod session;
mod tally;
mod terminal;
mod wait;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use cli::{Cli, Command};
use error::CliError;
use session::Session;
use terminal::Look;

/// Runs the command line to its end. The first argument is the program's name, as shown in usage lines.
///
/// It starts its own runtime, so it must not be called from within one.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(usage) => {
            // Help goes to stdout and errors to stderr; nobody is left to tell if that fails.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let look = Look::of_stdout();
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut session = Session::new(cli.global, &mut out, &mut err, look);
    let result = runtime.block_on(execute(cli.command, &mut session));
    let result = result.and_then(|()| session.flush());
    ExitCode::from(report(result, &mut err))
}

/// Runs a command line against a given client, without kubeconfig and colours, and returns the exit status.
///
/// For programs that have a server in themselves.
pub async fn run_with(
    client: kube::Client,
    args: impl IntoIterator<Item = OsString>,
    out: &mut (dyn Write + Send),
    err: &mut (dyn Write + Send),
) -> u8 {
    let result = match Cli::try_parse_from(args) {
        Ok(cli) => {
            let mut session = Session::new(cli.global, out, err, Look::default()).with_client(client);
            execute(cli.command, &mut session).await.and_then(|()| session.flush())
        }
        Err(usage) => {
            let text = usage.render();
            let _ = if usage.use_stderr() {
                write!(err, "{text}")
            } else {
                write!(out, "{text}")
            };
            return u8::try_from(usage.exit_code()).unwrap_or(2);
        }
    };
    report(result, err)
}

/// The definition of all commands, for help, completion and manual pages.
pub fn command() -> clap::Command {
    Cli::command()
}

async fn execute(command: Command, session: &mut Session<'_>) -> Result<(), CliError> {
    match command {
        Command::Job { command } => job::execute(command, session).await,
        Command::Queue { command } => queue::execute(command, session).await,
        Command::Version => session.print(&version()),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut self::command(), "vcctl", &mut script);
            session.print(&String::from_utf8_lossy(&script))
        }
    }
}

fn version() -> String {
    let kinds = [rest::JOB, rest::QUEUE].map(|kind| format!("{}/{} {}", kind.group, kind.version, kind.title));
    format!(
        "Version: v{}\nAPI:     {}\n",
        env!("CARGO_PKG_VERSION"),
        kinds.join(", ")
    )
}

fn report(result: Result<(), CliError>, err: &mut dyn Write) -> u8 {
    let Err(error) = result else { return 0 };
    // A reader that has seen enough (`vcctl job list | head`) is not an error.
    if error.is_broken_pipe() {
        return 0;
    }
    let _ = error.write_to(err);
    error.exit_code()
}
