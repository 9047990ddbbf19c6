//! What the controllers keep of a pod: with a hundred thousand of them, everything that nobody reads adds up.

use std::collections::BTreeSet;
use std::num::{NonZeroI64, NonZeroU64};
use std::sync::Arc;

use basalt_api::slim::{ContainerStatus, Pod, PodPhase};
use basalt_api::{Job, NamespacedName, ObjectRef, names, resource_kind};
use jiff::{SignedDuration, Timestamp};

use crate::cache::Entry;
use crate::change::Change;
use crate::key::Uid;
use crate::object;
use crate::podgroup;
use crate::reservation::site::Footprint;
use crate::words::Words;

/// One pod, in a few words. What many pods have in common is shared.
#[derive(Clone, Debug)]
pub struct PodRecord {
    /// Which pod.
    pub key: Arc<NamespacedName>,
    /// Which incarnation.
    pub uid: Uid,
    revision: Option<NonZeroU64>,
    /// uid of the owner that controls it.
    pub owner: Option<Arc<str>>,
    /// That owner's name, if it is a Job.
    pub job: Option<Arc<str>>,
    /// Name of its PodGroup.
    pub group: Option<Arc<str>>,
    /// The queue that it names.
    pub queue: Option<Arc<str>>,
    /// When what is the case now began: its deletion, its end, or its life.
    pub since: Timestamp,
    /// The version of its Job that it was made for.
    pub version: i32,
    /// How often its Job had been restarted when it was made.
    pub retry: i32,
    /// The generation of its Job's spec that it was made for.
    pub generation: i64,
    /// How often its containers were restarted.
    pub restarts: i32,
    /// When that happened last, in seconds.
    pub restarted: Option<NonZeroI64>,
    /// The first exit code other than 0, or 0 if all containers that ended did so well.
    pub exit_code: Option<i32>,
    /// Its phase.
    pub phase: PodPhase,
    /// It is being deleted.
    pub deleting: bool,
    /// It has succeeded, or runs with all containers ready.
    pub ready: bool,
    /// It carries the name of the group that the podgroup controller gives.
    pub marked: bool,
    /// It is one of our schedulers'.
    pub ours: bool,
    /// It is bound to its node; else that node is being cleared for it.
    pub bound: bool,
    /// The node that it stands on, or is nominated for; a thin pointer, for there is one in every record.
    pub node: Option<Arc<String>>,
    /// What it takes from that node, if it is bound.
    pub footprint: Option<Arc<Footprint>>,
    /// The pod itself, as long as it may need a PodGroup.
    pub plain: Option<Box<Pod>>,
}

impl PodRecord {
    /// What is kept of `pod`, which is known under `key`; pods of `schedulers` may need a PodGroup.
    pub fn new(key: Arc<NamespacedName>, pod: Pod, schedulers: &BTreeSet<String>, words: &mut Words) -> Self {
        let controller = object::controller(&pod.metadata);
        let is_job = |owner: &&_| object::is_a::<Job>(owner);
        let count = |key: &str| pod.annotation(key).and_then(|text| text.parse().ok()).unwrap_or(0);
        let said = |text: &&str| !text.is_empty();
        let queue = [names::QUEUE_NAME, names::JOB_QUEUE_NAME];
        let queue = queue.iter().find_map(|key| pod.annotation(key).filter(said));
        let revision = pod.metadata.resource_version.as_deref();
        let record = Self {
            key,
            uid: Uid::from(pod.metadata.uid.as_deref().unwrap_or_default()),
            revision: revision.and_then(|version| version.parse().ok()),
            owner: controller.map(|owner| words.share(&owner.uid)),
            job: controller.filter(is_job).map(|owner| words.share(&owner.name)),
            group: pod.pod_group().filter(said).map(|group| words.share(group)),
            queue: queue.map(|queue| words.share(queue)),
            since: since(&pod),
            version: count(names::JOB_VERSION),
            retry: count(names::JOB_RETRY_COUNT),
            generation: pod
                .annotation(names::JOB_GENERATION)
                .and_then(|text| text.parse().ok())
                .unwrap_or(0),
            restarts: containers(&pod).fold(0, |sum, status| sum.saturating_add(status.restart_count)),
            restarted: restarted(&pod),
            exit_code: pod.exit_code().or_else(|| exit_code_before(&pod)),
            phase: pod.phase(),
            deleting: pod.is_deleting(),
            ready: is_ready(&pod),
            marked: podgroup::is_marked(&pod),
            ours: podgroup::is_ours(&pod, schedulers),
            bound: said(&pod.spec.node_name.as_str()),
            node: None,
            footprint: None,
            plain: None,
        };
        let plain = podgroup::concerns(&pod, schedulers).then(|| Box::new(lean(pod)));
        Self { plain, ..record }
    }

