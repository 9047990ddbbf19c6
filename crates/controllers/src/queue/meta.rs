//! What the controller notes in a queue's metadata: that it must be asked before the queue goes, and who closed it.

use basalt_api::names;
use serde_json::{Value, json};

use super::{QueueView, is_standard};
use crate::change::Change;
use crate::object;

/// Back-fills the finalizer and keeps the annotation that says that an ancestor closed the queue.
pub(super) fn note(view: &QueueView<'_>) -> Option<Change> {
    let queue = view.queue;
    let meta = &queue.metadata;
    let mut patch = serde_json::Map::new();
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    let held = finalizers.iter().any(|finalizer| finalizer == names::QUEUE_FINALIZER);
    // A list is replaced as a whole: only on the version that was read.
    let mut version = None;
    if !held && !is_standard(queue) {
        let all = finalizers.iter().map(String::as_str).chain([names::QUEUE_FINALIZER]);
        patch.insert("finalizers".to_owned(), all.collect::<Value>());
        version.clone_from(&meta.resource_version);
    }
    if let Some(value) = closed_by_parent(view) {
        patch.insert("annotations".to_owned(), json!({ names::CLOSED_BY_PARENT: value }));
    }
    if patch.is_empty() {
        return None;
    }
    Some(Change::Patch {
        target: object::target(queue)?,
        subresource: None,
        uid: meta.uid.clone(),
        resource_version: version,
        merge: json!({ "metadata": patch }),
    })
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
        target: object::target(view.queue)?,
        subresource: None,
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        merge: json!({ "metadata": { "finalizers": others.collect::<Vec<_>>() } }),
    })
}
