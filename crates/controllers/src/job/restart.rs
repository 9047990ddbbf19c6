//! Which pods are on their way out because of a restart.
//!
//! A restart is one write of the status: the number of tries grows, and the scope is noted. Pods carry the number of tries
//! that their Job had when they were made, so those of an earlier one inside the scope are the ones to go. Nothing
//! has to be remembered besides, and a crash at any point loses nothing.

use basalt_api::job::{JobStatus, Restart};

use super::surplus;
use crate::pod::PodRecord;

/// Where a pod stands in its Job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) task: &'a str,
    pub(crate) index: u32,
    pub(crate) partition: Option<u32>,
}

/// Whether a pod was made for an earlier run, and has to go.
pub(crate) fn is_outdated(status: &JobStatus, place: Place<'_>, pod: &PodRecord) -> bool {
    // Who ended in an earlier run may stay: a job that is resumed goes on where it was.
    let earlier = pod.version < status.version && !pod.is_finished();
    let restarted = || status.restarts.iter().any(|restart| goes(restart, place, pod));
    let scaled = || status.surplus.iter().any(|surplus| surplus::takes(surplus, place, pod));
    earlier || restarted() || scaled()
}

/// Whether a restart takes this pod away.
pub(crate) fn goes(restart: &Restart, place: Place<'_>, pod: &PodRecord) -> bool {
    pod.retry < restart.retry && covers(restart, place)
}

/// Whether a restart is about this place.
pub(crate) fn covers(restart: &Restart, place: Place<'_>) -> bool {
    let within = |scope: Option<i32>, value: Option<u32>| {
        scope.is_none_or(|scope| value.is_some_and(|value| i64::from(value) == i64::from(scope)))
    };
    (restart.task.is_empty() || restart.task == place.task)
        && within(restart.index, Some(place.index))
        && within(restart.partition, place.partition)
}
