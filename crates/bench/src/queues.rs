//! `basalt-bench queues`: 10,000 queues, and what steering them takes.

mod admission;
mod close;
mod counters;

use std::fmt::Debug;

use anyhow::Context;
use futures::{StreamExt, stream};
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use basalt::up::{System, SystemOptions};

/// Requests under way at the same time.
const IN_FLIGHT: usize = 64;
/// How often a counter is waited for.
const COUNTED: u32 = 20;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Every admission decision, beside the limit of 2 ms
    Admission,
    /// Closing the top of the tree, until all queues are Closed
    Close,
    /// One PodGroup's change, until its queue's counters say so
    Counters,
}

/// What 10,000 queues cost.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  basalt-bench queues                    admission, closing a tree, counters, each beside its limit
  basalt-bench queues --part admission --queues 1000 -o json
  basalt-bench queues --part counters --groups 100000")]
pub struct QueuesOptions {
    /// What to measure; may be repeated [default: all]
    #[arg(long)]
    part: Vec<Part>,
    /// How many queues there are
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    queues: u32,
    /// How often each decision of admission is measured
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    times: u32,
    /// How many PodGroups the queue holds whose counters are measured
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    groups: u32,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// Everything that is measured.
#[derive(Debug, Serialize)]
struct Report {
    queues: u32,
    admission: Vec<admission::Line>,
    close: Option<close::Report>,
    counters: Option<counters::Report>,
}

/// Runs the measurements and prints them.
pub async fn run(options: QueuesOptions) -> anyhow::Result<()> {
    let wanted = |part: Part| options.part.is_empty() || options.part.contains(&part);
    let mut report = Report {
        queues: options.queues,
        admission: Vec::new(),
        close: None,
        counters: None,
    };
    if wanted(Part::Admission) {
        report.admission = admission::measure(options.queues, options.times).await?;
    }
    if wanted(Part::Close) {
        report.close = Some(close::measure(options.queues).await?);
    }
    if wanted(Part::Counters) {
        report.counters = Some(counters::measure(options.groups, COUNTED).await?);
    }
    if options.output == "json" {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    println!("{} queues", report.queues);
    if wanted(Part::Admission) {
        admission::print(&report.admission);
    }
    report.close.iter().for_each(close::print);
    report.counters.iter().for_each(counters::print);
    Ok(())
}

/// A system to measure on, and the folder that it lives in.
async fn system(scheduler: bool) -> anyhow::Result<(System, TempDir)> {
    let folder = tempfile::tempdir().context("a folder for the measurement")?;
    let options = SystemOptions {
        scheduler,
        ..SystemOptions::scratch(folder.path(), 0)?
    };
    Ok((System::start(options).await?, folder))
}

/// Creates objects, many at the same time.
async fn create_all<K>(api: &Api<K>, objects: Vec<K>) -> anyhow::Result<()>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let parameters = PostParams::default();
    let mut results = stream::iter(&objects)
        .map(|object| api.create(&parameters, object))
        .buffer_unordered(IN_FLIGHT);
    while let Some(result) = results.next().await {
        result?;
    }
    Ok(())
}
