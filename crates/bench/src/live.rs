//! `basalt-bench live`: the whole path through the API, embedded: one pod, many gangs, and rest.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use basalt_api::slim;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::gang;
use basalt::up::{System, SystemOptions};
use basalt_runtime::audited_objects;

/// The live scheduler: time to a node, gangs through the API, idle with pods that fit nowhere.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  basalt-bench live\n  basalt-bench live --nodes 100 --runs 20 --gangs 50 --idle-pods 0 -o json"
)]
pub struct LiveOptions {
    /// Fake nodes of 16 cores
    #[arg(long, default_value_t = 1_000)]
    nodes: u32,
    /// Jobs of one pod, one after the other
    #[arg(long, default_value_t = 100)]
    runs: u32,
    /// Gangs, all at once; 0 leaves this out
    #[arg(long, default_value_t = 500)]
    gangs: u32,
    /// Pods of each gang
    #[arg(long, default_value_t = 20)]
    pods_per_gang: u32,
    /// Pods that fit nowhere, while the idle process is watched; 0 leaves this out
    #[arg(long, default_value_t = 100_000)]
    idle_pods: u32,
    /// Seconds that it is watched
    #[arg(long, default_value_t = 30)]
    idle_seconds: u64,
    /// Seconds to wait at most for each of the three
    #[arg(long, default_value_t = 900)]
    patience: u64,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// Pods of the jobs that fit nowhere.
const IDLE_PODS_PER_JOB: u32 = 100;
/// A tick of the kernel's clock for processor time.
const TICKS_PER_SECOND: f64 = 100.0;

/// Runs the measurement and prints it.
pub async fn run(options: LiveOptions) -> anyhow::Result<()> {
    let mut report = json!({"nodes": options.nodes});
    let folder = tempfile::tempdir().context("a folder for the measurement")?;
    let system = System::start(SystemOptions::scratch(folder.path(), options.nodes)?).await?;
    let client = system.outside_client().await?;
    one_by_one(&client, &options, &mut report).await?;
    if options.gangs > 0 {
        gangs(&client, &options, &mut report).await?;
    }
    drop(client);
    system.stop().await?;
    if options.idle_pods > 0 {
        idle(&options, &mut report).await?;
    }
    print(&options, &report);
    Ok(())
}

async fn one_by_one(client: &Client, options: &LiveOptions, report: &mut Value) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for round in 0..options.runs {
        times.push(gang::one(client, &format!("one-{round}"), 1).await?.bound_ms);
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get(((times.len().max(1) - 1) as f64 * share).round() as usize);
    report["runs"] = json!(options.runs);
    report["boundMs"] = json!({"p50": at(0.5), "p99": at(0.99)});
    Ok(())
}

/// Submits all gangs and waits until a watch has shown every pod on its node; then the auditor looks.
async fn gangs(client: &Client, options: &LiveOptions, report: &mut Value) -> anyhow::Result<()> {
    let pods = (options.gangs * options.pods_per_gang) as usize;
    let api: Api<slim::Pod> = Api::default_namespaced(client.clone());
    let mut watch = Box::pin(api.watch(&WatchParams::default(), "0").await?);
    let begun = Instant::now();
    let submitting = submit(client, options.gangs, |index| {
        gang::manifest(&format!("live-{index}"), options.pods_per_gang)
    });
    let watching = async {
        let mut bound = BTreeSet::new();
        while bound.len() < pods {
            let event = watch.try_next().await?.context("the watch ended early")?;
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event
                && !pod.spec.node_name.is_empty()
                && pod.name_any().starts_with("live-")
            {
                bound.insert(pod.name_any());
            }
        }
        anyhow::Ok(())
    };
    let both = async { tokio::try_join!(submitting, watching) };
    let patience = Duration::from_secs(options.patience);
    tokio::time::timeout(patience, both)
        .await
        .context("not all pods were bound")??;
    let seconds = begun.elapsed().as_secs_f64();
    report["gangs"] = json!(options.gangs);
    report["pods"] = json!(pods);
    report["allBoundS"] = json!(seconds);
    report["podsPerS"] = json!(pods as f64 / seconds);
    report["auditFindings"] = json!(settle(client).await?);
    Ok(())
}

async fn submit(
    client: &Client,
    jobs: u32,
    manifest: impl Fn(u32) -> anyhow::Result<kube::api::DynamicObject>,
) -> anyhow::Result<()> {
    let api = gang::jobs(client);
    let parameters = PostParams::default();
    let mut results = stream::iter(0..jobs)
        .map(|index| {
            let (api, job, parameters) = (api.clone(), manifest(index), &parameters);
            async move { anyhow::Ok(api.create(parameters, &job?).await?) }
        })
        .buffer_unordered(64);
    while let Some(result) = results.next().await {
        result?;
    }
    Ok(())
}

/// What the auditor still finds when everything had time to come to rest.
async fn settle(client: &Client) -> anyhow::Result<usize> {
    let begun = Instant::now();
    loop {
        let findings = basalt_audit::check(&audited_objects::objects(client).await?);
        if findings.is_empty() || begun.elapsed() > Duration::from_secs(30) {
            for finding in &findings {
                eprintln!("the auditor found {finding}");
            }
            return Ok(findings.len());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The whole process, with pods that no node admits, when nothing happens any more.
async fn idle(options: &LiveOptions, report: &mut Value) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("a folder for the measurement")?;
    let system = System::start(SystemOptions::scratch(folder.path(), options.nodes)?).await?;
    let client = system.inside_client();
    let begun = Instant::now();
    submit(&client, options.idle_pods.div_ceil(IDLE_PODS_PER_JOB), |index| {
        let mut job = gang::manifest(&format!("idle-{index}"), IDLE_PODS_PER_JOB)?;
        job.data["spec"]["tasks"][0]["template"]["spec"]["nodeSelector"] = json!({"no": "such-node"});
        Ok(job)
    })
    .await?;
    // Until every pod says why it waits, and nothing is left to be written.
    let wanted = u64::from(options.idle_pods);
    loop {
        let text = client
            .request_text(http::Request::get("/metrics").body(Vec::new())?)
            .await?;
        let value = |name: &str| sum(&text, name);
        let quiet = value("basalt_silent_pods") + value("basalt_writes_waiting");
        if value("basalt_waiting_pods") >= wanted && quiet == 0 {
            break;
        }
        let late = begun.elapsed() > Duration::from_secs(options.patience);
        ensure!(
            !late,
            "the system did not come to rest; {quiet} writes are still to be done"
        );
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let settled_s = begun.elapsed().as_secs_f64();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, since) = (processor_s()?, Instant::now());
    tokio::time::sleep(Duration::from_secs(options.idle_seconds)).await;
    let part = (processor_s()? - before) / since.elapsed().as_secs_f64();
    drop(client);
    system.stop().await?;
    report["idlePods"] = json!(options.idle_pods);
    report["settledS"] = json!(settled_s);
    report["idlePercentOfACore"] = json!(part * 100.0);
    Ok(())
}

/// The sum of all series of a name.
fn sum(metrics: &str, name: &str) -> u64 {
    let lines = metrics
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum::<f64>() as u64
}

/// Processor time of this process so far, from the kernel.
fn processor_s() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
    // The name of the process is in parentheses and may hold anything; user and system time are fields 14 and 15.
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2);
    let ticks: f64 = fields.filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_SECOND)
}

fn print(options: &LiveOptions, report: &Value) {
    if options.output == "json" {
        println!("{report:#}");
        return;
    }
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    println!("{} fake nodes, embedded, store on disk", options.nodes);
    println!(
        "  one-pod job, create over TLS → bound, {} runs   p50 {:>8.1} ms   p99 {:.1} ms",
        options.runs,
        number(&report["boundMs"]["p50"]),
        number(&report["boundMs"]["p99"])
    );
    if options.gangs > 0 {
        println!(
            "  {} gangs of {}, all bound                          {:>8.1} s    {:.0} pods/s, {} audit findings",
            options.gangs,
            options.pods_per_gang,
            number(&report["allBoundS"]),
            number(&report["podsPerS"]),
            number(&report["auditFindings"])
        );
    }
    if options.idle_pods > 0 {
        println!(
            "  idle with {} pods that fit nowhere            {:>8.2} % of a core (settled after {:.0} s)",
            options.idle_pods,
            number(&report["idlePercentOfACore"]),
            number(&report["settledS"])
        );
    }
}
