//! `vcctl queue …`

mod create;
mod list;

use clap::Subcommand;

use crate::error::CliError;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Create a queue
    Create(create::CreateArgs),
    /// List queues
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
}

pub(crate) async fn execute(command: QueueCommand, session: &mut Session<'_>) -> Result<(), CliError> {
    match command {
        QueueCommand::Create(args) => create::execute(args, session).await,
        QueueCommand::List(args) => list::execute(args, session).await,
    }
}
