//! One PodGroup's change in a queue that holds many: how long until the queue's counters say so.

use std::time::{Duration, Instant};

use anyhow::Context;
use basalt_api::{PodGroup, Queue, resource_kind};
use futures::TryStreamExt;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde::Serialize;
use serde_json::json;

use super::{create_all, system};

/// What was asked for.
const LIMIT_MS: f64 = 200.0;
const PATIENCE: Duration = Duration::from_mins(2);
const QUEUE: &str = "busy";

/// What it took.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    groups: u32,
    times: usize,
    median_ms: f64,
    worst_ms: f64,
    limit_ms: f64,
}

/// Fills a queue with PodGroups, then adds one after the other and waits for the counter each time.
pub(super) async fn measure(groups: u32, times: u32) -> anyhow::Result<Report> {
    let (system, _folder) = system(false).await?;
    let client = system.inside_client();
    let queues: Api<Queue> = Api::all(client.clone());
    let queue = json!({
        "apiVersion": resource_kind::QUEUE.api_version, "kind": resource_kind::QUEUE.kind, "metadata": {"name": QUEUE}, "spec": {"weight": 1},
    });
    create_all(&queues, vec![serde_json::from_value(queue)?]).await?;
    let api: Api<PodGroup> = Api::default_namespaced(client.clone());
    let all = (0..groups).map(manifest).collect::<Result<Vec<_>, _>>()?;
    create_all(&api, all).await?;
    let parameters = WatchParams::default()
        .fields(&format!("metadata.name={QUEUE}"))
        .timeout(290);
    let mut watch = Box::pin(queues.watch(&parameters, "0").await?);
    let mut waits = Vec::new();
    for number in groups..=groups.saturating_add(times) {
        let begun = Instant::now();
        if number > groups {
            create_all(&api, vec![manifest(number - 1)?]).await?;
        }
        let counted = async {
            loop {
                let event = watch.try_next().await?.context("the watch ended")?;
                let (WatchEvent::Added(queue) | WatchEvent::Modified(queue)) = event else {
                    continue;
                };
                if queue
                    .status
                    .is_some_and(|status| i64::from(status.unknown) == i64::from(number))
                {
                    return anyhow::Ok(());
                }
            }
        };
        tokio::time::timeout(PATIENCE, counted)
            .await
            .with_context(|| format!("the counter is not {number} after {PATIENCE:?}"))??;
        if number > groups {
            waits.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    system.stop().await?;
    waits.sort_by(f64::total_cmp);
    Ok(Report {
        groups,
        times: waits.len(),
        median_ms: waits.get(waits.len() / 2).copied().unwrap_or_default(),
        worst_ms: waits.last().copied().unwrap_or_default(),
        limit_ms: LIMIT_MS,
    })
}

fn manifest(index: u32) -> anyhow::Result<PodGroup> {
    Ok(serde_json::from_value(json!({
        "apiVersion": resource_kind::POD_GROUP.api_version, "kind": resource_kind::POD_GROUP.kind, "metadata": {"name": format!("group-{index}")},
        "spec": {"queue": QUEUE, "minMember": 1},
    }))?)
}

/// For people.
pub(super) fn print(report: &Report) {
    println!(
        "  one PodGroup more in a queue of {}, until its counter says so   median {:.0} ms, worst of {} {:.0} ms   (limit {:.0} ms)",
        report.groups, report.median_ms, report.times, report.worst_ms, report.limit_ms
    );
}
