//! PodGroups: the queue that is filled in. What must hold is the delivery's.

use basalt_api::names;
use serde_json::{Value, json};

use crate::delivery;
use crate::read::{annotation, set, text};
use crate::request::{Request, View};

/// No queue means the namespace's queue, else `default`. An unchanged group is left alone, and the
/// group of a Job goes where the Job went.
pub(crate) fn default(request: &Request<'_>, view: &dyn View, group: &mut Value) {
    if !text(group, "/spec/queue").is_empty() && text(group, "/spec/queue") != names::DEFAULT_QUEUE {
        return;
    }
    if let Some(stored) = request.old.map(|old| text(old, "/spec/queue")) {
        if text(group, "/spec/queue").is_empty() && !stored.is_empty() {
            set(group, "/spec", "queue", json!(stored));
        }
        return;
    }
    let of_job = delivery::job_owners(group).next().is_some();
    let namespace = if of_job {
        None
    } else {
        view.get("namespaces", "", request.namespace)
    };
    let queue = match namespace
        .as_deref()
        .map(|namespace| annotation(namespace, names::QUEUE_NAME))
    {
        None | Some("") => names::DEFAULT_QUEUE,
        Some(queue) => queue,
    };
    set(group, "/spec", "queue", json!(queue));
}
