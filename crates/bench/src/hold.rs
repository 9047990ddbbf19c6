//! `basalt-bench hold`: a whole cluster held in one process: how much memory, how long to list, how long to start again.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use basalt_api::resource_kind;
use futures::StreamExt;
use futures::io::AsyncReadExt;
use futures::stream;
use kube::Client;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::gang;
use basalt::up::{System, SystemOptions};

/// Nodes and running pods in one process: memory, the time of a list, the time of a restart.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  basalt-bench hold --nodes 10000 --jobs 1000 --pods-per-job 100\n  basalt-bench hold --nodes 100 --jobs 10 -o json"
)]
pub struct HoldOptions {
    /// Fake nodes of 16 cores
    #[arg(long, default_value_t = 10_000)]
    nodes: u32,
    /// Jobs
    #[arg(long, default_value_t = 1_000)]
    jobs: u32,
    /// Pods of each job, 100m cpu each
    #[arg(long, default_value_t = 100)]
    pods_per_job: u32,
    /// Seconds to wait at most until all pods run
    #[arg(long, default_value_t = 600)]
    patience: u64,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// Runs the measurement and prints it.
pub async fn run(options: HoldOptions) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("a folder for the measurement")?;
    let pods = u64::from(options.jobs) * u64::from(options.pods_per_job);
    let begun = Instant::now();
    let system = System::start(SystemOptions::scratch(folder.path(), options.nodes)?).await?;
    let nodes_s = begun.elapsed().as_secs_f64();
    let client = system.inside_client();
    let begun = Instant::now();
    submit(&client, &options).await?;
    wait_until_running(&client, pods, Duration::from_secs(options.patience)).await?;
    let running_s = begun.elapsed().as_secs_f64();
    let held_mb = memory_mb("VmRSS:");
    let begun = Instant::now();
    let listed_mb = list_pods(&client).await? as f64 / 1e6;
    let list_s = begun.elapsed().as_secs_f64();
    let peak_mb = memory_mb("VmHWM:");
    drop(client);
    system.stop().await?;

    let begun = Instant::now();
    let system = System::start(SystemOptions::scratch(folder.path(), 0)?).await?;
    let restart_s = begun.elapsed().as_secs_f64();
    system.stop().await?;
    let report = json!({
        "nodes": options.nodes, "pods": pods, "nodesCreatedS": nodes_s, "allRunningS": running_s, "podsPerS": pods as f64 / running_s,
        "heldMb": held_mb, "listS": list_s, "listMb": listed_mb, "peakMb": peak_mb, "restartS": restart_s,
    });
    if options.output == "json" {
        println!("{report:#}");
        return Ok(());
    }
    println!(
        "{} nodes, {pods} pods in {} jobs, one process, store on disk",
        options.nodes, options.jobs
    );
    println!("  nodes created and served      {nodes_s:>9.2} s");
    println!(
        "  jobs submitted, all running   {running_s:>9.2} s   {:.0} pods/s",
        pods as f64 / running_s
    );
    println!("  memory held                   {held_mb:>9.0} MB");
    println!("  list of all pods              {list_s:>9.2} s   {listed_mb:.0} MB");
    println!("  memory, highest               {peak_mb:>9.0} MB");
    println!("  start again to ready          {restart_s:>9.2} s");
    Ok(())
}

async fn submit(client: &Client, options: &HoldOptions) -> anyhow::Result<()> {
    let jobs = gang::jobs(client);
    let mut results = stream::iter(0..options.jobs)
        .map(|index| {
            let jobs = jobs.clone();
            async move {
                let job = gang::manifest(&format!("hold-{index}"), options.pods_per_job)?;
                jobs.create(&PostParams::default(), &job).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(64);
    while let Some(result) = results.next().await {
        result?;
    }
    Ok(())
}

/// Adds up what the Jobs say of their running pods until it is enough.
async fn wait_until_running(client: &Client, pods: u64, patience: Duration) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let list = gang::jobs(client).list(&ListParams::default()).await?;
        let running: u64 = list
            .items
            .iter()
            .filter_map(|job| job.data["status"]["running"].as_u64())
            .sum();
        if running >= pods {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < patience,
            "only {running} of {pods} pods run after {patience:?}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Reads the list of all pods as a stream; returns its size.
async fn list_pods(client: &Client) -> anyhow::Result<u64> {
    let mut body = Box::pin(
        client
            .request_stream(http::Request::get(resource_kind::POD.collection_path("")).body(Vec::new())?)
            .await?,
    );
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        match body.read(&mut buffer).await? {
            0 => return Ok(total),
            read => total += read as u64,
        }
    }
}

/// A figure of this process's memory from the kernel, in MB.
fn memory_mb(line: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status.lines().find_map(|text| {
        text.strip_prefix(line)?
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<f64>()
            .ok()
    });
    kilobytes.unwrap_or_default() * 1024.0 / 1e6
}
