//! `basalt-bench engine`: how fast the scheduler decides, with no API around it.

mod audit;
mod curve;
mod incremental;
mod locks;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};
use basalt_api::stable_hash::StableHash;
use basalt_audit::Rules;
use basalt_engine::offline::OfflineCluster;
use basalt_engine::{Conf, Engine, Event, Options, Plan};
use basalt_testkit::workload::{CORES_PER_NODE, GangWorkload, ReclaimWorkload};
use serde::Serialize;

/// How long the engine takes from a filled model to the finished plan, on one core: nodes of 16 cores and 64 GiB, gangs of pods of
/// 1 core and 1 GiB, Volcano's default plugins.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
decide_ms and pods_per_s: one cycle that places everything (the median of the runs). cycle_p50_ms and cycle_p99_ms: cycles
after that, in each of which one more gang comes, takes the room of the one before, and is placed. audit_findings: promises that an independent
check of the outcome found broken. plan_hash: the same for the same shape on every machine.

Examples:
  basalt-bench engine --nodes 1000 --jobs 500 --pods-per-job 20
  basalt-bench engine --nodes 10000 --jobs 1000 --pods-per-job 100 --classes 50 --queues 20 --depth 3 -o json
  basalt-bench engine --nodes 1000 --jobs 100 --pods-per-job 100 --waiting 100000
  basalt-bench engine --nodes 1000 --reclaim
  basalt-bench engine --nodes 10000 --jobs 1000 --pods-per-job 100 --classes 50 --queues 20 --locks 30
  basalt-bench engine --nodes 65536 --curve docs/engine-curve.svg")]
pub struct EngineOptions {
    /// Nodes
    #[arg(long, default_value_t = 1000, value_parser = size)]
    nodes: usize,
    /// Gangs
    #[arg(long, default_value_t = 500, value_parser = size)]
    jobs: usize,
    /// Pods of each gang
    #[arg(long, default_value_t = 20, value_parser = size)]
    pods_per_job: usize,
    /// Shapes of pods, given to the gangs in turn
    #[arg(long, default_value_t = 1, value_parser = size)]
    classes: usize,
    /// Leaf queues, given to the gangs in turn
    #[arg(long, default_value_t = 1, value_parser = size)]
    queues: usize,
    /// Levels of queues; with more than one, the capacity plugin with hierarchy takes the place of proportion
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    depth: u8,
    /// Pods that wait for room while the cycles after the first are measured
    #[arg(long, default_value_t = 0)]
    waiting: usize,
    /// Size of the gang that comes in each of these cycles
    #[arg(long, default_value_t = 100, value_parser = size)]
    gang: usize,
    /// How many of these cycles
    #[arg(long, default_value_t = 100)]
    cycles: usize,
    /// How often the first cycle is measured
    #[arg(long, default_value_t = 3, value_parser = size)]
    runs: usize,
    /// Instead: one queue has the whole cluster, and a gang of another asks for the half that it deserves; the running jobs lose pods, or go whole
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "pods", value_parser = ["pods", "gangs"])]
    reclaim: Option<String>,
    /// Instead: 1,000 to 1,000,000 pods on the same nodes, drawn into this file
    #[arg(long, value_name = "SVG", conflicts_with_all = ["reclaim", "waiting"])]
    curve: Option<PathBuf>,
    /// Also with so many of 100 nodes locked for the leaf queues, in turn; both and the difference are printed
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100), conflicts_with_all = ["reclaim", "curve"])]
    locks: Option<u8>,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

fn size(text: &str) -> Result<usize, String> {
    let size: usize = text.parse().map_err(|_| "not a whole number".to_owned())?;
    if (1..=10_000_000).contains(&size) {
        Ok(size)
    } else {
        Err("not between 1 and 10,000,000".to_owned())
    }
}

/// What a measurement says.
#[derive(Clone, Debug, Default, Serialize)]
struct Figures {
    decide_ms: f64,
    pods_per_s: f64,
    bound: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    evicted: Option<usize>,
    cycle_p50_ms: f64,
    cycle_p99_ms: f64,
    peak_rss_mb: f64,
    audit_findings: usize,
    plan_hash: String,
}

/// Volcano's default configuration, as its chart installs it.
fn conf(depth: u8, reclaim: Option<&str>, locks: bool) -> String {
    let actions = match reclaim {
        None => "enqueue, allocate, backfill",
        Some("pods") => "enqueue, allocate, reclaim, backfill",
        Some(_) => "enqueue, allocate, gangreclaim, backfill",
    };
    let shares = if depth > 1 {
        "{name: capacity, enableHierarchy: true}"
    } else {
        "{name: proportion}"
    };
    let locks = if locks { ", {name: node_reservation}" } else { "" };
    format!(
        "actions: {actions:?}\n\
         tiers:\n\
         - plugins: [{{name: priority}}, {{name: gang, enablePreemptable: false}}, {{name: conformance}}]\n\
         - plugins: [{{name: overcommit}}, {{name: drf, enablePreemptable: false}}, {{name: predicates}}, {shares}, {{name: nodeorder}}, {{name: binpack}}{locks}]\n"
    )
}

