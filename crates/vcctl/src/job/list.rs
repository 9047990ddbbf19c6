//! `vcctl job list`

use std::collections::BTreeMap;

use basalt_api::job::JobPhase;
use basalt_api::json::{integer_or_zero, string_at};
use basalt_api::names;
use basalt_api::resource_kind::JOB;
use clap::Args;
use kube::api::ListParams;
use serde_json::Value;

use super::{colour, group, is_finished, parse_phase, phase, queue, replicas};
use crate::cli::Namespaces;
use crate::error::CliError;
use crate::output::age::age;
use crate::output::table::{Cell, Table};
use crate::output::{self, Format};
use crate::session::Session;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  vcctl job list -n ml -q research\n  vcctl job list --all-namespaces -o wide\n  vcctl job list --phase Pending,Running --selector team=vision"
)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    namespaces: Namespaces,
    /// Only jobs of this queue
    #[arg(long, short = 'q')]
    queue: Option<String>,
    /// Only jobs of this scheduler
    #[arg(long, short = 'S')]
    scheduler: Option<String>,
    /// Only jobs with these labels (key=value,…), or with this text in their name
    #[arg(long, short = 'l')]
    selector: Option<String>,
    /// Only jobs in these phases
    #[arg(long, value_delimiter = ',', value_parser = parse_phase)]
    phase: Vec<JobPhase>,
    /// How to show them
    #[arg(long, short = 'o', value_enum)]
    output: Option<Format>,
}

pub(crate) async fn execute(args: ListArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = args.namespaces.take(session).await?;
    let labels = args.selector.as_deref().filter(|s| is_label_selector(s));
    let params = labels.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
    let mut jobs = session.list(JOB, namespace.as_deref(), &params).await?;
    jobs.retain(|job| args.matches(job));
    jobs.sort_by(|a, b| place(a).cmp(&place(b)));
    let is_table = matches!(args.output, None | Some(Format::Wide));
    let groups = if is_table && !jobs.iter().all(is_finished) {
        readable(group::all(namespace.as_deref(), session).await, session)?
    } else {
        BTreeMap::new()
    };
    let columns = Columns {
        namespaces: args.namespaces.all_namespaces,
        now: jiff::Timestamp::now(),
        groups: &groups,
    };
    let table = |jobs: &[Value], wide| columns.table(jobs, wide);
    output::print_list(JOB, jobs, args.output, table, session)
}

/// Who may list jobs need not be allowed to list what says why they wait.
fn readable(
    groups: Result<BTreeMap<String, Value>, CliError>,
    session: &mut Session<'_>,
) -> Result<BTreeMap<String, Value>, CliError> {
    match groups {
        Ok(groups) => Ok(groups),
        Err(error) => {
            session.tell(&format!("Warning: reasons are not shown: {error}"))?;
            Ok(BTreeMap::new())
        }
    }
}

/// A name never has these characters, so Volcano's meaning (part of a name) and everyone else's (labels) can share a flag.
fn is_label_selector(selector: &str) -> bool {
    selector.contains(['=', '!', ',', ' ', '('])
}

fn place(job: &Value) -> (&str, &str) {
    (string_at(job, "/metadata/namespace"), string_at(job, "/metadata/name"))
}

impl ListArgs {
    fn matches(&self, job: &Value) -> bool {
        let is = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|w| w == found);
        let part = self.selector.as_deref().filter(|s| !is_label_selector(s)).unwrap_or("");
        let in_phase = self.phase.is_empty() || self.phase.contains(&phase(job).unwrap_or_default());
        is(&self.queue, queue(job))
            && is(&self.scheduler, string_at(job, "/spec/schedulerName"))
            && string_at(job, "/metadata/name").contains(part)
            && in_phase
    }
}

/// Why a job is not running, or why it ended: codes, and sentences.
fn reason(job: &Value, group: Option<&Value>) -> (String, String) {
    let state = (
        string_at(job, "/status/state/reason"),
        string_at(job, "/status/state/message"),
    );
    let reasons = group
        .filter(|_| !is_finished(job))
        .map(group::reasons)
        .unwrap_or_default();
    if reasons.is_empty() {
        return (state.0.to_owned(), state.1.to_owned());
    }
    let mut codes: Vec<String> = reasons.iter().map(|reason| reason.code.to_string()).collect();
    codes.dedup();
    let sentences: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    (codes.join(","), sentences.join(" "))
}

