//! The status of a Job: counters from the observed pods, and the phases that it went through.

use basalt_api::duration::Duration;
use basalt_api::job::{JobCondition, JobPhase, JobStatus, TaskState};
use basalt_api::preserved::merge_patch;
use basalt_api::{Job, ObjectRef};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::census::Census;
use super::phase::{self, Step};
use crate::change::Change;
use crate::object;

/// Phases that one look can pass through: Restarting, Pending, Running, an end.
const STEPS_MAX: usize = 4;

/// Counts the pods into `status`, and goes through the phases that they call for.
pub(crate) fn advance(job: &Job, census: &Census<'_>, status: &mut JobStatus, now: Timestamp) {
    count(job, census, status);
    for _ in 0..STEPS_MAX {
        let here = status.state.phase.unwrap_or_default();
        let Some(step) = phase::next(here, job, status.retry_count, census) else {
            break;
        };
        enter(job, status, step, now);
    }
}

fn count(job: &Job, census: &Census<'_>, status: &mut JobStatus) {
    let pods = &census.tally;
    status.min_available = job.spec.min_available;
    status.pending = pods.pending;
    status.running = pods.running;
    status.terminating = pods.terminating;
    status.unknown = pods.unknown;
    // A finished job remembers how it ended when its pods are cleaned away.
    let finished = status.state.phase.is_some_and(JobPhase::is_finished);
    let forgets = pods.succeeded.saturating_add(pods.failed) < status.succeeded.saturating_add(status.failed);
    if !(finished && forgets) {
        status.succeeded = pods.succeeded;
        status.failed = pods.failed;
        let tasks = job.spec.tasks.iter().zip(&census.tasks);
        let counts = tasks.map(|(task, counted)| {
            (
                task.name.clone(),
                TaskState {
                    phase: counted.tally.phases(),
                },
            )
        });
        status.task_status_count = counts.filter(|(_, state)| !state.phase.is_empty()).collect();
    }
}

/// Enters a phase. Its time is kept until it is left, whatever the counters do.
pub(crate) fn enter(job: &Job, status: &mut JobStatus, step: Step, now: Timestamp) {
    let time = Some(Time(now));
    status.state.phase = Some(step.phase);
    status.state.reason = step.reason;
    status.state.message = step.message;
    status.state.last_transition_time.clone_from(&time);
    status.conditions.retain(|condition| condition.status != step.phase);
    status.conditions.push(JobCondition {
        status: step.phase,
        last_transition_time: time,
    });
    if step.phase.is_finished() {
        let created = job.metadata.creation_timestamp.as_ref().map(|time| time.0);
        status.running_duration =
            created.map(|created| Duration::from_secs(now.duration_since(created).as_secs().max(0)));
    }
}

/// The patch from the stored status to this one, if they differ.
pub(crate) fn write(job: &Job, status: &JobStatus) -> Option<Change> {
    let old = job.status.as_ref().map_or(json!({}), object::value);
    let merge = merge_patch(&old, &object::value(status))?;
    Some(Change::Patch {
        target: ObjectRef::of(job)?,
        subresource: Some("status".to_owned()),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        merge: json!({ "status": merge }),
    })
}
