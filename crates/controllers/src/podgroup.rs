//! PodGroups for plain pods: every pod that we schedule belongs to one.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::podgroup::{NetworkTopology, PodGroupSpec, TopologyMode};
use basalt_api::quantity::ResourceList;
use basalt_api::resource_kind::split_api_version;
use basalt_api::slim::Pod;
use basalt_api::{ObjectRef, PodGroup, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use crate::change::{Change, Outcome};
use crate::object;
use crate::usage;

/// What the controller of one plain pod looks at.
#[derive(Clone, Debug)]
pub struct PodView<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The PodGroup with the [`group_name`] of the pod.
    pub group: Option<&'a PodGroup>,
    /// Annotations of the pod's controller (ReplicaSet, StatefulSet, …), where they are known.
    pub owner_annotations: Option<&'a BTreeMap<String, String>>,
    /// Names of the schedulers whose pods are ours.
    pub schedulers: &'a BTreeSet<String>,
}

/// Name of the PodGroup that a plain pod gets: one for all pods of a controller, else its own.
/// Nothing for a pod that was never stored.
pub fn group_name(pod: &Pod) -> Option<String> {
    let owner = object::controller(&pod.metadata).map(|owner| owner.uid.as_str());
    owner.or(pod.metadata.uid.as_deref()).map(names::plain_pod_group)
}

/// Whether a pod that has no node is this controller's: it has no group, or the group that it was given here, which
/// somebody may have deleted since.
pub fn concerns(pod: &Pod, schedulers: &BTreeSet<String>) -> bool {
    is_ours(pod, schedulers)
        && (pod.pod_group().is_none_or(str::is_empty) || is_marked(pod))
        && pod.spec.node_name.is_empty()
        && !pod.is_finished()
        && !pod.is_deleting()
}

/// Whether a pod is one of these schedulers'.
pub(crate) fn is_ours(pod: &Pod, schedulers: &BTreeSet<String>) -> bool {
    let scheduler = match pod.spec.scheduler_name.as_str() {
        "" => names::DEFAULT_SCHEDULER_NAME,
        name => name,
    };
    schedulers.contains(scheduler)
}

/// Whether a pod carries the name of the group that it gets here. The group of a Job that is itself named `podgroup`
/// looks the same, and is its controller's.
pub(crate) fn is_marked(pod: &Pod) -> bool {
    let of_job = object::controller(&pod.metadata)
        .is_some_and(|owner| split_api_version(&owner.api_version).0 == names::BATCH_GROUP && owner.kind == "Job");
    !of_job
        && pod
            .pod_group()
            .is_some_and(|name| group_name(pod).as_deref() == Some(name))
}

/// Gives a plain pod its PodGroup, again if need be.
pub fn reconcile(view: &PodView<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let pod = view.pod;
    let (Some(name), true) = (group_name(pod), concerns(pod, view.schedulers)) else {
        return outcome;
    };
    match view.group {
        None => outcome.changes.extend(object::create(&group(view, &name))),
        Some(known) => outcome.changes.extend(follow(view, known)),
    }
    if is_marked(pod) {
        return outcome;
    }
    outcome.changes.extend(ObjectRef::of(pod).map(|target| Change::Patch {
        target,
        subresource: None,
        uid: pod.metadata.uid.clone(),
        resource_version: None,
        merge: json!({ "metadata": { "annotations": { names::GROUP_NAME: name } } }),
    }));
    outcome
}

/// What the owner says about the size of the group may come, or change, after the first of its pods.
fn follow(view: &PodView<'_>, group: &PodGroup) -> Option<Change> {
    view.owner_annotations?.get(names::GROUP_MIN_MEMBER)?;
    let wanted = spec(view);
    if group.spec.min_member == wanted.min_member || group.metadata.deletion_timestamp.is_some() {
        return None;
    }
    Some(Change::Patch {
        target: ObjectRef::of(group)?,
        subresource: None,
        uid: group.metadata.uid.clone(),
        resource_version: None,
        merge: json!({ "spec": { "minMember": wanted.min_member, "minResources": wanted.min_resources } }),
    })
}

/// A controller that was scaled to nothing needs no group, once its pods are gone.
pub fn retire(group: Option<&PodGroup>, pods: usize) -> Outcome {
    let group = group.filter(|_| pods == 0);
    Outcome {
        changes: group.and_then(object::delete).into_iter().collect(),
        ..Outcome::default()
    }
}

fn group(view: &PodView<'_>, name: &str) -> PodGroup {
    let pod = view.pod;
    let owners = if object::controller(&pod.metadata).is_some() {
        pod.metadata.owner_references.clone()
    } else {
        // A lone pod owns its group, which then goes with it.
        object::owned_by(pod)
    };
    let copy = |from: &Option<BTreeMap<String, String>>, keys: &[&str]| -> BTreeMap<String, String> {
        let kept = from.iter().flatten().filter(|(key, _)| keys.contains(&key.as_str()));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let inherited = view.owner_annotations.into_iter().flatten();
    let inherited = inherited.filter(|(key, _)| key.starts_with(names::INHERITED_PREFIX));
    let mut annotations: BTreeMap<String, String> =
        inherited.map(|(key, value)| (key.clone(), value.clone())).collect();
    annotations.extend(copy(
        &pod.metadata.annotations,
        &[
            names::PREEMPTABLE,
            names::COOLDOWN_TIME,
            names::REVOCABLE_ZONE,
            names::JDB_MIN_AVAILABLE,
            names::JDB_MAX_UNAVAILABLE,
        ],
    ));
    let labels = copy(&pod.metadata.labels, &[names::PREEMPTABLE, names::COOLDOWN_TIME]);
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: pod.metadata.namespace.clone(),
        owner_references: owners,
        annotations: Some(annotations).filter(|map| !map.is_empty()),
        labels: Some(labels).filter(|map| !map.is_empty()),
        ..ObjectMeta::default()
    };
    PodGroup {
        metadata,
        spec: spec(view),
        status: None,
    }
}

fn spec(view: &PodView<'_>) -> PodGroupSpec {
    let pod = view.pod;
    let written = view
        .owner_annotations
        .and_then(|annotations| annotations.get(names::GROUP_MIN_MEMBER));
    let min_member = written.and_then(|text| text.parse::<u16>().ok()).unwrap_or(1);
    let mut min_resources = ResourceList::new();
    usage::add(&mut min_resources, &usage::of_pod(&pod.spec), u64::from(min_member));
    let queue = pod.annotation(names::QUEUE_NAME).filter(|queue| !queue.is_empty());
    PodGroupSpec {
        min_member: i32::from(min_member),
        queue: queue.unwrap_or(names::DEFAULT_QUEUE).to_owned(),
        priority_class_name: pod.spec.priority_class_name.clone(),
        min_resources: Some(min_resources).filter(|resources| !resources.is_empty()),
        network_topology: topology(pod),
        ..PodGroupSpec::default()
    }
}

/// An unknown mode counts as hard: better to wait than to run where it was not wanted.
fn topology(pod: &Pod) -> Option<NetworkTopology> {
    let mode = pod.annotation(names::NETWORK_TOPOLOGY_MODE);
    let tier = pod
        .annotation(names::NETWORK_TOPOLOGY_HIGHEST_TIER)
        .and_then(|tier| tier.parse().ok());
    if mode.is_none() && tier.is_none() {
        return None;
    }
    let mode = if mode == Some("soft") {
        TopologyMode::Soft
    } else {
        TopologyMode::Hard
    };
    Some(NetworkTopology {
        mode,
        highest_tier_allowed: tier,
        ..NetworkTopology::default()
    })
}
