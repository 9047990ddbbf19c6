//! The pods of a Job.

use std::collections::BTreeMap;

use basalt_api::job::{JobStatus, TaskSpec, TopologyPolicy};
use basalt_api::{Job, ObjectRef, names, resource_kind};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::plugins::Plugins;
use super::volumes;
use crate::change::Change;
use crate::object;

/// Annotations of the Job that its pods carry as well. Of the two budgets the first one wins.
const INHERITED: [&str; 3] = [names::PREEMPTABLE, names::COOLDOWN_TIME, names::REVOCABLE_ZONE];
const BUDGETS: [&str; 2] = [names::JDB_MIN_AVAILABLE, names::JDB_MAX_UNAVAILABLE];

/// What the pods of a Job are made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mould<'a> {
    pub(crate) job: &'a Job,
    /// As it is written before any pod is made.
    pub(crate) status: &'a JobStatus,
    pub(crate) plugins: &'a Plugins,
}

/// Creates the pods of a task with these indices. The task's part is made once and copied.
pub(crate) fn create_all<'a>(
    mould: Mould<'a>,
    task: &'a TaskSpec,
    indices: impl Iterator<Item = u32> + 'a,
) -> impl Iterator<Item = Change> + 'a {
    let job = mould.job;
    let mut indices = indices.peekable();
    let pattern = indices.peek().map(|_| object::value(&pattern(mould, task)));
    let size = task
        .partition_policy
        .as_ref()
        .and_then(|policy| u32::try_from(policy.partition_size).ok());
    indices.filter_map(move |index| {
        let mut pod = pattern.clone()?;
        let meta = pod.get_mut("metadata")?;
        let name = names::job_pod(job.metadata.name.as_deref()?, &task.name, index);
        meta["name"] = json!(name);
        meta["labels"][names::TASK_INDEX] = json!(index.to_string());
        meta["annotations"][names::TASK_INDEX] = json!(index.to_string());
        if let Some(partition) = size.and_then(|size| index.checked_div(size)) {
            meta["labels"][names::PARTITION_ID] = json!(partition.to_string());
        }
        mould.plugins.stamp(task, index, &mut pod);
        Some(create(job, &name, pod))
    })
}

fn create(job: &Job, name: &str, object: Value) -> Change {
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    Change::Create {
        target: ObjectRef::new(resource_kind::POD, namespace, name),
        object,
    }
}

/// What all pods of a task have in common.
fn pattern(mould: Mould<'_>, task: &TaskSpec) -> Pod {
    let Mould { job, status, plugins } = mould;
    let mut shaped = task.template.clone();
    plugins.shape(task, &mut shaped);
    let template = shaped.metadata.unwrap_or_default();
    let metadata = ObjectMeta {
        namespace: job.metadata.namespace.clone(),
        owner_references: object::owned_by(job),
        labels: Some(labels(job, task, template.labels.unwrap_or_default())),
        annotations: Some(annotations(job, status, task, template.annotations.unwrap_or_default())),
        ..ObjectMeta::default()
    };
    let mut spec = shaped.spec.unwrap_or_default();
    volumes::mount(job, &mut spec);
    default_text(&mut spec.scheduler_name, &job.spec.scheduler_name);
    default_text(&mut spec.priority_class_name, &job.spec.priority_class_name);
    Pod {
        metadata,
        spec: Some(spec),
        status: None,
    }
}

fn default_text(text: &mut Option<String>, default: &str) {
    if text.as_deref().unwrap_or_default().is_empty() {
        *text = Some(default.to_owned()).filter(|default| !default.is_empty());
    }
}

type Map = BTreeMap<String, String>;

fn labels(job: &Job, task: &TaskSpec, mut labels: Map) -> Map {
    let meta = &job.metadata;
    let mut put = |key: &str, value: &str| drop(labels.insert(key.to_owned(), value.to_owned()));
    put(names::JOB_NAME, meta.name.as_deref().unwrap_or_default());
    put(names::JOB_NAMESPACE, meta.namespace.as_deref().unwrap_or_default());
    put(names::TASK_SPEC, &task.name);
    put(names::JOB_QUEUE_NAME, &job.spec.queue);
    for key in [names::PREEMPTABLE, names::COOLDOWN_TIME] {
        if let Some(value) = meta.labels.as_ref().and_then(|labels| labels.get(key)) {
            put(key, value);
        }
    }
    labels
}

fn annotations(job: &Job, status: &JobStatus, task: &TaskSpec, mut annotations: Map) -> Map {
    let meta = &job.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let mut put = |key: &str, value: String| drop(annotations.insert(key.to_owned(), value));
    put(names::JOB_NAME, name.to_owned());
    put(names::TASK_SPEC, task.name.clone());
    put(names::JOB_QUEUE_NAME, job.spec.queue.clone());
    put(
        names::GROUP_NAME,
        names::job_pod_group(name, meta.uid.as_deref().unwrap_or_default()),
    );
    put(names::JOB_VERSION, status.version.to_string());
    put(names::JOB_RETRY_COUNT, status.retry_count.to_string());
    put(names::JOB_GENERATION, meta.generation.unwrap_or_default().to_string());
    put(names::TEMPLATE_UID, format!("{name}-{}", task.name));
    if let Some(policy) = task.topology_policy {
        put(names::NUMA_TOPOLOGY_POLICY, numa_word(policy).to_owned());
    }
    let of_job = |key: &&str| meta.annotations.as_ref().and_then(|annotations| annotations.get(*key));
    for (key, value) in INHERITED.iter().filter_map(|key| Some((key, of_job(key)?))) {
        put(key, value.clone());
    }
    if let Some((key, value)) = BUDGETS.iter().find_map(|key| Some((key, of_job(key)?))) {
        put(key, value.clone());
    }
    annotations
}

const fn numa_word(policy: TopologyPolicy) -> &'static str {
    match policy {
        TopologyPolicy::None => "none",
        TopologyPolicy::BestEffort => "best-effort",
        TopologyPolicy::Restricted => "restricted",
        TopologyPolicy::SingleNumaNode => "single-numa-node",
    }
}
