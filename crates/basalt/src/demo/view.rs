//! What is shown, as plain data.

use std::collections::BTreeMap;
use std::time::Duration;

use basalt_api::job::JobPhase;
use basalt_api::quantity::{Quantity, ResourceList};
use basalt_api::{Job, PodGroup, Queue, names};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::company::Company;
use super::machine::Use;

/// The deepest tree that is shown.
const DEPTH_MAX: usize = 32;

/// Everything on the screen but the output.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) elapsed: Duration,
    pub(super) url: String,
    pub(super) queues: Vec<QueueRow>,
    pub(super) jobs: Vec<JobRow>,
    pub(super) machine: Use,
    /// Given to pods, and all there are.
    pub(super) gpus: (i64, i64),
    /// Pods that run.
    pub(super) pods: usize,
}

/// A queue in the tree.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueueRow {
    pub(super) depth: usize,
    pub(super) name: String,
    /// What its pods hold of what it deserves; more than 1: it borrows.
    pub(super) share: f64,
    /// What its pods hold.
    pub(super) cpu: String,
    pub(super) running: i32,
    pub(super) waiting: i32,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobRow {
    pub(super) name: String,
    pub(super) queue: String,
    pub(super) phase: Option<JobPhase>,
    pub(super) running: i32,
    pub(super) pods: i32,
    /// Seconds since it was made, or how long it took.
    pub(super) age_s: i64,
    /// Why it waits, or how it ended.
    pub(super) reason: String,
}

impl JobRow {
    pub(super) fn is_over(&self) -> bool {
        self.phase.is_some_and(JobPhase::is_finished)
    }

    pub(super) fn phase(&self) -> &'static str {
        self.phase.map_or("", JobPhase::as_str)
    }
}

impl View {
    /// Whether all jobs have ended.
    pub(super) fn is_over(&self) -> bool {
        !self.jobs.is_empty() && self.jobs.iter().all(JobRow::is_over)
    }

    pub(super) async fn read(
        client: &Client,
        company: &Company,
        machine: Use,
        url: &str,
        elapsed: Duration,
    ) -> anyhow::Result<Self> {
        let all = ListParams::default();
        let queues: Api<Queue> = Api::all(client.clone());
        let jobs: Api<Job> = Api::default_namespaced(client.clone());
        let groups: Api<PodGroup> = Api::default_namespaced(client.clone());
        let pods: Api<Pod> = Api::all(client.clone());
        let nodes: Api<Node> = Api::all(client.clone());
        let groups = groups.list(&all).await?.items;
        let found: BTreeMap<String, Job> = jobs
            .list(&all)
            .await?
            .into_iter()
            .map(|job| (job.name_any(), job))
            .collect();
        let pods = pods.list(&all).await?.items;
        let running = |pod: &&Pod| phase(pod) == "Running";
        let now = Timestamp::now();
        let rows = company.job_names().filter_map(|name| found.get(&name));
        Ok(Self {
            elapsed,
            url: url.to_owned(),
            queues: tree(&queues.list(&all).await?.items),
            jobs: rows.map(|job| job_row(job, &groups, now)).collect(),
            machine,
            gpus: gpus(&pods, &nodes.list(&all).await?.items),
            pods: pods.iter().filter(running).count(),
        })
    }
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn units(list: Option<&BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>) -> i64 {
    let text = list.and_then(|list| list.get("nvidia.com/gpu"));
    text.and_then(|text| Quantity::parse(&text.0).ok()?.units().ok())
        .unwrap_or(0)
}

fn gpus(pods: &[Pod], nodes: &[Node]) -> (i64, i64) {
    let bound = |pod: &&Pod| {
        let spec = pod.spec.as_ref();
        spec.is_some_and(|spec| spec.node_name.is_some()) && !matches!(phase(pod), "Succeeded" | "Failed")
    };
    let containers = pods
        .iter()
        .filter(bound)
        .flat_map(|pod| pod.spec.iter().flat_map(|spec| spec.containers.iter()));
    let used = containers.map(|container| {
        let resources = container.resources.as_ref();
        units(resources.and_then(|resources| resources.limits.as_ref()))
    });
    let all = nodes
        .iter()
        .map(|node| units(node.status.as_ref().and_then(|status| status.allocatable.as_ref())));
    (used.fold(0, i64::saturating_add), all.fold(0, i64::saturating_add))
}

/// The queues, each after its parent.
fn tree(queues: &[Queue]) -> Vec<QueueRow> {
    let mut rows = Vec::new();
    let root = queues.iter().filter(|queue| queue.name_any() == names::ROOT_QUEUE);
    for queue in root {
        branch(queues, queue, 0, &mut rows);
    }
    rows
}

fn branch(queues: &[Queue], queue: &Queue, depth: usize, rows: &mut Vec<QueueRow>) {
    let name = queue.name_any();
    let status = queue.status.clone().unwrap_or_default();
    let cpu = |list: &ResourceList| list.get("cpu").copied().unwrap_or(Quantity::ZERO);
    rows.push(QueueRow {
        depth,
        share: status.share.parse().unwrap_or(0.0),
        cpu: cpu(&status.allocated).to_string(),
        running: status.running,
        waiting: status.pending.saturating_add(status.inqueue),
        name: name.clone(),
    });
    let is_child = |child: &&Queue| {
        let parent = child.spec.parent.as_str();
        child.name_any() != names::ROOT_QUEUE && (parent == name || (parent.is_empty() && name == names::ROOT_QUEUE))
    };
    if depth < DEPTH_MAX {
        for child in queues.iter().filter(is_child) {
            branch(queues, child, depth.saturating_add(1), rows);
        }
    }
}

fn job_row(job: &Job, groups: &[PodGroup], now: Timestamp) -> JobRow {
    let status = job.status.clone().unwrap_or_default();
    let seconds = |time: Option<Timestamp>| time.map_or(0, Timestamp::as_second);
    let made = seconds(job.creation_timestamp().map(|time| time.0));
    let phase = status.state.phase;
    let over = phase.is_some_and(JobPhase::is_finished);
    let until = if over {
        seconds(status.state.last_transition_time.as_ref().map(|time| time.0))
    } else {
        now.as_second()
    };
    let uid = job.uid();
    let owned = |group: &&PodGroup| {
        group
            .owner_references()
            .iter()
            .any(|owner| Some(&owner.uid) == uid.as_ref())
    };
    let reasons = groups.iter().find(owned).and_then(|group| group.status.as_ref());
    let reason = reasons
        .and_then(|status| status.reasons.first())
        .map(ToString::to_string);
    let waits = phase.is_none_or(|phase| phase == JobPhase::Pending);
    let reason = match (over, waits) {
        (true, _) if phase != Some(JobPhase::Completed) => {
            format!("{} restarts, then given up", status.retry_count)
        }
        (false, true) => reason.unwrap_or_default(),
        _ => String::new(),
    };
    JobRow {
        name: job.name_any(),
        queue: job.spec.queue.clone(),
        phase,
        running: status.running,
        pods: job
            .spec
            .tasks
            .iter()
            .fold(0, |pods: i32, task| pods.saturating_add(task.replicas)),
        age_s: until.saturating_sub(made).max(0),
        reason,
    }
}
