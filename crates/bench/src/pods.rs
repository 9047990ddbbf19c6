//! `basalt-bench pods`: what it costs to run a process as a pod of this machine.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::TryStreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::json;

use super::measure::Spread;
use basalt::up::{System, SystemOptions};

/// What was asked for.
const LIMIT_MS: f64 = 15.0;
const PATIENCE: Duration = Duration::from_mins(2);

/// Time from a pod's being bound to its being finished, for a program that ends at once (`true`), one pod after the
/// other; then many pods at once; then what is left of them all.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  basalt-bench pods\n  basalt-bench pods --pods 100 --at-once 50 -o json")]
pub struct PodsOptions {
    /// Pods that run one after the other
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pods: u32,
    /// Pods that run at the same time
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=450))]
    at_once: u32,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

/// What it took.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// From bound to finished.
    overhead: Spread,
    /// From created to finished.
    whole: Spread,
    limit_ms: f64,
    at_once: u32,
    /// From the first create to all of them running.
    all_running_ms: f64,
    left: Left,
}

/// What is there after all pods are gone that was not there before.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Left {
    zombies: usize,
    folders: usize,
    cgroups: usize,
    descriptors: usize,
}

/// Runs the measurement and prints it.
pub async fn run(options: PodsOptions) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("a folder for the measurement")?;
    let system = System::start(SystemOptions::machine(folder.path())?).await?;
    let client = system.inside_client();
    // Warm: what is opened once stays open.
    one_after_another(&client, "warm", 3).await?;
    clear(&client).await?;
    let before = descriptors();
    let (overhead, whole) = one_after_another(&client, "one", options.pods).await?;
    let all_running_ms = together(&client, options.at_once).await?;
    let gone = clear(&client).await?;
    let left = left(folder.path(), before, &gone).await;
    let report = Report {
        overhead,
        whole,
        limit_ms: LIMIT_MS,
        at_once: options.at_once,
        all_running_ms,
        left,
    };
    system.stop().await?;
    print(&options, &report)
}

fn pod(name: &str, command: &[&str]) -> anyhow::Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano", "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "none", "command": command}],
        },
    }))?)
}

/// Reports of all pods from now on.
async fn watch(api: &Api<Pod>) -> anyhow::Result<BoxStream<'static, kube::Result<WatchEvent<Pod>>>> {
    let now = api.list_metadata(&ListParams::default().limit(1)).await?;
    let version = now.metadata.resource_version.unwrap_or_default();
    let stream = api.watch(&WatchParams::default().timeout(290), &version).await?;
    Ok(Box::pin(stream))
}

async fn next(watch: &mut BoxStream<'static, kube::Result<WatchEvent<Pod>>>) -> anyhow::Result<Pod> {
    loop {
        let event = tokio::time::timeout(PATIENCE, watch.try_next()).await;
        match event.context("no pod moves any more")?? {
            Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod)) => return Ok(pod),
            Some(_) => {}
            None => anyhow::bail!("the watch ended early"),
        }
    }
}

async fn one_after_another(client: &Client, prefix: &str, pods: u32) -> anyhow::Result<(Spread, Spread)> {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let mut reports = watch(&api).await?;
    let (mut overheads, mut wholes) = (Vec::new(), Vec::new());
    let mut watched = Instant::now();
    for number in 0..pods {
        // The server ends each watch after a time.
        if watched.elapsed() > Duration::from_mins(4) {
            reports = watch(&api).await?;
            watched = Instant::now();
        }
        let name = format!("{prefix}-{number}");
        let begun = Instant::now();
        api.create(&PostParams::default(), &pod(&name, &["true"])?).await?;
        let mut bound = None;
        loop {
            let pod = next(&mut reports).await?;
            if pod.name_any() != name {
                continue;
            }
            let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            if placed && bound.is_none() {
                bound = Some(Instant::now());
            }
            match pod.status.and_then(|status| status.phase).as_deref() {
                Some("Succeeded") => break,
                Some("Failed") => anyhow::bail!("{name} failed"),
                _ => {}
            }
        }
        overheads.push(bound.context("it was bound")?.elapsed());
        wholes.push(begun.elapsed());
    }
    Ok((Spread::of(overheads), Spread::of(wholes)))
}