/// What a table of jobs is made with.
pub(super) struct Columns<'a> {
    pub(super) namespaces: bool,
    pub(super) now: jiff::Timestamp,
    /// PodGroups by the uid of their job.
    pub(super) groups: &'a BTreeMap<String, Value>,
}

impl Columns<'_> {
    /// Volcano's columns in Volcano's order, then ours, so that scripts that count columns go on working.
    pub(super) fn table(&self, jobs: &[Value], wide: bool) -> Table {
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
            "Age",
            "Reason",
        ];
        if self.namespaces {
            header.insert(0, "Namespace");
        }
        if wide {
            header.extend(["Scheduler", "PriorityClass", "Message"]);
        }
        let mut table = Table::new(header);
        for job in jobs {
            table.row(self.row(job, wide));
        }
        table
    }

    fn row(&self, job: &Value, wide: bool) -> Vec<Cell> {
        let created = string_at(job, "/metadata/creationTimestamp");
        let phase = string_at(job, "/status/state/phase");
        let kind = string_at(&job["metadata"]["labels"][names::JOB_TYPE], "");
        let (codes, message) = reason(job, self.groups.get(string_at(job, "/metadata/uid")));
        let mut cells: Vec<Cell> = Vec::new();
        if self.namespaces {
            cells.push(string_at(job, "/metadata/namespace").into());
        }
        cells.extend([
            Cell::from(string_at(job, "/metadata/name")),
            Cell::new(created.get(..10).unwrap_or(created)),
            Cell::from(phase).coloured(colour(phase)),
            Cell::new(if kind.is_empty() { "Batch" } else { kind }),
            replicas(job).into(),
            integer_or_zero(job, "/spec/minAvailable").into(),
        ]);
        for counter in ["pending", "running", "succeeded", "failed", "unknown", "retryCount"] {
            cells.push(integer_or_zero(&job["status"], &format!("/{counter}")).into());
        }
        cells.extend([queue(job).into(), Cell::new(age(created, self.now)), Cell::new(codes)]);
        if wide {
            cells.extend([
                string_at(job, "/spec/schedulerName").into(),
                string_at(job, "/spec/priorityClassName").into(),
                Cell::new(message),
            ]);
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Vec<Value> {
        vec![
            json!({
                "metadata": {"namespace": "ml", "name": "train", "uid": "u1", "creationTimestamp": "2026-11-14T10:00:00Z", "labels": {"volcano.sh/job-type": "MPI"}},
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
        let group = json!({"status": {"reasons": [
            {"code": "NotEnoughResources", "dimension": "pods", "need": "5", "have": "4"},
            {"code": "NotEnoughResources", "dimension": "cpu", "need": "2", "have": "500m", "nodes": {"not enough cpu": 3}},
            "odd",
        ]}});
        let groups = BTreeMap::from([("u1".to_owned(), group)]);
        let table = |namespaces: bool, wide: bool| {
            let columns = Columns {
                namespaces,
                now: now(),
                groups: &groups,
            };
            columns.table(&sample(), wide)
        };
        insta::assert_snapshot!("narrow", table(false, false).render(false));
        insta::assert_snapshot!("wide", table(true, true).render(false));
        let coloured = table(false, false).render(true);
        assert!(coloured.contains("\u{1b}[32mRunning\u{1b}[0m") && coloured.contains("\u{1b}[31mFailed\u{1b}[0m"));
    }

    #[test]
    fn jobs_are_filtered() {
        let check_with = |phase: Vec<JobPhase>,
                          queue: Option<&str>,
                          scheduler: Option<&str>,
                          selector: Option<&str>,
                          expected: usize| {
            let args = ListArgs {
                namespaces: Namespaces::default(),
                queue: queue.map(str::to_owned),
                scheduler: scheduler.map(str::to_owned),
                selector: selector.map(str::to_owned),
                phase,
                output: None,
            };
            assert_eq!(
                sample().iter().filter(|job| args.matches(job)).count(),
                expected,
                "{args:?}"
            );
        };
        let check = |queue, scheduler, selector, expected| check_with(Vec::new(), queue, scheduler, selector, expected);
        check_with(vec![JobPhase::Running, JobPhase::Failed], None, None, None, 2);
        // A job that nobody has looked at is Pending.
        check_with(vec![JobPhase::Pending], None, None, None, 1);
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
