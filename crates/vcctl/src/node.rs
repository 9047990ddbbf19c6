//! `vcctl node …`

mod list;
mod load;

use clap::Subcommand;

use crate::error::CliError;
use crate::session::Session;

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List nodes, with who holds them and what is used of them
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
}

pub(crate) async fn execute(command: NodeCommand, session: &mut Session<'_>) -> Result<(), CliError> {
    match command {
        NodeCommand::List(args) => list::execute(args, session).await,
    }
}