/// Milliseconds until all run.
async fn together(client: &Client, pods: u32) -> anyhow::Result<f64> {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let mut reports = watch(&api).await?;
    let begun = Instant::now();
    for number in 0..pods {
        let pod = pod(&format!("many-{number}"), &["sleep", "600"])?;
        api.create(&PostParams::default(), &pod).await?;
    }
    let mut running = BTreeSet::new();
    while running.len() < pods as usize {
        let pod = next(&mut reports).await?;
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        ensure!(phase != Some("Failed"), "{} failed: {:?}", pod.name_any(), pod.status);
        if pod.name_any().starts_with("many-") && phase == Some("Running") {
            running.insert(pod.name_any());
        }
    }
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// Deletes all pods, and waits until they are gone; their uids.
async fn clear(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let api: Api<Pod> = Api::default_namespaced(client.clone());
    let all = api.list_metadata(&ListParams::default()).await?;
    let uids = all.items.iter().filter_map(ResourceExt::uid).collect();
    api.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    let begun = Instant::now();
    while !api
        .list_metadata(&ListParams::default().limit(1))
        .await?
        .items
        .is_empty()
    {
        ensure!(begun.elapsed() < PATIENCE, "pods stay after they were deleted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(uids)
}

/// Looks until nothing is left, for a few seconds: folders go just after the pods.
async fn left(data: &Path, before: usize, gone: &BTreeSet<String>) -> Left {
    let begun = Instant::now();
    loop {
        let left = Left {
            zombies: zombies(),
            folders: entries(&data.join("pods")),
            cgroups: cgroups(gone),
            descriptors: descriptors().saturating_sub(before),
        };
        let clean = left.zombies == 0 && left.folders == 0 && left.cgroups == 0 && left.descriptors == 0;
        if clean || begun.elapsed() > Duration::from_secs(10) {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

fn descriptors() -> usize {
    entries(Path::new("/proc/self/fd"))
}

/// Children of ours that have ended and that nobody has asked.
fn zombies() -> usize {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    let dead = stats.filter(|stat| {
        // The name, in parentheses, may hold anything; after it come state and parent.
        let mut words = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
        words.next() == Some("Z") && words.next() == Some(&own)
    });
    dead.count()
}

/// Cgroups of these pods, in every hierarchy.
fn cgroups(of: &BTreeSet<String>) -> usize {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(root).into_iter().flatten().flatten();
    let ours = hierarchies
        .map(|hierarchy| hierarchy.path().join("basalt"))
        .chain([root.join("basalt")]);
    let folders = ours.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    folders
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| of.contains(name)))
        .count()
}

fn print(options: &PodsOptions, report: &Report) -> anyhow::Result<()> {
    if options.output == "json" {
        println!("{}", serde_json::to_string_pretty(report)?);
        return Ok(());
    }
    let line = |name: &str, spread: &Spread| {
        println!(
            "  {name:<22} median {:>7.2} ms   p99 {:>7.2} ms   slowest {:>7.2} ms",
            spread.p50_us / 1e3,
            spread.p99_us / 1e3,
            spread.max_us / 1e3
        );
    };
    println!(
        "{} pods of this machine, one after the other, each runs `true`",
        options.pods
    );
    line("bound → finished", &report.overhead);
    line("created → finished", &report.whole);
    println!("  limit of the first median {LIMIT_MS} ms");
    println!(
        "{} pods at once: all running after {:.0} ms",
        report.at_once, report.all_running_ms
    );
    let left = &report.left;
    println!(
        "left after all are gone: {} zombies, {} folders, {} cgroups, {} descriptors",
        left.zombies, left.folders, left.cgroups, left.descriptors
    );
    Ok(())
}
