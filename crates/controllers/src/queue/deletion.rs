//! The end of a queue, in order: its children, its finished Jobs and PodGroups, then itself. Nothing that has not ended
//! is ever deleted, and nothing because a queue is absent: only a queue that is there and being deleted takes along
//! what is its own.

use super::{QueueView, Remains, is_standard, meta};
use crate::change::Change;
use crate::object;

/// What can be done now; where something has to end first, nothing.
pub(super) fn proceed(view: &QueueView<'_>, remains: &Remains<'_>) -> Vec<Change> {
    // Removed by force: it comes back at once, and all that it holds waits for that.
    if is_standard(view.queue) {
        return meta::release(view).into_iter().collect();
    }
    if !remains.children.is_empty() {
        let empty = remains.children.iter().filter(|(_, settled)| *settled);
        return empty.filter_map(|(child, _)| object::delete_as_seen(*child)).collect();
    }
    if !view.tally.is_idle() {
        return Vec::new();
    }
    if remains.jobs.is_empty() && remains.groups.is_empty() {
        return meta::release(view).into_iter().collect();
    }
    let jobs = remains.jobs.iter().filter_map(|job| object::delete_as_seen(*job));
    let groups = remains.groups.iter().filter_map(|group| object::delete_as_seen(*group));
    jobs.chain(groups).collect()
}

/// What a queue that is being deleted waits for.
pub(super) fn waits_for(view: &QueueView<'_>, remains: &Remains<'_>) -> String {
    let busy = remains.children.iter().find(|(_, settled)| !settled);
    if let Some((child, _)) = busy {
        let name = child.metadata.name.as_deref().unwrap_or_default();
        return format!("{} children are not closed and empty ({name} is one)", view.unsettled);
    }
    match (view.children, view.tally.unfinished()) {
        (0, unfinished) if unfinished.is_empty() => "the objects that it holds go first".to_owned(),
        (0, unfinished) => unfinished,
        (children, _) => format!("{children} children go first"),
    }
}
