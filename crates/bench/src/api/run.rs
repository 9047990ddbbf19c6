//! One measurement: Jobs in, binds out.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use basalt_api::{names, resource_kind};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube::core::WatchEvent;
use serde::Serialize;
use serde_json::{Value, json};

use super::Shape;
use super::cluster::{Cluster, Events};
use super::meters::{Meters, Reading};
use super::null::Null;
use super::tally::{Seen, Tally};

/// How long the first pod may take: then nobody makes any.
const FIRST_POD_MAX: Duration = Duration::from_mins(1);
/// How long to wait for pods to start after the last was bound; a cluster may have no kubelets.
const START_MAX: Duration = Duration::from_secs(10);
/// How often a long measurement says how far it is.
const PROGRESS: Duration = Duration::from_secs(2);
/// Between two jobs of one pod, so that the cluster is idle.
const PAUSE: Duration = Duration::from_millis(100);
/// Whose jobs these are while there is no decision; no scheduler has this name.
const NULL_SCHEDULER: &str = "basalt-null";

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    /// The scheduler of the cluster.
    Full,
    /// Nobody: node i mod N.
    Null,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Full => "full",
            Self::Null => "null",
        })
    }
}

/// What to do.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) mode: Mode,
    pub(super) shape: Shape,
    pub(super) gang: bool,
    pub(super) submitters: usize,
    pub(super) scheduler: String,
    pub(super) selector: Option<String>,
    pub(super) patience: Duration,
}

impl Plan {
    fn job(&self, queue: &str, index: u32) -> Value {
        let pods = self.shape.pods;
        let selector: serde_json::Map<String, Value> = self
            .selector
            .iter()
            .flat_map(|pairs| pairs.split(','))
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        let mut job = json!({
            "apiVersion": resource_kind::JOB.api_version, "kind": resource_kind::JOB.kind, "metadata": {"name": format!("job-{index}")},
            "spec": {
                "minAvailable": if self.gang { pods } else { 1 }, "schedulerName": self.scheduler, "queue": queue,
                "tasks": [{"name": "worker", "replicas": pods, "template": {"spec": {
                    "restartPolicy": "Never", "nodeSelector": selector,
                    "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
                }}}],
            },
        });
        if self.mode == Mode::Null {
            job["metadata"]["annotations"] = json!({names::SCHEDULER: NULL_SCHEDULER});
        }
        job
    }

    fn words(&self) -> String {
        format!("{}, {}", self.shape, self.mode)
    }
}

/// What a shape took.
pub(super) struct Run {
    pub(super) mode: Mode,
    pub(super) shape: Shape,
    /// First create to last bind.
    pub(super) time: Duration,
    /// First create to the last pod seen.
    pub(super) created: Duration,
    /// From each pod seen to its bind seen.
    pub(super) latencies: Vec<Duration>,
    pub(super) tally: Tally,
    /// What was used until the last bind.
    pub(super) used: Reading,
    /// What was asked of the server until all pods had started.
    pub(super) requests: Option<super::meters::Requests>,
}

/// Measures a shape, and leaves the cluster as it was.
pub(super) async fn shape(cluster: &Cluster, meters: &Meters, plan: &Plan) -> anyhow::Result<Run> {
    let mut follow = Follow::start(cluster, plan).await?;
    let before = meters.read().await?;
    let begun = Instant::now();
    let submitting = submit(cluster, plan);
    let following = follow.until(plan, begun, |tally, total| tally.bound >= total);
    let (submitted, followed) = tokio::join!(submitting, following);
    submitted?;
    followed?;
    let last_bound = follow.tally.last_bound.context("no pod was bound")?;
    let used = meters.read().await?.since(&before);
    let starting = follow.until(plan, begun, |tally, total| tally.started >= total);
    // Without kubelets nothing starts; that is no failure.
    if let Ok(started) = tokio::time::timeout(START_MAX, starting).await {
        started?;
    }
    let requests = meters.read().await?.since(&before).requests;
    let failed = follow.null.as_ref().map_or(0, Null::failed);
    ensure!(failed == 0, "{failed} writes of the null binder failed");
    cluster.delete_jobs().await?;
    cluster.until_empty().await?;
    Ok(Run {
        mode: plan.mode,
        shape: plan.shape,
        time: last_bound.saturating_duration_since(begun),
        created: follow.last_created.unwrap_or(begun).saturating_duration_since(begun),
        latencies: follow.tally.latencies(),
        tally: follow.tally,
        used,
        requests,
    })
}

