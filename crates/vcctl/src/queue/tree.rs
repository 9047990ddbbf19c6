//! `vcctl queue tree`

mod bars;
mod forest;

use std::collections::BTreeMap;

use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::resource_kind::QUEUE;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::reservation::Reservation;
use super::{above, all, deserved, name};
use crate::error::CliError;
use crate::name::queue::MaybeName;
use crate::output;
use crate::resources::canonical;
use crate::session::Session;
use crate::terminal::neutral;
use forest::{Branch, Forest};

#[derive(Debug, Args)]
#[command(
    after_help = "Bars, all to one scale:  = allocated   + allocated beyond deserved   - deserved and unused   . room up to capability\n\nExamples:\n  vcctl queue tree\n  vcctl queue tree ml --resource nvidia.com/gpu\n  vcctl queue tree -o json"
)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    name: MaybeName,
    /// The resource that the bars show
    #[arg(long, short = 'r', default_value = "cpu", value_name = "NAME")]
    resource: String,
    /// How to show it
    #[arg(long, short = 'o', value_enum)]
    output: Option<TreeFormat>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TreeFormat {
    /// One entry a queue in the order of the tree, as JSON
    Json,
    /// One entry a queue in the order of the tree, as YAML
    Yaml,
    /// All resources instead of bars
    Wide,
    /// Kind and name only, in the order of the tree
    Name,
}

pub(crate) async fn execute(args: TreeArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let queues = all(session).await?;
    let forest = Forest::of(&queues);
    let branches = match args.name.take() {
        None => forest.whole(),
        Some(top) => forest.below(&top).ok_or(CliError::NotFound {
            kind: QUEUE.singular(),
            name: top,
        })?,
    };
    let shown = match args.output {
        Some(TreeFormat::Json) => output::to_json(data(&branches))?,
        Some(TreeFormat::Yaml) => output::to_yaml(data(&branches))?,
        _ if branches.is_empty() => return session.tell("No resources found"),
        Some(TreeFormat::Name) => {
            let queues: Vec<Value> = branches.iter().map(|branch| branch.queue.clone()).collect();
            output::to_names(QUEUE, &queues)
        }
        Some(TreeFormat::Wide) => bars::wide(&branches).render(session.look.colour),
        None => {
            if !bars::is_known(&branches, &args.resource) {
                session.tell(&format!("Warning: no queue has any {}", neutral(&args.resource)))?;
            }
            bars::table(&branches, &args.resource, session.look.width).render(session.look.colour)
        }
    };
    session.print(&shown)
}

/// A queue and those above it, from itself upwards.
pub(crate) type Line<'a> = Vec<&'a str>;

/// The line of every queue; a circle ends where it closes.
pub(crate) fn lines(queues: &[Value]) -> BTreeMap<&str, Line<'_>> {
    let parents: BTreeMap<&str, Option<&str>> = queues.iter().map(|queue| (name(queue), above(queue))).collect();
    let line = |start: &'_ str| {
        let mut line = Vec::new();
        let mut next = parents.get_key_value(start);
        while let Some((&here, parent)) = next.filter(|(here, _)| !line.contains(*here)) {
            line.push(here);
            next = parent.and_then(|parent| parents.get_key_value(parent));
        }
        line
    };
    parents.keys().map(|&name| (name, line(name))).collect()
}

/// The tree as data: a flat list in the order of the lines, so that no depth can break a reader.
fn data(branches: &[Branch<'_>]) -> Value {
    let entry = |branch: &Branch<'_>| {
        let queue = branch.queue;
        json!({
            "name": name(queue),
            "depth": branch.depth,
            "parent": string_at(queue, "/spec/parent"),
            "children": branch.children,
            "problem": branch.problem.as_ref().map(|problem| json!({"code": problem.code(), "message": problem.to_string()})),
            "state": string_at(queue, "/status/state"),
            "weight": integer_or_zero(queue, "/spec/weight"),
            "share": string_at(queue, "/status/share"),
            "allocated": canonical(&queue["status"]["allocated"]),
            "deserved": canonical(deserved(queue)),
            "guarantee": canonical(&queue["spec"]["guarantee"]["resource"]),
            "capability": canonical(&queue["spec"]["capability"]),
            "reservation": Reservation::of(queue).data(),
        })
    };
    json!({"queues": branches.iter().map(entry).collect::<Vec<Value>>()})
}
