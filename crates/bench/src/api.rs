//! `basalt-bench api`: Volcano Jobs on any cluster, from their creation to the bind of their last pod.

mod cluster;
mod meters;
mod null;
mod report;
mod run;
mod tally;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, ensure};

use basalt::flags::connection::ConnectionFlags;
use basalt_runtime::process::Stop;
use cluster::Cluster;
use meters::Meters;
use report::Report;
use run::{Mode, Plan};

/// More would be a slip of the finger.
const PODS_MAX: u32 = 1_000_000;
/// Rounds of each shape beside the null binder, unless told otherwise.
const ROUNDS: u32 = 3;

/// Volcano Jobs on any cluster with any Volcano-compatible scheduler, from their creation to the bind of the last pod.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Jobs (batch.volcano.sh) are created in a namespace and a queue of their own, which are deleted afterwards. All times are taken
from one watch of the pods, when an event arrives; the time of a shape runs from the first create to the last bind.
A write of a pod is a new resourceVersion on that watch. Where the API server lets us read its /metrics, its own count of
requests is printed too.

--null measures the limit of this API server on this machine: everything is done as always (Job, PodGroup, pods, status
writes, binds through the same client), but instead of a decision the i-th pod goes to node i mod N as soon as it is seen.
The pods must be made by the controllers that run on the cluster; the binder runs in this process. Basalt's scheduler leaves
these jobs alone by their annotation basalt.sh/scheduler-name; with another scheduler give a name that nobody serves:
--null-scheduler-name basalt-null. --against-null runs both in turn and prints the ratio of their median times.

Examples:
  basalt-bench api --kubeconfig FILE --shape 500x20
  basalt-bench api --shape 1x500 --shape 20x50 --against-null
  basalt-bench api --one-pod 50                                   one pod at a time on an idle cluster
  basalt-bench api --shape 20x50 --pid 4711,4712 -o json          and what these processes used meanwhile")]
pub struct ApiOptions {
    #[command(flatten)]
    connection: ConnectionFlags,
    /// How many Jobs of how many pods; may be repeated
    #[arg(long, value_name = "JOBSxPODS", required_unless_present = "one_pod")]
    shape: Vec<Shape>,
    /// Jobs of one pod, one after the other: the time of each from create to bound
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    one_pod: Option<u32>,
    /// Pods need not start together (minAvailable 1)
    #[arg(long)]
    no_gang: bool,
    /// Jobs that are created at the same time
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    submitters: u16,
    /// Only nodes with these labels
    #[arg(long, value_name = "KEY=VALUE,…", value_parser = labels)]
    nodes_selector: Option<String>,
    /// The scheduler that the Jobs name
    #[arg(long, value_name = "NAME", default_value = "volcano")]
    scheduler_name: String,
    /// No decision: the i-th pod goes to node i mod N
    #[arg(long)]
    null: bool,
    /// Each shape without a decision and with one, in turn, and the ratio
    #[arg(long, conflicts_with = "null")]
    against_null: bool,
    /// The scheduler that the Jobs name while there is no decision [default: as always]
    #[arg(long, value_name = "NAME")]
    null_scheduler_name: Option<String>,
    /// How often each shape is measured [default: 1; 3 with --against-null]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,
    /// Processes whose CPU time and memory are reported
    #[arg(long, value_name = "PID,…", value_delimiter = ',')]
    pid: Vec<u32>,
    /// How long a shape may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// So many Jobs of so many pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    jobs: u32,
    pods: u32,
}

impl Shape {
    fn total(self) -> u32 {
        self.jobs.saturating_mul(self.pods)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |number: &str| number.parse::<u32>().ok().filter(|number| *number > 0);
        let shape = text
            .split_once(['x', '×'])
            .and_then(|(jobs, pods)| Some((read(jobs)?, read(pods)?)));
        let Some((jobs, pods)) = shape else {
            return Err("not JOBSxPODS, as in 500x20".to_owned());
        };
        match jobs.checked_mul(pods) {
            Some(total) if total <= PODS_MAX => Ok(Self { jobs, pods }),
            _ => Err(format!("more than {PODS_MAX} pods")),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.jobs, self.pods)
    }
}

