//! The PodGroup of a Job.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use basalt_api::job::{JobPhase, JobStatus, TaskSpec};
use basalt_api::podgroup::{PodGroupSpec, SubGroupPolicy};
use basalt_api::preserved::merge_patch;
use basalt_api::quantity::ResourceList;
use basalt_api::slim::PodSpec;
use basalt_api::{Job, ObjectRef, PodGroup, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::json;

use super::JobView;
use super::census::{Census, task_min};
use crate::change::Change;
use crate::object;
use crate::usage;

/// Makes the group, or brings those of its fields in line that follow the Job. One that belongs to an earlier run is let
/// go, once enough of that run's pods are.
pub(crate) fn keep(view: &JobView<'_>, uid: &str, status: &JobStatus, census: &Census<'_>) -> Option<Change> {
    let wanted = spec(view.job, view.priorities);
    let Some(group) = view.pod_group else {
        return object::create(&fresh(view.job, uid, wanted));
    };
    if is_replaced(group, status) {
        let free = census.outdated.is_empty() || status.state.phase != Some(JobPhase::Restarting);
        return free.then(|| object::delete(group)).flatten();
    }
    let kept = PodGroupSpec {
        // Written once: where a group queues and how close its pods must be is settled at its start.
        queue: group.spec.queue.clone(),
        network_topology: group.spec.network_topology.clone(),
        ..wanted
    };
    let merge = merge_patch(&object::value(&group.spec), &object::value(&kept))?;
    Some(Change::Patch {
        target: ObjectRef::of(group)?,
        subresource: None,
        uid: group.metadata.uid.clone(),
        resource_version: None,
        merge: json!({ "spec": merge }),
    })
}

/// Whether a restart of the whole job takes this group along.
pub(crate) fn is_replaced(group: &PodGroup, status: &JobStatus) -> bool {
    let uid = group.metadata.uid.as_deref().unwrap_or_default();
    status.restarts.iter().any(|restart| restart.pod_group == uid)
}

fn fresh(job: &Job, uid: &str, spec: PodGroupSpec) -> PodGroup {
    let mut annotations = job.metadata.annotations.clone().unwrap_or_default();
    // The manifest of the Job says nothing about the group, and is large.
    annotations.remove(names::LAST_APPLIED);
    let metadata = ObjectMeta {
        name: Some(names::job_pod_group(
            job.metadata.name.as_deref().unwrap_or_default(),
            uid,
        )),
        namespace: job.metadata.namespace.clone(),
        labels: job.metadata.labels.clone(),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: object::owned_by(job),
        ..ObjectMeta::default()
    };
    PodGroup {
        metadata,
        spec,
        status: None,
    }
}

fn spec(job: &Job, priorities: &BTreeMap<String, i32>) -> PodGroupSpec {
    let tasks = &job.spec.tasks;
    PodGroupSpec {
        min_member: job.spec.min_available,
        min_task_member: tasks.iter().map(|task| (task.name.clone(), task_min(task))).collect(),
        queue: job.spec.queue.clone(),
        priority_class_name: job.spec.priority_class_name.clone(),
        min_resources: Some(min_resources(job, priorities)).filter(|resources| !resources.is_empty()),
        network_topology: job.spec.network_topology.clone(),
        sub_group_policy: tasks.iter().filter_map(sub_group).collect(),
    }
}

/// The partitions of a task are gangs inside the gang.
fn sub_group(task: &TaskSpec) -> Option<SubGroupPolicy> {
    let policy = task.partition_policy.as_ref()?;
    let labels = BTreeMap::from([(names::TASK_SPEC.to_owned(), task.name.clone())]);
    Some(SubGroupPolicy {
        name: task.name.clone(),
        network_topology: policy.network_topology.clone(),
        sub_group_size: Some(policy.partition_size),
        min_sub_groups: Some(policy.min_partitions),
        label_selector: Some(LabelSelector {
            match_labels: Some(labels),
            ..LabelSelector::default()
        }),
        match_label_keys: vec![names::PARTITION_ID.to_owned()],
    })
}

/// What the first `minAvailable` pods use, tasks of higher priority first. Where the tasks' own
/// minimums fit into it they come first, and the rest is filled up in the same order.
fn min_resources(job: &Job, priorities: &BTreeMap<String, i32>) -> ResourceList {
    let priority = |task: &&TaskSpec| {
        let spec = task.template.spec.as_ref();
        let class = spec
            .and_then(|spec| spec.priority_class_name.as_deref())
            .filter(|class| !class.is_empty());
        priorities
            .get(class.unwrap_or(&job.spec.priority_class_name))
            .copied()
            .unwrap_or(0)
    };
    let mut tasks: Vec<&TaskSpec> = job.spec.tasks.iter().collect();
    tasks.sort_by_key(|task| Reverse(priority(task)));
    let count = |number: i32| u64::try_from(number).unwrap_or(0);
    let min_sum: u64 = tasks.iter().map(|task| count(task_min(task))).sum();
    let whole = count(job.spec.min_available) >= min_sum;
    let mut left = count(job.spec.min_available);
    if whole {
        left -= min_sum;
    }
    let mut total = ResourceList::new();
    for task in tasks {
        let first = if whole { count(task_min(task)) } else { 0 };
        let more = count(task.replicas).saturating_sub(first).min(left);
        left -= more;
        usage::add(&mut total, &pod_usage(task), first + more);
    }
    total
}

/// A template that cannot be read uses nothing; the pod's own admission says what is wrong with it.
fn pod_usage(task: &TaskSpec) -> ResourceList {
    let spec = task
        .template
        .spec
        .as_ref()
        .and_then(|spec| PodSpec::from_full(spec).ok());
    spec.map(|spec| usage::of_pod(&spec)).unwrap_or_default()
}
