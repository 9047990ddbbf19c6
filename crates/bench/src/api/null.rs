//! The null binder: all that a scheduler writes, and no decision.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use basalt_engine::plan::{Bind, Transaction};
use futures::TryStreamExt;
use kube::core::WatchEvent;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::cluster::{Cluster, Versioned};
use super::tally::Seen;
use basalt_runtime::write::binder::Binder;

/// Status writes that may be on their way at once.
const STATUS_IN_FLIGHT: usize = 64;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Group {
    metadata: GroupMetadata,
    status: GroupStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupMetadata {
    name: String,
    resource_version: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct GroupStatus {
    phase: String,
}

impl Versioned for Group {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// Binds the i-th pod that it is shown to node i mod N.
pub(super) struct Null {
    cluster: Cluster,
    binder: Binder,
    size: usize,
    next: usize,
    bound: HashMap<String, usize>,
    permits: Arc<Semaphore>,
    failed: Arc<AtomicUsize>,
    tasks: JoinSet<()>,
}

impl Null {
    /// For Jobs of `size` pods. PodGroups are let in as soon as they are seen, so that their pods are made.
    pub(super) async fn start(cluster: &Cluster, size: u32) -> anyhow::Result<Self> {
        let mut null = Self {
            cluster: cluster.clone(),
            binder: Binder::connect(cluster.client().clone().into()).await?,
            size: size as usize,
            next: 0,
            bound: HashMap::new(),
            permits: Arc::new(Semaphore::new(STATUS_IN_FLIGHT)),
            failed: Arc::default(),
            tasks: JoinSet::new(),
        };
        let groups = cluster.watch_groups::<Group>().await.context("watching PodGroups")?;
        let phases = null.phases();
        null.tasks.spawn(async move {
            let new = groups.try_filter_map(|event| {
                let new = match event {
                    WatchEvent::Added(group) if matches!(group.status.phase.as_str(), "" | "Pending") => Some(group),
                    _ => None,
                };
                std::future::ready(Ok(new))
            });
            // Whoever measures finds out by itself that nothing goes on.
            let _ = new
                .try_for_each_concurrent(STATUS_IN_FLIGHT, async |group| {
                    phases.write(&group.metadata.name, json!({"phase": "Inqueue"})).await;
                    Ok(())
                })
                .await;
        });
        Ok(null)
    }

    fn phases(&self) -> Phases {
        Phases {
            cluster: self.cluster.clone(),
            permits: Arc::clone(&self.permits),
            failed: Arc::clone(&self.failed),
        }
    }

    /// Takes a pod that was just made.
    pub(super) fn made(&mut self, pod: &Seen) {
        let nodes = self.cluster.nodes();
        let Some(node) = nodes.get(self.next % nodes.len().max(1)).filter(|_| !pod.is_bound()) else {
            return;
        };
        self.next += 1;
        let namespace = self.cluster.name();
        let group = pod.group().unwrap_or_default().to_owned();
        let transaction = Transaction {
            pod_group: format!("{namespace}/{group}").into(),
            uid: "".into(),
            spec_hash: 0,
            min_member: 1,
            binds: vec![Bind {
                pod: format!("{namespace}/{}", pod.metadata.name).into(),
                uid: pod.metadata.uid.as_str().into(),
                node: node.as_str().into(),
            }],
            evictions: Vec::new(),
            pipelined: Vec::new(),
            phase: None,
            tally: None,
        };
        let (binder, failed) = (self.binder.clone(), Arc::clone(&self.failed));
        let whole = self.count(&group);
        let phases = self.phases();
        self.tasks.spawn(async move {
            let lost = binder.bind(&transaction).await;
            failed.fetch_add(lost.len(), Ordering::Relaxed);
            if let Some(running) = whole {
                let scheduled =
                    json!({"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"});
                let status = json!({"phase": "Running", "running": running, "conditions": [scheduled]});
                phases.write(&group, status).await;
            }
        });
    }

    /// The size of the group, if this pod is its last.
    fn count(&mut self, group: &str) -> Option<usize> {
        let bound = self.bound.entry(group.to_owned()).or_default();
        *bound += 1;
        (*bound == self.size).then_some(self.size)
    }

    /// How many writes failed so far.
    pub(super) fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }
}

struct Phases {
    cluster: Cluster,
    permits: Arc<Semaphore>,
    failed: Arc<AtomicUsize>,
}

impl Phases {
    async fn write(&self, group: &str, status: serde_json::Value) {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await.ok();
        if self
            .cluster
            .patch_group(group, &json!({"status": status}))
            .await
            .is_err()
        {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}
