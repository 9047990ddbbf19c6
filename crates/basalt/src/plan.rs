//! `basalt plan`: what the scheduler would decide, without a cluster; and scenarios, which say what it should.

mod cluster;
mod departures;
mod scenarios;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use basalt_engine::offline::OfflineRun;
use basalt_engine::{Conf, Options};
use jiff::Timestamp;

/// Decide offline: manifests in, binds, evictions and reasons out. Nothing is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without --conf the configuration of `basalt up` is used. Queues `root` and `default` exist without being written.
Volcano Jobs stand for the PodGroup and the pods that their controller makes. Between cycles, bound pods run and
evicted pods are gone.

Exit status: 0 done, 1 something cannot be read (or a scenario failed), 2 wrong usage, 3 no scenario failed but some
need what is not supported.

Examples:
  basalt plan -f cluster.yaml -f jobs/
  kubectl get nodes,pods,podgroups,queues -A -o json | basalt plan -f - --conf volcano-scheduler.conf -o json
  basalt plan -f cluster.yaml --cycles 5
  basalt plan --scenario scenarios/")]
pub struct PlanOptions {
    /// Manifests: a file (many documents, lists), a folder, or - for stdin; may be given many times
    #[arg(short, long = "filename", value_name = "PATH", required_unless_present = "scenario")]
    filename: Vec<PathBuf>,
    /// The scheduler's configuration (volcano-scheduler.conf); a key that is not known is an error
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// How many cycles
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    cycles: u32,
    /// Pods that name one of these schedulers are scheduled
    #[arg(long, value_name = "NAME", default_values = ["volcano", "basalt"])]
    scheduler_name: Vec<String>,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
    /// Run scenarios instead: files, and folders with all below
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["filename", "conf", "cycles", "scheduler_name"])]
    scenario: Vec<PathBuf>,
    /// Scenarios: what a file lists as only observed does not count; differences are notes
    #[arg(long, requires = "scenario")]
    lenient: bool,
    /// Scenarios: a list of files that may fail, and must
    #[arg(long, value_name = "FILE", requires = "scenario")]
    departures: Option<PathBuf>,
}

/// Runs the command.
pub fn main(options: PlanOptions) -> ExitCode {
    let result = if options.scenario.is_empty() {
        plan(&options).map(|()| ExitCode::SUCCESS)
    } else {
        scenarios::main(&options)
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn plan(options: &PlanOptions) -> anyhow::Result<()> {
    let conf = read_conf(options)?;
    let now = Timestamp::now();
    let cluster = cluster::read(&options.filename, &options.scheduler_name, now)?;
    for note in &cluster.notes {
        eprintln!("note: {note}");
    }
    let names = options.scheduler_name.clone();
    let mut run = OfflineRun::new(
        conf,
        Options {
            scheduler_names: names,
            ..Options::default()
        },
    );
    cluster.events.into_iter().for_each(|event| run.apply(event));
    for cycle in 0..i64::from(options.cycles) {
        // A second passes from cycle to cycle, as it does with Volcano.
        run.run_cycle(now.as_millisecond().saturating_add(cycle.saturating_mul(1000)));
    }
    if options.output == "json" {
        println!("{}", serde_json::to_string_pretty(run.report())?);
    } else {
        print!("{}", table::render(run.report()));
    }
    Ok(())
}

/// The configuration that is given, or that of `basalt up`. What is not understood is an error; what we know and do not
/// have yet is not.
fn read_conf(options: &PlanOptions) -> anyhow::Result<Conf> {
    let Some(path) = &options.conf else {
        return Ok(Conf::embedded());
    };
    let place = || format!("{}", path.display());
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let conf = Conf::parse(&text).with_context(place)?;
    let faults: Vec<&str> = conf
        .warnings
        .iter()
        .filter(|warning| !conf.lacking.contains(warning))
        .map(String::as_str)
        .collect();
    if !faults.is_empty() {
        bail!("{}: {}", path.display(), faults.join("; "));
    }
    for lack in &conf.lacking {
        eprintln!("note: {lack}");
    }
    Ok(conf)
}