/// A selector of equalities, which can be written into pods too.
fn labels(text: &str) -> Result<String, String> {
    let is_pair = |pair: &str| {
        pair.split_once('=')
            .is_some_and(|(key, value)| !key.is_empty() && !key.contains('!') && !value.contains(['=', '!']))
    };
    if text.split(',').all(is_pair) {
        Ok(text.to_owned())
    } else {
        Err("not KEY=VALUE or KEY=VALUE,KEY=VALUE".to_owned())
    }
}

impl ApiOptions {
    fn modes(&self) -> &'static [Mode] {
        match (self.null, self.against_null) {
            (true, _) => &[Mode::Null],
            (_, true) => &[Mode::Null, Mode::Full],
            _ => &[Mode::Full],
        }
    }

    fn plan(&self, mode: Mode, shape: Shape) -> Plan {
        let null_name = self.null_scheduler_name.as_ref().filter(|_| mode == Mode::Null);
        Plan {
            mode,
            shape,
            gang: !self.no_gang,
            submitters: self.submitters.into(),
            scheduler: null_name.unwrap_or(&self.scheduler_name).clone(),
            selector: self.nodes_selector.clone(),
            patience: Duration::from_secs(self.timeout),
        }
    }
}

/// Runs the measurements and prints them.
pub async fn run(options: ApiOptions) -> anyhow::Result<()> {
    let mut stop = Stop::new()?;
    let client = options.connection.client().await?;
    let meters = Meters::new(client.clone(), &options.pid).await?;
    let cluster = Cluster::prepare(client, options.nodes_selector.as_deref()).await?;
    let measured = tokio::select! {
        measured = measure(&cluster, &meters, &options) => measured,
        () = stop.wished() => Err(anyhow::anyhow!("interrupted")),
    };
    // Whatever happened, nothing of ours stays.
    let cleaned = cluster.clean_up().await;
    measured?.print(options.output == "json")?;
    cleaned
}

async fn measure(cluster: &Cluster, meters: &Meters, options: &ApiOptions) -> anyhow::Result<Report> {
    let mut report = Report::new(cluster.nodes().len());
    let rounds = options.rounds.unwrap_or(if options.against_null { ROUNDS } else { 1 });
    for shape in &options.shape {
        for round in 0..rounds {
            let mut modes = options.modes().to_vec();
            if round % 2 == 1 {
                // A server gets slower with all that it remembers, so neither always comes first.
                modes.reverse();
            }
            for mode in modes {
                let run = run::shape(cluster, meters, &options.plan(mode, *shape)).await;
                let run = run.with_context(|| format!("{shape}, {mode}"))?;
                eprintln!("{shape}, {mode}: {:.2} s", run.time.as_secs_f64());
                report.add(run);
            }
        }
    }
    if let Some(count) = options.one_pod {
        let one = Shape { jobs: count, pods: 1 };
        for mode in options.modes() {
            let times = run::one_by_one(cluster, &options.plan(*mode, one)).await?;
            ensure!(!times.is_empty(), "no pod was measured");
            report.add_one_pod(*mode, times);
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_and_slips_are_refused() {
        for (text, expected) in [
            ("500x20", Some((500, 20))),
            ("1×500", Some((1, 500))),
            ("500", None),
            ("0x3", None),
            ("3x0", None),
            ("-1x3", None),
            ("3x3x3", None),
            ("1000001x1", None),
            ("65536x65536", None),
        ] {
            let got = text.parse::<Shape>().ok().map(|shape| (shape.jobs, shape.pods));
            assert_eq!(got, expected, "{text}");
        }
    }

    #[test]
    fn selectors_are_equalities() {
        for (text, good) in [
            ("a=b", true),
            ("a=b,c=", true),
            ("a", false),
            ("=b", false),
            ("a!=b", false),
            ("a==b", false),
        ] {
            assert_eq!(labels(text).is_ok(), good, "{text}");
        }
    }
}
