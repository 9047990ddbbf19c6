//! What the controller notes in a queue's metadata: that it must be asked before the queue goes, and who closed it.

use basalt_api::{ObjectRef, Queue, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::conditions::READY;
use super::{QueueView, is_standard};
use crate::change::Change;

/// The annotation waits this long after a queue stopped or began to be ready: when a large tree is closed, ten thousand
/// states come first, for which somebody waits.
const ANNOTATION_PAUSE: SignedDuration = SignedDuration::from_secs(3);

/// What is to be noted.
pub(super) enum Note {
    /// Nothing.
    Nothing,
    /// Something, then.
    At(Timestamp),
    /// This, now.
    Now(Change),
}

/// Back-fills the finalizer at once, and keeps the annotation that says that an ancestor closed the queue.
pub(super) fn note(view: &QueueView<'_>, now: Timestamp) -> Note {
    let finalizer = missing_finalizer(view);
    let annotation = closed_by_parent(view);
    let due = ready_since(view.queue).and_then(|since| since.checked_add(ANNOTATION_PAUSE).ok());
    match (finalizer, annotation, due) {
        (None, None, _) => Note::Nothing,
        (None, Some(_), Some(due)) if now < due => Note::At(due),
        (finalizer, annotation, _) => patch(view, finalizer, annotation).map_or(Note::Nothing, Note::Now),
    }
}

fn patch(view: &QueueView<'_>, finalizer: Option<Value>, annotation: Option<&str>) -> Option<Change> {
    let queue = view.queue;
    let meta = &queue.metadata;
    let mut patch = serde_json::Map::new();
    // A list is replaced as a whole: only on the version that was read.
    let mut version = None;
    if let Some(finalizers) = finalizer {
        patch.insert("finalizers".to_owned(), finalizers);
        version.clone_from(&meta.resource_version);
    }
    if let Some(value) = annotation {
        patch.insert("annotations".to_owned(), json!({ names::CLOSED_BY_PARENT: value }));
    }
    Some(Change::Patch {
        target: ObjectRef::of(queue)?,
        subresource: None,
        uid: meta.uid.clone(),
        resource_version: version,
        merge: json!({ "metadata": patch }),
    })
}

/// The finalizers with ours, where it is not among them.
fn missing_finalizer(view: &QueueView<'_>) -> Option<Value> {
    let finalizers = view.queue.metadata.finalizers.as_deref().unwrap_or_default();
    let held = finalizers.iter().any(|finalizer| finalizer == names::QUEUE_FINALIZER);
    let all = finalizers.iter().map(String::as_str).chain([names::QUEUE_FINALIZER]);
    (!held && !is_standard(view.queue)).then(|| all.collect())
}

/// Since when the queue is ready, or not.
fn ready_since(queue: &Queue) -> Option<Timestamp> {
    let conditions = &queue.status.as_ref()?.conditions;
    let ready = conditions.iter().find(|condition| condition.type_ == READY)?;
    Some(ready.last_transition_time.0)
}

/// The annotation, where it has to change. It is for people and for Volcano's tools: nothing here reads it.
fn closed_by_parent(view: &QueueView<'_>) -> Option<&'static str> {
    let annotations = view.queue.metadata.annotations.as_ref();
    let written = annotations.and_then(|all| all.get(names::CLOSED_BY_PARENT));
    let own = view.queue.metadata.name.as_deref();
    let wanted = view.closed_by.is_some_and(|by| Some(by) != own);
    match written.map(String::as_str) {
        Some("true") => (!wanted).then_some("false"),
        _ => wanted.then_some("true"),
    }
}

/// Lets go of a queue.
pub(super) fn release(view: &QueueView<'_>) -> Option<Change> {
    let meta = &view.queue.metadata;
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == names::QUEUE_FINALIZER) {
        return None;
    }
    let others = finalizers
        .iter()
        .filter(|finalizer| *finalizer != names::QUEUE_FINALIZER);
    Some(Change::Patch {
        target: ObjectRef::of(view.queue)?,
        subresource: None,
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        merge: json!({ "metadata": { "finalizers": others.collect::<Vec<_>>() } }),
    })
}
