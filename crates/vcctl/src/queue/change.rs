//! `vcctl queue update`, `open`, `close`, `operate` and `delete`: what changes a queue that is there.
//!
//! All of it is done by patches of `spec`, so that any Kubernetes with our definitions will do.

use basalt_api::json::string_at;
use basalt_api::names;
use basalt_api::resource_kind::QUEUE;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::spec::{SpecArgs, State};
use super::{above, show_done};
use crate::error::CliError;
use crate::name::queue::{Name, Names};
use crate::output::{self, ObjectFormat};
use crate::session::Session;
use crate::tally::Tally;
use crate::terminal::neutral;
use crate::wait::{self, Wait};

#[derive(Debug, Args)]
#[command(
    after_help = "Only what is given changes.\n\nExamples:\n  vcctl queue update research --weight 8\n  vcctl queue update research --state Closed\n  vcctl queue update research --capability cpu=128,memory-\n  vcctl queue update research --guarantee-percentage 0.3\n  vcctl queue update research --guarantee none"
)]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    spec: SpecArgs,
    /// How to show the result
    #[arg(long, short = 'o', value_enum)]
    output: Option<ObjectFormat>,
}

pub(crate) async fn update(args: UpdateArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let spec = args.spec.patch();
    if spec.is_empty() {
        return Err(CliError::Usage(
            "nothing to change: give --weight, --state, --parent, a limit or a priority".to_owned(),
        ));
    }
    let change = json!({"spec": spec});
    let changed = session.patch("update", QUEUE, None, &args.name.take(), &change).await?;
    show_done("update", changed, args.output, session)
}

#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    #[command(flatten)]
    names: Names,
    /// How to show the result
    #[arg(long, short = 'o', value_enum)]
    output: Option<ObjectFormat>,
}

/// Opens or closes queues: all are tried.
pub(crate) async fn switch(state: State, args: SwitchArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let names = args.names.take();
    let all = names.len();
    let mut tally = Tally::of(all);
    let mut done = Vec::new();
    for name in &names {
        let outcome = switch_one(state, name, session).await;
        let Some(queue) = tally.take(outcome, session)? else {
            continue;
        };
        match args.output {
            None => show_done(verb(state), queue, None, session)?,
            Some(_) => done.push(queue),
        }
    }
    if let Some(format) = args.output {
        session.print(&output::made(QUEUE, done, all, format)?)?;
    }
    tally.end()
}

fn verb(state: State) -> &'static str {
    match state {
        State::Open => "open",
        State::Closed => "close",
    }
}

async fn switch_one(state: State, name: &str, session: &mut Session<'_>) -> Result<Value, CliError> {
    let change = json!({"spec": {"state": state.word()}});
    let queue = session.patch(verb(state), QUEUE, None, name, &change).await?;
    if state == State::Open
        && let Some(closed) = closed_above(&queue, session).await
    {
        let (name, closed) = (neutral(name), neutral(&closed));
        session.tell(&format!(
            "Warning: queue {name} stays closed while {closed} above it is: `vcctl queue open {closed}`"
        ))?;
    }
    Ok(queue)
}

/// More levels than any tree may have: where it is damaged, the search ends.
const LEVELS: usize = 16;

/// The nearest ancestor that is wanted closed, as far as it can be read.
async fn closed_above(queue: &Value, session: &mut Session<'_>) -> Option<String> {
    let mut parent = above(queue)?.to_owned();
    for _ in 0..LEVELS {
        if parent == names::ROOT_QUEUE {
            return None;
        }
        let queue = session.get(QUEUE, None, &parent).await.ok()?;
        if string_at(&queue, "/spec/state") == State::Closed.word() {
            return Some(parent);
        }
        above(&queue)?.clone_into(&mut parent);
    }
    None
}

#[derive(Debug, Args)]
#[command(
    after_help = "The words of Volcano's vcctl; `open`, `close` and `update` are shorter.\n\nExamples:\n  vcctl queue operate -a close -n research\n  vcctl queue operate -a update -n research -w 8"
)]
pub(crate) struct OperateArgs {
    #[command(flatten)]
    name: Name,
    /// What to do
    #[arg(long, short = 'a', value_enum)]
    action: Action,
    /// The new weight, for update
    #[arg(long, short = 'w', default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(i32).range(0..=65_535))]
    weight: i32,
    /// How to show the result
    #[arg(long, short = 'o', value_enum)]
    output: Option<ObjectFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Let it take new jobs
    Open,
    /// Let it take none; what it has runs on
    Close,
    /// Change its weight
    Update,
}

pub(crate) async fn operate(args: OperateArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let (name, format) = (args.name.take(), args.output);
    let (verb, queue) = match (args.action, args.weight) {
        (Action::Open, _) => ("open", switch_one(State::Open, &name, session).await?),
        (Action::Close, _) => ("close", switch_one(State::Closed, &name, session).await?),
        (Action::Update, 0) => {
            return Err(CliError::Usage(
                "--action update changes the weight: give it with --weight".to_owned(),
            ));
        }
        (Action::Update, weight) => {
            let change = json!({"spec": {"weight": weight}});
            ("update", session.patch("update", QUEUE, None, &name, &change).await?)
        }
    };
    show_done(verb, queue, format, session)
}

#[derive(Debug, Args)]
#[command(
    after_help = "Only a queue whose state is Closed can be deleted; its children go first.\n\nExamples:\n  vcctl queue delete --name research\n  vcctl queue close old older && vcctl queue delete old older --wait"
)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    wait: Wait,
}

/// Deletes queues: all are tried.
pub(crate) async fn delete(args: DeleteArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let names = args.names.take();
    let mut tally = Tally::of(names.len());
    for name in &names {
        let outcome = wait::delete(QUEUE, None, name, args.wait, session).await;
        if tally.take(outcome, session)?.is_some() {
            session.print(&format!("delete queue {} successfully\n", neutral(name)))?;
        }
    }
    tally.end()
}
