//! `vcctl queue list` and `children`

use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::resource_kind::QUEUE;
use clap::Args;
use serde_json::Value;

use super::{above, all, deserved, name, state_colour};
use crate::error::CliError;
use crate::name::queue::Name;
use crate::output::table::{Cell, Table};
use crate::output::{self, Format};
use crate::resources;
use crate::session::Session;
use crate::terminal::neutral;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vcctl queue list\n  vcctl queue list -o wide\n  vcctl queue list -o json")]
pub(crate) struct ListArgs {
    /// How to show them
    #[arg(long, short = 'o', value_enum)]
    output: Option<Format>,
}

pub(crate) async fn execute(args: ListArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let queues = all(session).await?;
    output::print_list(QUEUE, queues, args.output, table, session)
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vcctl queue children root\n  vcctl queue children ml -o name")]
pub(crate) struct ChildrenArgs {
    #[command(flatten)]
    name: Name,
    /// How to show them
    #[arg(long, short = 'o', value_enum)]
    output: Option<Format>,
}

pub(crate) async fn children(args: ChildrenArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let parent = args.name.take();
    let mut queues = all(session).await?;
    let exists = queues.iter().any(|queue| name(queue) == parent);
    queues.retain(|queue| above(queue) == Some(parent.as_str()));
    if !exists && queues.is_empty() {
        return Err(CliError::NotFound {
            kind: QUEUE.singular(),
            name: parent,
        });
    }
    if !exists {
        session.tell(&format!(
            "Warning: queue {} does not exist, and these name it as their parent",
            neutral(&parent)
        ))?;
    }
    output::print_list(QUEUE, queues, args.output, table, session)
}

/// The counters of `status`, in the order of their columns.
const BEFORE_STATE: [&str; 2] = ["/status/pending", "/status/running"];
const AFTER_PARENT: [&str; 5] = [
    "/status/inqueue",
    "/status/unknown",
    "/status/completed",
    "/status/failed",
    "/status/aborted",
];

/// The sum of all counters.
pub(super) fn total(queue: &Value) -> i64 {
    let counters = BEFORE_STATE.iter().chain(&AFTER_PARENT);
    counters
        .map(|pointer| integer_or_zero(queue, pointer))
        .fold(0, i64::saturating_add)
}

pub(super) fn table(queues: &[Value], wide: bool) -> Table {
    let mut header = vec![
        "Name",
        "Weight",
        "Total",
        "Pending",
        "Running",
        "State",
        "Parent",
        "Inqueue",
        "Unknown",
        "Completed",
        "Failed",
        "Aborted",
    ];
    if wide {
        header.extend(["Allocated", "Deserved", "Capability"]);
    }
    let mut table = Table::new(header);
    for queue in queues {
        table.row(row(queue, wide));
    }
    table
}

fn row(queue: &Value, wide: bool) -> Vec<Cell> {
    let state = string_at(queue, "/status/state");
    let mut cells: Vec<Cell> = vec![
        name(queue).into(),
        integer_or_zero(queue, "/spec/weight").into(),
        total(queue).into(),
    ];
    cells.extend(BEFORE_STATE.iter().map(|p| Cell::from(integer_or_zero(queue, p))));
    cells.push(Cell::from(state).coloured(state_colour(state)));
    cells.push(string_at(queue, "/spec/parent").into());
    cells.extend(AFTER_PARENT.iter().map(|p| Cell::from(integer_or_zero(queue, p))));
    if wide {
        cells.extend([
            Cell::new(resources::show(&queue["status"]["allocated"])),
            Cell::new(resources::show(deserved(queue))),
            Cell::new(resources::show(&queue["spec"]["capability"])),
        ]);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn queues_are_shown_with_their_counters() {
        let queues = [
            json!({
                "metadata": {"name": "myqueue"},
                "spec": {"weight": 10, "parent": "root", "capability": {"cpu": 8}, "deserved": {"cpu": "4"}},
                "status": {"state": "Open", "pending": 5, "running": 5, "inqueue": 1, "completed": 7, "failed": 2, "aborted": 1, "unknown": 3, "allocated": {"memory": "1Gi", "cpu": "2"}},
            }),
            json!({"metadata": {"name": "new"}, "spec": {"weight": 1}}),
            json!({"metadata": {"name": "x\u{9b}2J"}, "spec": "odd", "status": {"state": "Closing", "pending": null}}),
        ];
        insta::assert_snapshot!("narrow", table(&queues, false).render(false));
        insta::assert_snapshot!("wide", table(&queues, true).render(false));
    }
}
