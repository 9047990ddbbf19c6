//! The command line, as a library: Volcano's words, and what its users miss.
//!
//! [`run`] is the whole program. `vcctl` calls it with its own arguments and `basalt vcctl …` with the rest of its own.
//! Exit status: 0 done, 1 failed or refused, 2 wrong usage. Results go to stdout; errors and hints to stderr.

mod cli;
mod connect;
mod error;
mod events;
mod job;
pub mod lines;
mod links;
pub mod manifest;
mod name;
mod node;
mod output;
mod pod;
mod queue;
mod resources;
mod rest;
mod session;
mod tally;
mod terminal;
mod tools;
mod wait;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use basalt_api::resource_kind;
use cli::Command;
use error::CliError;
use session::Session;
use terminal::Look;

/// The program's own name.
const PROGRAM: &str = "vcctl";

/// Whether a program called so is this one: `vcctl`, or one of Volcano's small tools (`vsub`, `vjobs`, …).
pub fn answers_to(program: &OsStr) -> bool {
    Path::new(program).file_stem().is_some_and(|stem| stem == PROGRAM) || tools::Tool::of(program).is_some()
}

/// Runs the command line to its end. The first argument is the program's name: `vsub` and its like are commands of their own.
///
/// It starts its own runtime, so it must not be called from within one.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (global, command) = match tools::parse(args) {
        Ok(parsed) => parsed,
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
    let look = Look::of_process();
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut session = Session::new(global, &mut out, &mut err, look);
    let result = runtime.block_on(execute(command, &mut session));
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
    let result = match tools::parse(args) {
        Ok((global, command)) => {
            let mut session = Session::new(global, out, err, Look::default()).with_client(client);
            execute(command, &mut session).await.and_then(|()| session.flush())
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
    tools::main_command()
}

/// The definitions of Volcano's small tools, which are this program under other names.
pub fn tool_commands() -> Vec<clap::Command> {
    tools::commands()
}

async fn execute(command: Command, session: &mut Session<'_>) -> Result<(), CliError> {
    match command {
        Command::Job { command } => job::execute(command, session).await,
        Command::Queue { command } => queue::execute(command, session).await,
        Command::Pod { command } => pod::execute(command, session).await,
        Command::Node { command } => node::execute(command, session).await,
        Command::Links(args) => links::execute(&args, session),
        Command::Version => session.print(&version()),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut self::command(), PROGRAM, &mut script);
            session.print(&String::from_utf8_lossy(&script))
        }
    }
}

fn version() -> String {
    let kinds = [
        resource_kind::JOB,
        resource_kind::QUEUE,
        resource_kind::POD_GROUP,
        resource_kind::COMMAND,
    ]
    .map(|kind| format!("{} {}", kind.api_version, kind.kind));
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
