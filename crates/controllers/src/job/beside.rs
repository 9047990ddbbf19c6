//! What must exist beside the pods: claims, and what plugins want.

use basalt_api::job::JobStatus;
use basalt_api::{Job, NamespacedName, ObjectRef};

use super::JobView;
use super::plugins::{Plugins, Wanted};
use super::volumes;
use crate::change::{Change, EventType, Outcome};
use crate::object;

/// What the status says that the Job has beside its pods.
pub(crate) fn note(job: &Job, plugins: &Plugins, status: &mut JobStatus) {
    let claims = job.spec.volumes.iter().map(|volume| {
        let claim = volumes::claim_name(job, volume);
        (format!("volume-pvc-{claim}"), claim)
    });
    status.controlled_resources = plugins.controlled().into_iter().chain(claims).collect();
}

/// Makes what is missing and brings in line what differs; false: something is in the way, and pods have to wait.
pub(crate) fn keep(view: &JobView<'_>, plugins: &Plugins, outcome: &mut Outcome) -> bool {
    let mut free = true;
    // What is wanted is a function of the spec, and costs O(pods) to write down.
    let noted = view.job.status.as_ref().and_then(|status| status.observed_generation);
    let known = noted.is_some() && noted == view.job.metadata.generation && !view.bereft && !view.unconfirmed;
    if !plugins.is_empty() && !known {
        for wanted in plugins.wanted(view.job, view.entropy) {
            free &= keep_one(view, &wanted, outcome);
        }
    }
    free & keep_claims(view, outcome)
}

fn keep_one(view: &JobView<'_>, wanted: &Wanted, outcome: &mut Outcome) -> bool {
    let target = &wanted.target;
    let key = NamespacedName::new(&target.namespace, &target.name);
    let known = view.beside.and_then(|beside| beside.get(&target.kind, &key));
    let Some(known) = known else {
        outcome.changes.push(Change::Create {
            target: target.clone(),
            object: wanted.object.clone(),
        });
        return true;
    };
    if known.owner.as_deref() == view.job.metadata.uid.as_deref() {
        let patch = wanted.update(known.mark.as_deref());
        outcome.changes.extend(patch.map(|merge| Change::Patch {
            target: target.clone(),
            subresource: None,
            uid: Some(known.uid.to_string()),
            resource_version: None,
            merge: merge.clone(),
        }));
        return true;
    }
    // What an earlier Job of this name left behind goes by itself; what somebody else made is left alone.
    let leftover = known.job.is_some();
    let whose = if leftover { "an earlier job" } else { "somebody else" };
    let what = if leftover {
        "waiting for it to go"
    } else {
        "it is used as it is"
    };
    outcome.changes.extend(warn(
        view.job,
        "PluginError",
        format!("{} {} belongs to {whose}: {what}", target.kind, target.name),
    ));
    !leftover
}

fn keep_claims(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    let Some(beside) = view.beside else { return true };
    let mut free = true;
    for volume in &view.job.spec.volumes {
        let key = NamespacedName::new(
            view.job.metadata.namespace.as_deref().unwrap_or_default(),
            &volumes::claim_name(view.job, volume),
        );
        if beside.get("PersistentVolumeClaim", &key).is_some() {
            continue;
        }
        if volume.volume_claim.is_some() {
            outcome.changes.extend(volumes::make(view.job, volume));
        } else {
            free = false;
            let message = format!(
                "volume claim {} does not exist: the job waits until it is made",
                key.name
            );
            outcome.changes.extend(warn(view.job, "PVCError", message));
        }
    }
    free
}

/// Tells people that something needs their attention.
pub(crate) fn warn(job: &Job, reason: &str, message: String) -> Option<Change> {
    say(job, reason, message, EventType::Warning)
}

/// Tells people something about the Job.
pub(crate) fn say(job: &Job, reason: &str, message: String, event_type: EventType) -> Option<Change> {
    Some(Change::Event {
        regarding: ObjectRef::of(job)?,
        uid: object::uid(job)?.to_owned(),
        reason: reason.to_owned(),
        message,
        event_type,
    })
}
