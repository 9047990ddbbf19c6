//! `vcctl pod list`

use basalt_api::json::string_at;
use basalt_api::names;
use basalt_api::resource_kind::POD;
use clap::Args;
use kube::api::ListParams;
use serde_json::Value;

use super::status::Status;
use super::{job, order, queue};
use crate::cli::Namespaces;
use crate::error::CliError;
use crate::name::checked;
use crate::output::age::age;
use crate::output::table::{Cell, Table};
use crate::output::{self, Format};
use crate::session::Session;

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  vcctl pod list -j train -n ml\n  vcctl pod list -q research --all-namespaces\n  vcctl pod list -j train -o name"
)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    namespaces: Namespaces,
    /// Only pods of this job
    #[arg(long, short = 'j', value_parser = checked)]
    job: Option<String>,
    /// Only pods of this queue
    #[arg(long, short = 'q')]
    queue: Option<String>,
    /// How to show them
    #[arg(long, short = 'o', value_enum)]
    output: Option<Format>,
}

pub(crate) async fn execute(args: ListArgs, session: &mut Session<'_>) -> Result<(), CliError> {
    let namespace = args.namespaces.take(session).await?;
    let params = args.job.as_ref().map_or_else(ListParams::default, |job| {
        ListParams::default().labels(&format!("{}={job}", names::JOB_NAME))
    });
    let mut pods = session.list(POD, namespace.as_deref(), &params).await?;
    pods.retain(|pod| args.queue.as_ref().is_none_or(|wanted| queue(pod) == wanted));
    pods.sort_by(order);
    let (namespaces, now) = (args.namespaces.all_namespaces, jiff::Timestamp::now());
    let table = |pods: &[Value], wide| {
        let columns = Columns {
            namespaces,
            owners: true,
            wide,
        };
        columns.table(pods, now)
    };
    output::print_list(POD, pods, args.output, table, session)
}

/// Which columns a table of pods has, beside Volcano's.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Columns {
    pub(crate) namespaces: bool,
    /// The job and the queue.
    pub(crate) owners: bool,
    pub(crate) wide: bool,
}

impl Columns {
    /// Volcano's columns, then ours.
    pub(crate) fn table(self, pods: &[Value], now: jiff::Timestamp) -> Table {
        let columns = [
            (self.namespaces, &["Namespace"][..]),
            (true, &["Name", "Ready", "Status", "Restart", "Age", "Node"]),
            (self.owners, &["Job", "Queue"]),
            (self.wide, &["IP", "Message"]),
        ];
        let shown = columns.into_iter().filter(|(shown, _)| *shown);
        let mut table = Table::new(shown.flat_map(|(_, names)| names.iter()));
        for pod in pods {
            table.row(self.row(pod, now));
        }
        table
    }

    fn row(self, pod: &Value, now: jiff::Timestamp) -> Vec<Cell> {
        let status = Status::of(pod);
        let mut cells: Vec<Cell> = Vec::new();
        if self.namespaces {
            cells.push(string_at(pod, "/metadata/namespace").into());
        }
        cells.extend([
            string_at(pod, "/metadata/name").into(),
            Cell::new(format!("{}/{}", status.ready, status.containers)),
            Cell::new(&status.word).coloured(status.colour()),
            status.restarts.into(),
            Cell::new(age(string_at(pod, "/metadata/creationTimestamp"), now)),
            string_at(pod, "/spec/nodeName").into(),
        ]);
        if self.owners {
            cells.extend([job(pod).into(), queue(pod).into()]);
        }
        if self.wide {
            cells.extend([string_at(pod, "/status/podIP").into(), Cell::new(status.message)]);
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_are_shown_in_volcanos_columns() {
        let pod = |name: &str, labels: Value, status: Value| {
            json!({
                "metadata": {"name": name, "namespace": "ml", "creationTimestamp": "2026-11-15T09:48:00Z", "labels": labels},
                "spec": {"nodeName": "node-1", "containers": [{"name": "a"}, {"name": "b"}]}, "status": status,
            })
        };
        let labels = json!({"volcano.sh/job-name": "train", "volcano.sh/queue-name": "research"});
        let mut pods = vec![
            pod(
                "train-w-10",
                labels.clone(),
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node\u{1b}[2J"}]}),
            ),
            pod(
                "train-w-2",
                labels,
                json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"ready": true, "restartCount": 2}, {"ready": false}]}),
            ),
            json!({"metadata": {"name": "odd", "namespace": "ml", "annotations": {"scheduling.volcano.sh/queue-name": "plain"}}, "spec": 1, "status": []}),
        ];
        pods.sort_by(order);
        let now = "2026-11-15T10:00:00Z".parse().unwrap();
        let table = |namespaces: bool, wide: bool| {
            let columns = Columns {
                namespaces,
                owners: true,
                wide,
            };
            columns.table(&pods, now)
        };
        insta::assert_snapshot!("narrow", table(false, false).render(false));
        insta::assert_snapshot!("wide", table(true, true).render(false));
    }
}
