//! Closing the top of a tree: how long until every queue in it is Closed, children first.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Context;
use basalt_api::queue::QueueState;
use basalt_api::{Queue, resource_kind};
use futures::{Stream, TryStreamExt};
use kube::api::{Patch, PatchParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde_json::json;

use super::{create_all, system};

/// Children of each queue: 10,000 queues are then five levels.
const CHILDREN: u32 = 10;
/// What was asked for.
const LIMIT_S: f64 = 2.0;
const PATIENCE: Duration = Duration::from_mins(5);

/// What it took.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    queues: u32,
    levels: u32,
    created_s: f64,
    closed_s: f64,
    opened_s: f64,
    limit_s: f64,
}

/// Makes a tree, closes its top, opens it again.
pub(super) async fn measure(queues: u32) -> anyhow::Result<Report> {
    let (system, _folder) = system(false).await?;
    let client = system.inside_client();
    let api: Api<Queue> = Api::all(client.clone());
    let begun = Instant::now();
    let mut levels = 0;
    // Level by level, for a parent has to be there first.
    let (mut from, mut to) = (0, 1);
    while from < queues {
        let level = (from..to.min(queues)).map(manifest).collect::<Result<Vec<_>, _>>()?;
        create_all(&api, level).await?;
        (from, to) = (to, to * CHILDREN + 1);
        levels += 1;
    }
    let created_s = begun.elapsed().as_secs_f64();
    reach(&client, queues, QueueState::Open, None).await?;
    let closed_s = reach(&client, queues, QueueState::Closed, Some("Closed")).await?;
    let opened_s = reach(&client, queues, QueueState::Open, Some("Open")).await?;
    system.stop().await?;
    Ok(Report {
        queues,
        levels,
        created_s,
        closed_s,
        opened_s,
        limit_s: LIMIT_S,
    })
}

fn name(index: u32) -> String {
    format!("tree-{index}")
}

fn manifest(index: u32) -> anyhow::Result<Queue> {
    let parent = index
        .checked_sub(1)
        .map_or("root".to_owned(), |below| name(below / CHILDREN));
    Ok(serde_json::from_value(json!({
        "apiVersion": resource_kind::QUEUE.api_version, "kind": resource_kind::QUEUE.kind, "metadata": {"name": name(index)},
        "spec": {"parent": parent, "weight": 1},
    }))?)
}

/// Asks the top for `wanted`, and watches until all queues of the tree are in `state`; returns the seconds.
async fn reach(client: &Client, queues: u32, state: QueueState, wanted: Option<&str>) -> anyhow::Result<f64> {
    let api: Api<Queue> = Api::all(client.clone());
    let mut watch = Box::pin(api.watch(&WatchParams::default().timeout(290), "0").await?);
    let begun = Instant::now();
    if let Some(wanted) = wanted {
        let patch = json!({"spec": {"state": wanted}});
        api.patch(&name(0), &PatchParams::default(), &Patch::Merge(patch))
            .await?;
    }
    let all = tokio::time::timeout(PATIENCE, until_all(&mut watch, queues as usize, state));
    all.await
        .with_context(|| format!("not all queues are {state:?} after {PATIENCE:?}"))??;
    Ok(begun.elapsed().as_secs_f64())
}

async fn until_all(
    watch: &mut (impl Stream<Item = kube::Result<WatchEvent<Queue>>> + Unpin),
    queues: usize,
    state: QueueState,
) -> anyhow::Result<()> {
    let mut there = BTreeSet::new();
    while there.len() < queues {
        let event = watch.try_next().await?.context("the watch ended")?;
        let (WatchEvent::Added(queue) | WatchEvent::Modified(queue)) = event else {
            continue;
        };
        let name = queue.name_any();
        if !name.starts_with("tree-") {
            continue;
        }
        if queue.status.and_then(|status| status.state) == Some(state) {
            there.insert(name);
        } else {
            there.remove(&name);
        }
    }
    Ok(())
}

/// For people.
pub(super) fn print(report: &Report) {
    println!(
        "  close the top of {} queues in {} levels, until all are Closed   {:>8.2} s   (limit {:.1} s)",
        report.queues, report.levels, report.closed_s, report.limit_s
    );
    println!("  open it again, until all are Open {:>38.2} s", report.opened_s);
    println!("  (making them took {:.1} s)", report.created_s);
}
