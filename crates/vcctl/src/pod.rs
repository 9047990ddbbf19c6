//! `vcctl pod …`

mod list;
mod status;

use basalt_api::json::string_at;
use basalt_api::names;
use clap::Subcommand;
use serde_json::Value;

use crate::error::CliError;
use crate::session::Session;
pub(crate) use list::Columns;

#[derive(Debug, Subcommand)]
pub(crate) enum PodCommand {
    /// List pods, by job or by queue
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
}

pub(crate) async fn execute(command: PodCommand, session: &mut Session<'_>) -> Result<(), CliError> {
    match command {
        PodCommand::List(args) => list::execute(args, session).await,
    }
}

/// The job that a pod belongs to.
fn job(pod: &Value) -> &str {
    pod["metadata"]["labels"][names::JOB_NAME].as_str().unwrap_or("")
}

/// The queue that a pod names: a job's pods by label, plain pods by annotation.
pub(crate) fn queue(pod: &Value) -> &str {
    let metadata = &pod["metadata"];
    let said = [
        &metadata["labels"][names::JOB_QUEUE_NAME],
        &metadata["annotations"][names::QUEUE_NAME],
    ];
    said.into_iter().find_map(Value::as_str).unwrap_or("")
}

/// By namespace and name, numbers at the end as numbers: `w-2` before `w-10`.
pub(crate) fn order(a: &Value, b: &Value) -> std::cmp::Ordering {
    place(a).cmp(&place(b))
}

fn place(pod: &Value) -> (&str, &str, u64, &str) {
    let name = string_at(pod, "/metadata/name");
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.get(stem.len()..).and_then(|digits| digits.parse().ok());
    (string_at(pod, "/metadata/namespace"), stem, number.unwrap_or(0), name)
}