/// One Job of one pod after the other: the time of each from its create to its bind.
pub(super) async fn one_by_one(cluster: &Cluster, plan: &Plan) -> anyhow::Result<Vec<Duration>> {
    let mut follow = Follow::start(cluster, plan).await?;
    let mut times = Vec::new();
    for index in 0..plan.shape.jobs {
        let job = plan.job(cluster.name(), index);
        let (wanted, begun) = (index as usize + 1, Instant::now());
        let creating = cluster.create_job(&job);
        let following = follow.until(plan, begun, |tally, _| tally.bound >= wanted);
        let (created, followed) = tokio::join!(creating, following);
        created?;
        followed?;
        let bound = follow.tally.last_bound.context("no pod was bound")?;
        times.push(bound.saturating_duration_since(begun));
        let starting = follow.until(plan, begun, |tally, _| tally.started >= wanted);
        if let Ok(started) = tokio::time::timeout(PAUSE * 5, starting).await {
            started?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    cluster.delete_jobs().await?;
    cluster.until_empty().await?;
    Ok(times)
}

async fn submit(cluster: &Cluster, plan: &Plan) -> anyhow::Result<()> {
    stream::iter(0..plan.shape.jobs)
        .map(async |index| cluster.create_job(&plan.job(cluster.name(), index)).await)
        .buffer_unordered(plan.submitters)
        .try_collect::<()>()
        .await
        .context("creating Jobs")
}

/// The one watch, and what it told.
struct Follow {
    watch: Events<Seen>,
    tally: Tally,
    null: Option<Null>,
    last_created: Option<Instant>,
}

impl Follow {
    async fn start(cluster: &Cluster, plan: &Plan) -> anyhow::Result<Self> {
        let null = match plan.mode {
            Mode::Null => Some(Null::start(cluster, plan.shape.pods).await?),
            Mode::Full => None,
        };
        let watch = cluster.watch_pods::<Seen>().await.context("watching pods")?;
        Ok(Self {
            watch,
            tally: Tally::default(),
            null,
            last_created: None,
        })
    }

    /// Takes in events until `done`, given all there should be.
    async fn until(&mut self, plan: &Plan, begun: Instant, done: impl Fn(&Tally, usize) -> bool) -> anyhow::Result<()> {
        let total = plan.shape.total() as usize;
        let mut next_word = Instant::now() + PROGRESS;
        while !done(&self.tally, total) {
            let now = Instant::now();
            ensure!(
                begun.elapsed() < plan.patience,
                "{} of {total} pods were bound within {} s (--timeout)",
                self.tally.bound,
                plan.patience.as_secs()
            );
            ensure!(
                self.tally.created() > 0 || begun.elapsed() < FIRST_POD_MAX,
                "no pod was made: do controllers run, and does a scheduler let the jobs in?"
            );
            if now >= next_word {
                self.say(plan, begun, total);
                next_word = now + PROGRESS;
            }
            let Ok(event) = tokio::time::timeout(PROGRESS, self.watch.next()).await else {
                continue;
            };
            self.take_in(event.context("the watch of pods ended")??)?;
        }
        Ok(())
    }

    fn take_in(&mut self, event: WatchEvent<Seen>) -> anyhow::Result<()> {
        let now = Instant::now();
        match event {
            WatchEvent::Added(pod) => {
                self.last_created = Some(now);
                self.tally.observe(&pod, now);
                if let Some(null) = &mut self.null {
                    null.made(&pod);
                }
            }
            WatchEvent::Modified(pod) => self.tally.observe(&pod, now),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => return Err(anyhow!("the watch of pods: {}", status.message)),
        }
        Ok(())
    }

    fn say(&self, plan: &Plan, begun: Instant, total: usize) {
        let tally = &self.tally;
        eprintln!(
            "{}: {} of {total} pods made, {} bound, {} started ({} s)",
            plan.words(),
            tally.created(),
            tally.bound,
            tally.started,
            begun.elapsed().as_secs()
        );
    }
}
