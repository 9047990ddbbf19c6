//! `basalt-bench gang`: how long a gang takes from `create` to Running, through the real server.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use basalt_api::resource_kind;
use futures::TryStreamExt;
use kube::api::{DeleteParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client};
use serde_json::json;

use basalt::up::{System, SystemOptions};

/// Time from creating a Job to its gang being Running, over TLS, with a store on disk.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  basalt-bench gang --pods 8 --runs 50\n  basalt-bench gang --pods 1 --nodes 1000 -o json"
)]
pub struct GangOptions {
    /// Pods of the gang
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pods: u32,
    /// Fake nodes of 16 cores
    #[arg(long, default_value_t = 3)]
    nodes: u32,
    /// How often
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Output: table or json
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
}

const PATIENCE: Duration = Duration::from_mins(1);

/// What one run took, in milliseconds.
pub(super) struct Run {
    pub(super) bound_ms: f64,
    running_ms: f64,
}

/// Runs the measurement and prints it.
pub async fn run(options: GangOptions) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("a folder for the measurement")?;
    let system = System::start(SystemOptions::scratch(folder.path(), options.nodes)?).await?;
    let client = system.outside_client().await?;
    let mut runs = Vec::new();
    for round in 0..options.runs {
        runs.push(one(&client, &format!("bench-{round}"), options.pods).await?);
    }
    system.stop().await?;
    print(&options, &runs);
    Ok(())
}

pub(super) fn jobs(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(
        resource_kind::JOB.group(),
        resource_kind::JOB.version(),
        resource_kind::JOB.kind,
    );
    Api::default_namespaced_with(client.clone(), &ApiResource::from_gvk(&kind))
}

pub(super) fn manifest(name: &str, pods: u32) -> anyhow::Result<DynamicObject> {
    Ok(serde_json::from_value(json!({
        "apiVersion": resource_kind::JOB.api_version, "kind": resource_kind::JOB.kind, "metadata": {"name": name},
        "spec": {"minAvailable": pods, "schedulerName": "volcano", "tasks": [{
            "name": "worker", "replicas": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}]}},
        }]},
    }))?)
}

pub(super) async fn one(client: &Client, name: &str, pods: u32) -> anyhow::Result<Run> {
    let pod_api: Api<DynamicObject> = Api::default_namespaced_with(
        client.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod")),
    );
    let parameters = WatchParams::default().labels(&format!("volcano.sh/job-name={name}"));
    let mut watch = Box::pin(pod_api.watch(&parameters, "0").await?);
    let begun = Instant::now();
    jobs(client)
        .create(&PostParams::default(), &manifest(name, pods)?)
        .await?;
    let (mut bound, mut running) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    let mut bound_ms = 0.0;
    while running.len() < pods as usize {
        let event = tokio::time::timeout(PATIENCE, watch.try_next())
            .await
            .context("the gang did not start")??;
        let Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else {
            ensure!(event.is_some(), "the watch ended early");
            continue;
        };
        let pod_name = pod.metadata.name.clone().unwrap_or_default();
        if pod.data["spec"]["nodeName"].is_string() && bound.insert(pod_name.clone()) && bound.len() == pods as usize {
            bound_ms = milliseconds(begun);
        }
        if pod.data["status"]["phase"] == "Running" {
            running.insert(pod_name);
        }
    }
    let running_ms = milliseconds(begun);
    jobs(client).delete(name, &DeleteParams::background()).await?;
    Ok(Run { bound_ms, running_ms })
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn print(options: &GangOptions, runs: &[Run]) {
    let column = |pick: fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        let at = |share: f64| {
            values
                .get(((values.len() - 1) as f64 * share).round() as usize)
                .copied()
                .unwrap_or_default()
        };
        (at(0.5), at(0.99))
    };
    let ((bound_p50, bound_p99), (running_p50, running_p99)) = (column(|r| r.bound_ms), column(|r| r.running_ms));
    if options.output == "json" {
        let report = json!({
            "pods": options.pods, "nodes": options.nodes, "runs": options.runs,
            "boundMs": {"p50": bound_p50, "p99": bound_p99}, "runningMs": {"p50": running_p50, "p99": running_p99},
        });
        println!("{report:#}");
        return;
    }
    println!(
        "gang of {} pods on {} nodes, {} runs, create over TLS → all pods",
        options.pods, options.nodes, options.runs
    );
    println!("{:<10} {:>10} {:>10}", "", "p50 ms", "p99 ms");
    println!("{:<10} {bound_p50:>10.1} {bound_p99:>10.1}", "bound");
    println!("{:<10} {running_p50:>10.1} {running_p99:>10.1}", "running");
}
