//! `vcctl queue list`

use clap::Args;
use kube::api::ListParams;
use serde_json::Value;

use crate::error::CliError;
use crate::output::table::{Cell, Table};
use crate::output::{self, Format, number, text};
use crate::resources;
use crate::rest::QUEUE;
use crate::session::Session;
use crate::terminal::Colour;

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  vcctl queue list\n  vcctl queue list -o wide\n  vcctl queue list -o json")]
pub(crate) struct ListArgs {
    /// How to show them
    #[arg(long, short = 'o', value_enum)]
    output: Option<Format>,
}

pub(crate) async fn execute(args: ListArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let mut queues = session.list(QUEUE, None, &ListParams::default()).await?;
    queues.sort_by(|a, b| text(a, "/metadata/name").cmp(text(b, "/metadata/name")));
    let shown = match args.output {
        Some(Format::Json) => output::to_json(output::list(queues))?,
        Some(Format::Yaml) => output::to_yaml(output::list(queues))?,
        _ if queues.is_empty() => return session.tell("No resources found"),
        Some(Format::Name) => output::to_names(QUEUE, &queues),
        wide => table(&queues, wide.is_some()).render(session.colour),
    };
    session.print(&shown)
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

fn table(queues: &[Value], wide: bool) -> Table {
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
    let counter = |pointer: &&str| number(queue, pointer);
    let total = BEFORE_STATE
        .iter()
        .chain(&AFTER_PARENT)
        .map(counter)
        .fold(0, i64::saturating_add);
    let state = text(queue, "/status/state");
    let mut cells: Vec<Cell> = vec![
        text(queue, "/metadata/name").into(),
        number(queue, "/spec/weight").into(),
        total.into(),
    ];
    cells.extend(BEFORE_STATE.iter().map(|p| Cell::from(number(queue, p))));
    cells.push(Cell::from(state).coloured(colour(state)));
    cells.push(text(queue, "/spec/parent").into());
    cells.extend(AFTER_PARENT.iter().map(|p| Cell::from(number(queue, p))));
    if wide {
        // What the scheduler grants now; before it has said so, what was asked for.
        let deserved = [&queue["status"]["deserved"], &queue["spec"]["deserved"]]
            .into_iter()
            .find(|d| d.is_object());
        cells.extend([
            Cell::new(resources::show(&queue["status"]["allocated"])),
            Cell::new(deserved.map(resources::show).unwrap_or_default()),
            Cell::new(resources::show(&queue["spec"]["capability"])),
        ]);
    }
    cells
}

fn colour(state: &str) -> Option<Colour> {
    match state {
        "Open" => Some(Colour::Green),
        "Closing" => Some(Colour::Yellow),
        "Closed" => Some(Colour::Grey),
        "" => None,
        _ => Some(Colour::Red),
    }
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
