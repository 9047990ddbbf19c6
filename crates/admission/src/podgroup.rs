//! PodGroups: the queue that is filled in. What must hold is the delivery's.

use basalt_api::names;
use serde_json::{Value, json};

use crate::read::{set, text};
use crate::request::Request;
use crate::view::{View, job_owners};

/// No queue means the namespace's queue, else `default`. An unchanged group is left alone, and the
/// group of a Job goes where the Job went.
pub(crate) fn default(request: &Request<'_>, view: &View, group: &mut Value) {
    if !text(group, "/spec/queue").is_empty() && text(group, "/spec/queue") != names::DEFAULT_QUEUE {
        return;
    }
    if let Some(stored) = request.old.map(|old| text(old, "/spec/queue")) {
        if text(group, "/spec/queue").is_empty() && !stored.is_empty() {
            set(group, "/spec", "queue", json!(stored));
        }
        return;
    }
    let of_job = job_owners(group).next().is_some();
    let queue = match view.namespace_queue(request.namespace) {
        queue if of_job || queue.is_empty() => names::DEFAULT_QUEUE,
        queue => queue,
    };
    set(group, "/spec", "queue", json!(queue));
}
