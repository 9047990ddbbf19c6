//! `vcctl queue view`: everything about one queue, for a person.

mod describe;

use basalt_api::resource_kind::QUEUE;
use clap::Args;
use serde_json::Value;

use super::{above, all, name};
use crate::error::CliError;
use crate::events;
use crate::name::queue::Name;
use crate::output::{self, Format};
use crate::session::Session;
use describe::Subject;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  vcctl queue view myqueue\n  vcctl queue get --name myqueue -o yaml\n  vcctl queue describe myqueue"
)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    name: Name,
    /// How to show it
    #[arg(long, short = 'o', value_enum)]
    output: Option<Format>,
}

pub(crate) async fn execute(args: ViewArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let queue = session.get(QUEUE, None, &args.name.take()).await?;
    let shown = match args.output {
        Some(Format::Json) => output::to_json(queue)?,
        Some(Format::Yaml) => output::to_yaml(queue)?,
        Some(Format::Name) => output::to_names(QUEUE, &[queue]),
        Some(Format::Wide) => super::list::table(&[queue], true).render(session.look.colour),
        None => {
            // Who may read the queue need not be allowed to read what is around it.
            let children = children(&queue, session).await.map_err(|error| error.to_string());
            let events = events::of(&queue, session).await.map_err(|error| error.to_string());
            let subject = Subject {
                queue: &queue,
                children,
                events,
            };
            subject.describe(jiff::Timestamp::now(), session.look)
        }
    };
    session.print(&shown)
}

async fn children(queue: &Value, session: &mut Session<'_>) -> Result<Vec<String>, CliError> {
    let queues = all(session).await?;
    let below = queues.iter().filter(|other| above(other) == Some(name(queue)));
    Ok(below.map(|child| name(child).to_owned()).collect())
}
