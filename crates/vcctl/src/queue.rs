//! `vcctl queue …`

mod change;
mod create;
pub(crate) mod list;
pub(crate) mod reservation;
mod spec;
pub(crate) mod tree;
pub(crate) mod view;

use basalt_api::json::string_at;
use basalt_api::names;
use basalt_api::resource_kind::QUEUE;
use clap::Subcommand;
use kube::api::ListParams;
use serde_json::Value;

use crate::error::CliError;
use crate::output::{self, ObjectFormat};
use crate::session::Session;
use crate::terminal::{Colour, neutral};

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Create a queue
    Create(create::CreateArgs),
    /// Show everything about a queue
    #[command(visible_aliases = ["get", "describe"])]
    View(view::ViewArgs),
    /// List queues
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// Change the weight, the state or the limits of a queue
    Update(change::UpdateArgs),
    /// Let queues take new jobs
    #[command(after_help = "Examples:\n  vcctl queue open research\n  vcctl queue open a b c")]
    Open(change::SwitchArgs),
    /// Let queues take no new jobs; what they have runs on
    #[command(after_help = "Examples:\n  vcctl queue close research\n  vcctl queue close a b c")]
    Close(change::SwitchArgs),
    /// Open, close or reweigh a queue, in Volcano's words
    Operate(change::OperateArgs),
    /// Delete closed queues
    Delete(change::DeleteArgs),
    /// Show queues as a tree, with what they use of what they may
    Tree(tree::TreeArgs),
    /// List the queues right below a queue
    Children(list::ChildrenArgs),
}

pub(crate) async fn execute(command: QueueCommand, session: &mut Session<'_>) -> Result<(), CliError> {
    match command {
        QueueCommand::Create(args) => create::execute(args, session).await,
        QueueCommand::View(args) => view::execute(args, session).await,
        QueueCommand::List(args) => list::execute(args, session).await,
        QueueCommand::Update(args) => change::update(args, session).await,
        QueueCommand::Open(args) => change::switch(spec::State::Open, args, session).await,
        QueueCommand::Close(args) => change::switch(spec::State::Closed, args, session).await,
        QueueCommand::Operate(args) => change::operate(args, session).await,
        QueueCommand::Delete(args) => change::delete(args, session).await,
        QueueCommand::Tree(args) => tree::execute(args, session).await,
        QueueCommand::Children(args) => list::children(args, session).await,
    }
}

/// All queues by name.
pub(crate) async fn all(session: &mut Session<'_>) -> Result<Vec<Value>, CliError> {
    let mut queues = session.list(QUEUE, None, &ListParams::default()).await?;
    queues.sort_by(|a, b| name(a).cmp(name(b)));
    Ok(queues)
}

/// Says what was done to a queue: in a sentence, or as `-o` says.
fn show_done(
    verb: &str,
    queue: Value,
    format: Option<ObjectFormat>,
    session: &mut Session<'_>,
) -> Result<(), CliError> {
    let shown = match format {
        Some(format) => output::made(QUEUE, vec![queue], 1, format)?,
        None => format!("{verb} queue {} successfully\n", neutral(name(&queue))),
    };
    session.print(&shown)
}

fn name(queue: &Value) -> &str {
    string_at(queue, "/metadata/name")
}

/// The queue above, which is root unless it is said; nothing is above root.
fn above(queue: &Value) -> Option<&str> {
    if name(queue) == names::ROOT_QUEUE {
        return None;
    }
    let parent = string_at(queue, "/spec/parent");
    Some(if parent.is_empty() { names::ROOT_QUEUE } else { parent })
}

/// What the scheduler grants now; before it has said so, what was asked for.
fn deserved(queue: &Value) -> &Value {
    let granted = &queue["status"]["deserved"];
    if granted.is_object() {
        granted
    } else {
        &queue["spec"]["deserved"]
    }
}

fn state_colour(state: &str) -> Option<Colour> {
    match state {
        "Open" => Some(Colour::Green),
        "Closing" => Some(Colour::Yellow),
        "Closed" => Some(Colour::Grey),
        "" => None,
        _ => Some(Colour::Red),
    }
}