/// Measures, and prints the result.
pub(super) fn run(options: EngineOptions) -> anyhow::Result<()> {
    if let Some(path) = &options.curve {
        return curve::run(&options, path);
    }
    if let Some(percent) = options.locks {
        return locks::run(&options, percent);
    }
    let figures = measure(&options)?;
    let mut out = std::io::stdout().lock();
    if options.output == "json" {
        writeln!(out, "{}", serde_json::to_string_pretty(&figures)?)?;
        return Ok(());
    }
    let row = |name: &str, value: String| format!("{name:<16} {value:>14}\n");
    let mut text = row("decide_ms", format!("{:.2}", figures.decide_ms));
    text += &row("pods_per_s", format!("{:.0}", figures.pods_per_s));
    text += &row("bound", figures.bound.to_string());
    if let Some(evicted) = figures.evicted {
        text += &row("evicted", evicted.to_string());
    }
    text += &row("cycle_p50_ms", format!("{:.2}", figures.cycle_p50_ms));
    text += &row("cycle_p99_ms", format!("{:.2}", figures.cycle_p99_ms));
    text += &row("peak_rss_mb", format!("{:.0}", figures.peak_rss_mb));
    text += &row("audit_findings", figures.audit_findings.to_string());
    text += &row("plan_hash", figures.plan_hash);
    write!(out, "{text}")?;
    Ok(())
}

fn measure(options: &EngineOptions) -> anyhow::Result<Figures> {
    let text = conf(options.depth, options.reclaim.as_deref(), false);
    let (conf, rules) = (Conf::parse(&text)?, basalt_sim::rules(&text)?);
    for warning in &conf.warnings {
        eprintln!("note: {warning}");
    }
    if let Some(what) = &options.reclaim {
        let reclaim = ReclaimWorkload {
            nodes: options.nodes,
            pods_per_job: options.pods_per_job.min(options.nodes * CORES_PER_NODE),
            gangs: what == "gangs",
        };
        return measure_reclaim(options, &conf, &rules, reclaim);
    }
    let workload = workload(options);
    let mut times = Vec::new();
    let (mut engine, mut plan) = decide(&conf, workload.events(), &mut times);
    let hash = plan_hash(&plan)?;
    for _ in 1..options.runs {
        drop((engine, plan));
        (engine, plan) = decide(&conf, workload.events(), &mut times);
        ensure!(plan_hash(&plan)? == hash, "the same input led to another plan");
    }
    let bound = plan.binds().count();
    let decide_ms = quantile(&mut times, 0.5);
    // Before the measurement keeps books of its own.
    let peak_rss_mb = peak_rss_mb();
    let mut cycles = incremental::measure(engine, &plan, &workload, options);
    Ok(Figures {
        decide_ms,
        pods_per_s: bound as f64 / (decide_ms / 1e3),
        bound,
        evicted: None,
        cycle_p50_ms: quantile(&mut cycles, 0.5),
        cycle_p99_ms: quantile(&mut cycles, 0.99),
        peak_rss_mb,
        audit_findings: audit::findings(workload.events(), &BTreeSet::new(), &plan, &rules),
        plan_hash: hash,
    })
}

fn workload(options: &EngineOptions) -> GangWorkload {
    GangWorkload {
        nodes: options.nodes,
        jobs: options.jobs,
        pods_per_job: options.pods_per_job,
        classes: options.classes,
        queues: options.queues,
        depth: usize::from(options.depth),
        locked: 0,
    }
}

/// The clock runs over the cycle that decides who has to go; `cycle_…` is the one after, when they are gone.
fn measure_reclaim(
    options: &EngineOptions,
    conf: &Conf,
    rules: &Rules,
    reclaim: ReclaimWorkload,
) -> anyhow::Result<Figures> {
    let (mut times, mut after) = (Vec::new(), Vec::new());
    let mut last = None;
    for _ in 0..options.runs {
        let (engine, plan) = decide(conf, reclaim.events(), &mut times);
        let mut cluster = OfflineCluster::new(engine);
        plan.evictions().for_each(|eviction| cluster.evict_pod(eviction));
        let start = Instant::now();
        let bound = cluster.engine_mut().cycle(1000, 0);
        after.push(milliseconds(start));
        last = Some((plan, bound));
    }
    let (plan, after_plan) = last.context("at least one run")?;
    let (gone, bound) = (evicted(&plan), after_plan.binds().count());
    let (decide_ms, peak_rss_mb) = (quantile(&mut times, 0.5), peak_rss_mb());
    let judged = audit::findings(reclaim.events(), &BTreeSet::new(), &plan, rules);
    let judged_after = audit::findings(reclaim.events(), &gone, &after_plan, rules);
    Ok(Figures {
        decide_ms,
        pods_per_s: bound as f64 / (decide_ms / 1e3),
        bound,
        evicted: Some(gone.len()),
        cycle_p50_ms: quantile(&mut after, 0.5),
        cycle_p99_ms: quantile(&mut after, 0.99),
        peak_rss_mb,
        audit_findings: judged + judged_after,
        plan_hash: plan_hash(&plan)?,
    })
}

fn evicted(plan: &Plan) -> BTreeSet<Arc<str>> {
    plan.evictions().map(|eviction| eviction.pod.clone()).collect()
}

/// Fills an engine and lets it decide once. Only the deciding is timed.
fn decide(conf: &Conf, events: impl Iterator<Item = Event>, times: &mut Vec<f64>) -> (Engine, Plan) {
    let mut engine = Engine::new(conf.clone(), Options::default());
    events.for_each(|event| engine.apply(&event));
    let start = Instant::now();
    let plan = engine.cycle(0, 0);
    times.push(milliseconds(start));
    (engine, plan)
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// The value below which this part of the values lies; 0 where there are none.
fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * part).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or_default()
}

/// The most memory that this process ever had, in MB (10^6 bytes); 0 where the system does not tell.
fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: f64 = line
        .and_then(|line| line.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or_default();
    kib * 1024.0 / 1e6
}

/// FNV-1a over the plan as JSON.
fn plan_hash(plan: &Plan) -> anyhow::Result<String> {
    let mut hash = StableHash::default();
    serde_json::to_writer(&mut hash, plan)?;
    Ok(format!("{:016x}", hash.value()))
}
