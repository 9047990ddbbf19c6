//! The company's queues and jobs, and what their owners do with them.

use std::time::{Duration, Instant};

use anyhow::Context;
use basalt_api::job::JobPhase;
use basalt_api::{Job, Queue};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::view::View;

const MANIFEST: &str = include_str!("company.yaml");
/// The job that grows and shrinks.
const ELASTIC: &str = "augment";
/// How many workers it gets, and how long after it began to run.
const SIZES: [(Duration, u32); 2] = [(Duration::from_secs(4), 5), (Duration::from_secs(9), 3)];

/// What is shown.
pub(super) struct Company {
    queues: Vec<Queue>,
    jobs: Vec<Job>,
    /// When the elastic job was seen running, and how often its size was changed since.
    elastic: Option<(Instant, usize)>,
}

impl Company {
    pub(super) fn read() -> anyhow::Result<Self> {
        let objects: Vec<Value> = serde_saphyr::from_multiple(MANIFEST).context("the demo's manifest")?;
        let (mut queues, mut jobs) = (Vec::new(), Vec::new());
        for object in objects {
            match object["kind"].as_str() {
                Some("Queue") => queues.push(serde_json::from_value(object)?),
                _ => jobs.push(serde_json::from_value(object)?),
            }
        }
        Ok(Self {
            queues,
            jobs,
            elastic: None,
        })
    }

    /// The jobs' names, in the order in which they are shown.
    pub(super) fn job_names(&self) -> impl Iterator<Item = String> {
        self.jobs.iter().map(ResourceExt::name_any)
    }

    /// Makes what is not there yet.
    pub(super) async fn apply(&self, client: &Client) -> anyhow::Result<()> {
        let params = PostParams::default();
        let queues: Api<Queue> = Api::all(client.clone());
        for queue in &self.queues {
            made(&queue.name_any(), queues.create(&params, queue).await)?;
        }
        let jobs: Api<Job> = Api::default_namespaced(client.clone());
        for job in &self.jobs {
            made(&job.name_any(), jobs.create(&params, job).await)?;
        }
        Ok(())
    }

    /// Gives the elastic job its next size when the time has come.
    pub(super) async fn scale(&mut self, client: &Client, view: &View) -> anyhow::Result<()> {
        let running = |job: &&super::view::JobRow| job.name == ELASTIC && job.phase == Some(JobPhase::Running);
        if view.jobs.iter().find(running).is_none() {
            return Ok(());
        }
        let (since, done) = *self.elastic.get_or_insert((Instant::now(), 0));
        let Some(&(after, size)) = SIZES.get(done) else {
            return Ok(());
        };
        if since.elapsed() < after {
            return Ok(());
        }
        self.elastic = Some((since, done.saturating_add(1)));
        let jobs: Api<Job> = Api::default_namespaced(client.clone());
        let patch = json!([{"op": "replace", "path": "/spec/tasks/0/replicas", "value": size}]);
        let patch = Patch::<()>::Json(serde_json::from_value(patch)?);
        match jobs.patch(ELASTIC, &PatchParams::default(), &patch).await {
            // It may have ended or gone in this very moment: that is no failure of the demo.
            Ok(_) | Err(kube::Error::Api(_)) => Ok(()),
            Err(error) => Err(error).context("scaling the elastic job"),
        }
    }
}

/// What is there already, from an earlier demo on the same data, stays.
fn made<K>(name: &str, outcome: kube::Result<K>) -> anyhow::Result<()> {
    match outcome {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("creating {name}")),
    }
}
