//! The status of a Job: counters from the observed pods, and the phases that it went through.

use basalt_api::Job;
use basalt_api::duration::Duration;
use basalt_api::job::{JobCondition, JobPhase, JobStatus, TaskState};
use basalt_api::preserved::merge_patch;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::census::Census;
use super::phase::{self, Step};
use crate::change::Change;
use crate::object;

/// Phases that one look can pass through: Restarting, Pending, Running, an end.
const STEPS_MAX: usize = 4;

/// The status that the pods call for.
pub(crate) fn next(job: &Job, census: &Census<'_>, now: Timestamp) -> JobStatus {
    let old = job.status.clone().unwrap_or_default();
    let mut status = counted(job, census, &old);
    if status.state.phase.is_none() {
        enter(job, &mut status, Step::to(JobPhase::Pending), now);
    }
    for _ in 0..STEPS_MAX {
        let here = status.state.phase.unwrap_or_default();
        let Some(step) = phase::next(here, job, status.retry_count, census) else {
            break;
        };
        enter(job, &mut status, step, now);
    }
    status
}

fn counted(job: &Job, census: &Census<'_>, old: &JobStatus) -> JobStatus {
    let pods = &census.tally;
    let mut status = JobStatus {
        min_available: job.spec.min_available,
        pending: pods.pending,
        running: pods.running,
        terminating: pods.terminating,
        unknown: pods.unknown,
        ..old.clone()
    };
    // A finished job remembers how it ended when its pods are cleaned away.
    let finished = old.state.phase.is_some_and(JobPhase::is_finished);
    let forgets = pods.succeeded.saturating_add(pods.failed) < old.succeeded.saturating_add(old.failed);
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
    status
}

/// Enters a phase. Its time is kept until it is left, whatever the counters do.
fn enter(job: &Job, status: &mut JobStatus, step: Step, now: Timestamp) {
    let time = Some(Time(now));
    status.state.phase = Some(step.phase);
    step.reason.clone_into(&mut status.state.reason);
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
        target: object::target(job)?,
        subresource: Some("status".to_owned()),
        uid: job.metadata.uid.clone(),
        resource_version: job.metadata.resource_version.clone(),
        merge: json!({ "status": merge }),
    })
}
