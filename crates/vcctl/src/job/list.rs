//! `vcctl job list`

use basalt_api::names;
use clap::Args;
use kube::api::ListParams;
use serde_json::Value;

use crate::cli::Namespace;
use crate::error::CliError;
use crate::output::age::age;
use crate::output::table::{Cell, Table};
use crate::output::{self, Format, number, text};
use crate::rest::JOB;
use crate::session::Session;
use crate::terminal::Colour;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  vcctl job list -n ml -q research\n  vcctl job list --all-namespaces -o wide\n  vcctl job list --selector team=vision"
)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    namespace: Namespace,
    /// Jobs of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only jobs of this queue
    #[arg(long, short = 'q')]
    queue: Option<String>,
    /// Only jobs of this scheduler
    #[arg(long, short = 'S')]
    scheduler: Option<String>,
    /// Only jobs with these labels (key=value,…), or with this text in their name
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// How to show them
    #[arg(long, short = 'o', value_enum)]
    output: Option<Format>,
}

pub(crate) async fn execute(args: ListArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = if args.all_namespaces {
        None
    } else {
        Some(session.namespace(args.namespace.namespace.clone()).await?)
    };
    let labels = args.selector.as_deref().filter(|s| is_label_selector(s));
    let params = labels.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
    let mut jobs = session.list(JOB, namespace.as_deref(), &params).await?;
    jobs.retain(|job| args.matches(job));
    jobs.sort_by(|a, b| place(a).cmp(&place(b)));
    let (namespaces, now) = (args.all_namespaces, jiff::Timestamp::now());
    let table = |jobs: &[Value], wide| table(jobs, namespaces, wide, now);
    output::print_list(JOB, jobs, args.output, table, session)
}

/// A name never has these characters, so Volcano's meaning (part of a name) and everyone else's (labels) can share a flag.
fn is_label_selector(selector: &str) -> bool {
    selector.contains(['=', '!', ',', ' ', '('])
}

fn place(job: &Value) -> (&str, &str) {
    (text(job, "/metadata/namespace"), text(job, "/metadata/name"))
}

impl ListArgs {
    fn matches(&self, job: &Value) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|w| w == found);
        let part = self.selector.as_deref().filter(|s| !is_label_selector(s)).unwrap_or("");
        is(&self.queue, queue(job))
            && is(&self.scheduler, text(job, "/spec/schedulerName"))
            && text(job, "/metadata/name").contains(part)
    }
}

fn queue(job: &Value) -> &str {
    match text(job, "/spec/queue") {
        "" => names::DEFAULT_QUEUE,
        queue => queue,
    }
}

/// Volcano's columns in Volcano's order, then ours, so that scripts that count columns go on working.
fn table(jobs: &[Value], namespaces: bool, wide: bool, now: jiff::Timestamp) -> Table {
    let mut header = vec![
        "Name",
        "Creation",
        "Phase",
        "JobType",
        "Replicas",
        "Min",
        "Pending",
        "Running",
        "Succeeded",
        "Failed",
        "Unknown",
        "RetryCount",
        "Queue",
    ];
    if namespaces {
        header.insert(0, "Namespace");
    }
    if wide {
        header.extend(["Age", "Scheduler", "PriorityClass", "Message"]);
    }
    let mut table = Table::new(header);
    for job in jobs {
        table.row(row(job, namespaces, wide, now));
    }
    table
}

fn row(job: &Value, namespaces: bool, wide: bool, now: jiff::Timestamp) -> Vec<Cell> {
    let created = text(job, "/metadata/creationTimestamp");
    let phase = text(job, "/status/state/phase");
    let kind = text(&job["metadata"]["labels"][names::JOB_TYPE], "");
    let tasks = job.pointer("/spec/tasks").and_then(Value::as_array);
    let replicas = tasks
        .into_iter()
        .flatten()
        .map(|task| number(task, "/replicas"))
        .fold(0, i64::saturating_add);
    let mut cells: Vec<Cell> = Vec::new();
    if namespaces {
        cells.push(text(job, "/metadata/namespace").into());
    }
    cells.extend([
        Cell::from(text(job, "/metadata/name")),
        Cell::new(created.get(..10).unwrap_or(created)),
        Cell::from(phase).coloured(colour(phase)),
        Cell::new(if kind.is_empty() { "Batch" } else { kind }),
        replicas.into(),
        number(job, "/spec/minAvailable").into(),
    ]);
    for counter in ["pending", "running", "succeeded", "failed", "unknown", "retryCount"] {
        cells.push(number(&job["status"], &format!("/{counter}")).into());
    }
    cells.push(queue(job).into());
    if wide {
        cells.extend([
            Cell::new(age(created, now)),
            text(job, "/spec/schedulerName").into(),
            text(job, "/spec/priorityClassName").into(),
            text(job, "/status/state/message").into(),
        ]);
    }
    cells
}

fn colour(phase: &str) -> Option<Colour> {
    match phase {
        "Running" | "Completing" => Some(Colour::Green),
        "Pending" | "Restarting" | "Aborting" | "Terminating" => Some(Colour::Yellow),
        "Failed" | "Terminated" => Some(Colour::Red),
        "Completed" | "Aborted" => Some(Colour::Grey),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Vec<Value> {
        vec![
            json!({
                "metadata": {"namespace": "ml", "name": "train", "creationTimestamp": "2026-11-14T10:00:00Z", "labels": {"volcano.sh/job-type": "MPI"}},
                "spec": {"queue": "research", "minAvailable": 3, "schedulerName": "volcano", "priorityClassName": "high", "tasks": [{"replicas": 1}, {"replicas": 4}]},
                "status": {"state": {"phase": "Running"}, "running": 4, "pending": 1, "retryCount": 2},
            }),
            json!({
                "metadata": {"namespace": "default", "name": "new\u{1b}[2J", "creationTimestamp": "2026-11-15T09:59:30Z"},
                "spec": {"minAvailable": 1, "tasks": [{"replicas": 1}]},
            }),
            json!({"metadata": {"name": "odd", "creationTimestamp": "soon"}, "spec": {"tasks": "none"}, "status": {"running": "many", "state": {"phase": "Failed", "message": "line\none"}}}),
        ]
    }

    fn now() -> jiff::Timestamp {
        "2026-11-15T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn jobs_are_shown_in_volcanos_columns() {
        insta::assert_snapshot!("narrow", table(&sample(), false, false, now()).render(false));
        insta::assert_snapshot!("wide", table(&sample(), true, true, now()).render(false));
        let coloured = table(&sample(), false, false, now()).render(true);
        assert!(coloured.contains("\u{1b}[32mRunning\u{1b}[0m") && coloured.contains("\u{1b}[31mFailed\u{1b}[0m"));
    }

    #[test]
    fn jobs_are_filtered() {
        let check = |queue: Option<&str>, scheduler: Option<&str>, selector: Option<&str>, expected: usize| {
            let args = ListArgs {
                namespace: Namespace::default(),
                all_namespaces: true,
                queue: queue.map(str::to_owned),
                scheduler: scheduler.map(str::to_owned),
                selector: selector.map(str::to_owned),
                output: None,
            };
            assert_eq!(
                sample().iter().filter(|job| args.matches(job)).count(),
                expected,
                "{args:?}"
            );
        };
        check(None, None, None, 3);
        check(Some("research"), None, None, 1);
        check(Some("default"), None, None, 2);
        check(None, Some("volcano"), None, 1);
        check(None, None, Some("tra"), 1);
        // Labels are the server's to filter by.
        check(None, None, Some("a=b"), 3);
        check(Some("research"), Some("other"), None, 0);
    }
}
