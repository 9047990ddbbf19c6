//! `vcctl job …`

mod delete;
mod list;
mod manifest;
mod run;

use clap::Subcommand;

use crate::error::CliError;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Run a job from flags or files
    Run(run::RunArgs),
    /// List jobs
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// Delete jobs
    Delete(delete::DeleteArgs),
}

pub(crate) async fn execute(command: JobCommand, session: &mut Session<'_>) -> Result<(), CliError> {
    match command {
        JobCommand::Run(args) => run::execute(args, session).await,
        JobCommand::List(args) => list::execute(args, session).await,
        JobCommand::Delete(args) => delete::execute(args, session).await,
    }
}
