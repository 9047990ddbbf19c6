//! `vcctl job …`

pub(crate) mod delete;
mod explain;
mod group;
pub(crate) mod list;
mod logs;
mod manifest;
pub(crate) mod run;
mod scale;
pub(crate) mod steer;
pub(crate) mod view;
mod wait;

use basalt_api::job::JobPhase;
use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::names;
use clap::Subcommand;
use serde_json::Value;

use crate::error::CliError;
use crate::session::Session;
use crate::terminal::Colour;

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Run a job from flags or files
    Run(run::RunArgs),
    /// List jobs
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// Show everything about a job
    #[command(visible_aliases = ["get", "describe"])]
    View(view::ViewArgs),
    /// Say all that keeps a job from starting, with numbers
    Explain(explain::ExplainArgs),
    /// Stop jobs so that they can be resumed
    #[command(
        after_help = "Their pods are stopped; the jobs stay, and `resume` starts them again.\n\nExamples:\n  vcctl job suspend train\n  vcctl job suspend -N train -n ml"
    )]
    Suspend(steer::SteerArgs),
    /// Start suspended jobs again
    #[command(after_help = "Examples:\n  vcctl job resume train\n  vcctl job resume -N train -n ml")]
    Resume(steer::SteerArgs),
    /// Delete jobs
    Delete(delete::DeleteArgs),
    /// Change how many pods a job has
    Scale(scale::ScaleArgs),
    /// Show what the pods of a job say
    Logs(logs::LogsArgs),
    /// Wait until a job is as wanted
    Wait(wait::WaitArgs),
}

pub(crate) async fn execute(command: JobCommand, session: &mut Session<'_>) -> Result<(), CliError> {
    match command {
        JobCommand::Run(args) => run::execute(args, session).await,
        JobCommand::List(args) => list::execute(args, session).await,
        JobCommand::View(args) => view::execute(args, session).await,
        JobCommand::Explain(args) => explain::execute(args, session).await,
        JobCommand::Suspend(args) => steer::execute(steer::SUSPEND, args, session).await,
        JobCommand::Resume(args) => steer::execute(steer::RESUME, args, session).await,
        JobCommand::Delete(args) => delete::execute(args, session).await,
        JobCommand::Scale(args) => scale::execute(args, session).await,
        JobCommand::Logs(args) => logs::execute(args, session).await,
        JobCommand::Wait(args) => wait::execute(args, session).await,
    }
}

/// All phases, in the order in which a job may go through them.
const PHASES: [JobPhase; 10] = [
    JobPhase::Pending,
    JobPhase::Running,
    JobPhase::Restarting,
    JobPhase::Aborting,
    JobPhase::Aborted,
    JobPhase::Completing,
    JobPhase::Completed,
    JobPhase::Terminating,
    JobPhase::Terminated,
    JobPhase::Failed,
];

/// A phase as a flag writes it, in any case.
fn parse_phase(word: &str) -> Result<JobPhase, String> {
    let found = PHASES
        .into_iter()
        .find(|phase| phase.as_str().eq_ignore_ascii_case(word));
    found.ok_or_else(|| {
        let all: Vec<&str> = PHASES.iter().map(|phase| phase.as_str()).collect();
        format!("{word:?} is no phase; there are {}", all.join(", "))
    })
}

/// The phase; nothing of a job that nobody has looked at, or of one from a later version.
fn phase(job: &Value) -> Option<JobPhase> {
    let word = string_at(job, "/status/state/phase");
    PHASES.into_iter().find(|phase| phase.as_str() == word)
}

fn is_finished(job: &Value) -> bool {
    phase(job).is_some_and(JobPhase::is_finished)
}

fn queue(job: &Value) -> &str {
    match string_at(job, "/spec/queue") {
        "" => names::DEFAULT_QUEUE,
        queue => queue,
    }
}

fn tasks(job: &Value) -> impl Iterator<Item = &Value> {
    job.pointer("/spec/tasks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Pods of all tasks.
fn replicas(job: &Value) -> i64 {
    tasks(job)
        .map(|task| integer_or_zero(task, "/replicas"))
        .fold(0, i64::saturating_add)
}

fn colour(phase: &str) -> Option<Colour> {
    match phase {
        "Running" | "Completing" => Some(Colour::Green),
        "Pending" | "Restarting" | "Aborting" | "Terminating" => Some(Colour::Yellow),
        "Failed" | "Terminated" => Some(Colour::Red),
        "Completed" | "Aborted" => Some(Colour::Grey),
        _ => None,
    }
}