    /// Whether it has ended.
    pub const fn is_finished(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Deletes this very pod, unless its deletion has begun.
    pub(crate) fn delete(&self) -> Option<Change> {
        let NamespacedName { namespace, name } = &*self.key;
        (!self.deleting).then(|| Change::Delete {
            target: ObjectRef::new(resource_kind::POD, namespace, name),
            uid: self.uid.to_string(),
            resource_version: None,
        })
    }

    /// The key of its PodGroup.
    pub(crate) fn group_key(&self) -> Option<NamespacedName> {
        Some(self.beside(self.group.as_deref()?))
    }

    /// The key of its Job.
    pub(crate) fn job_key(&self) -> Option<NamespacedName> {
        Some(self.beside(self.job.as_deref()?))
    }

    fn beside(&self, name: &str) -> NamespacedName {
        self.key.in_same_namespace(name)
    }
}

impl Entry for PodRecord {
    fn key(&self) -> Arc<NamespacedName> {
        Arc::clone(&self.key)
    }

    fn uid(&self) -> Uid {
        self.uid.clone()
    }

    fn revision(&self) -> Option<u64> {
        self.revision.map(NonZeroU64::get)
    }

    fn is_ending(&self) -> bool {
        self.deleting
    }
}

fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = &pod.status;
    status.init_container_statuses.iter().chain(&status.container_statuses)
}

/// When the last container ended that was started anew.
fn restarted(pod: &Pod) -> Option<NonZeroI64> {
    let ended = containers(pod).filter_map(|status| status.last_state.terminated.as_ref()?.finished_at.as_ref());
    ended.map(|time| time.0.as_second()).max().and_then(NonZeroI64::new)
}

/// The exit code of a pod that did not get beyond its init containers.
fn exit_code_before(pod: &Pod) -> Option<i32> {
    let mut ended = pod.status.init_container_statuses.iter();
    ended.find_map(|status| Some(status.state.terminated.as_ref()?.exit_code).filter(|code| *code != 0))
}

fn is_ready(pod: &Pod) -> bool {
    let statuses = &pod.status.container_statuses;
    match pod.phase() {
        _ if pod.is_deleting() => false,
        PodPhase::Succeeded => true,
        PodPhase::Running => !statuses.is_empty() && statuses.iter().all(|status| status.ready),
        _ => false,
    }
}

fn since(pod: &Pod) -> Timestamp {
    let meta = &pod.metadata;
    let created = meta.creation_timestamp.as_ref().map(|time| time.0);
    if let Some(deletion) = &meta.deletion_timestamp {
        let grace = SignedDuration::from_secs(meta.deletion_grace_period_seconds.unwrap_or(0).max(0));
        return deletion.0.saturating_sub(grace).unwrap_or(deletion.0);
    }
    let ended = || {
        let containers = containers(pod).filter_map(|status| status.state.terminated.as_ref()?.finished_at.as_ref());
        let conditions = pod.status.conditions.iter();
        let conditions = conditions.filter_map(|condition| condition.last_transition_time.as_ref());
        containers.chain(conditions).map(|time| time.0).max()
    };
    let ended = pod.is_finished().then(ended).flatten();
    ended.or(created).unwrap_or_default()
}

/// What the podgroup controller reads.
fn lean(mut pod: Pod) -> Pod {
    pod.status.conditions = Vec::new();
    pod.status.container_statuses = Vec::new();
    pod.status.init_container_statuses = Vec::new();
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its key (about 110 bytes), its place in the cache and in two indexes (about 50), a pod costs some 350 bytes.
    #[test]
    fn a_record_is_small() {
        assert!(size_of::<PodRecord>() <= 192, "{}", size_of::<PodRecord>());
    }
}
