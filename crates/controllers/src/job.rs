//! Jobs: a PodGroup, pods by index, and a status that is a function of the observed pods.
//!
//! One call goes through four steps: count the pods ([`census`]), move through the table of phases
//! ([`phase`]), write the status, then make or remove objects as the phase asks. The status goes
//! first and only onto the version of the Job that was seen: a stale view is refused there and
//! creates nothing.

mod census;
mod group;
mod phase;
pub mod plugins;
mod pod;
mod status;

use std::collections::BTreeMap;

use basalt_api::job::JobPhase;
use basalt_api::podgroup::PodGroupPhase;
use basalt_api::{Job, PodGroup};
use jiff::{SignedDuration, Timestamp};

use crate::change::{Change, EventType, Outcome};
use crate::object;
use crate::pod::PodRecord;
use census::Census;

/// What one Job's controller looks at.
#[derive(Clone, Debug)]
pub struct JobView<'a> {
    /// The Job.
    pub job: &'a Job,
    /// The PodGroup named [`basalt_api::names::job_pod_group`], if there is one.
    pub pod_group: Option<&'a PodGroup>,
    /// The pods that the Job controls, by uid. Other pods that hold one of its names (of an earlier Job
    /// of that name, say) may be among them: then nothing is tried until they are gone.
    pub pods: Vec<&'a PodRecord>,
    /// Values of the PriorityClasses.
    pub priorities: &'a BTreeMap<String, i32>,
}

/// Brings pods, PodGroup and status of a Job closer to what it asks for.
pub fn reconcile(view: &JobView<'_>, now: Timestamp) -> Outcome {
    let mut outcome = Outcome::default();
    let job = view.job;
    // Whoever deletes a Job wants nothing more of it; what it owns goes with it.
    if job.metadata.deletion_timestamp.is_some() {
        return outcome;
    }
    let (Some(_), Some(uid)) = (object::target(job), object::uid(job)) else {
        return outcome;
    };
    let census = Census::of(job, uid, &view.pods);
    let status = status::next(job, &census, now);
    let phase = status.state.phase.unwrap_or_default();
    outcome.changes.extend(status::write(job, &status));
    if runs(phase) {
        outcome.changes.extend(group::keep(view, uid));
        keep_pods(view, &census, now, &mut outcome);
    } else {
        stop(view, &census, &mut outcome);
    }
    if phase.is_finished() {
        expire(
            job,
            status.state.last_transition_time.as_ref().map(|time| time.0),
            now,
            &mut outcome,
        );
    }
    outcome
}

/// Whether a Job in this phase has pods made; in all others it only loses them.
const fn runs(phase: JobPhase) -> bool {
    matches!(phase, JobPhase::Pending | JobPhase::Running | JobPhase::Restarting)
}

/// Pods that one call makes at most; the next call goes on.
const CREATES_MAX: usize = 20_000;

/// Makes the missing pods once the group is let in, and removes those that nobody wants.
fn keep_pods(view: &JobView<'_>, census: &Census<'_>, now: Timestamp, outcome: &mut Outcome) {
    if view.pod_group.is_some_and(is_let_in) {
        let before = outcome.changes.len();
        for (task, counted) in view.job.spec.tasks.iter().zip(&census.tasks) {
            if !census.may_start(view.job, task) {
                continue;
            }
            let room = CREATES_MAX.saturating_sub(outcome.changes.len() - before);
            let missing = counted.missing(task, census, view.job).take(room);
            outcome.changes.extend(pod::create_all(view.job, task, missing));
        }
        if outcome.changes.len() - before >= CREATES_MAX {
            outcome.wake(now);
        }
        outcome.changes.extend(warn(view.job, census));
    }
    outcome
        .changes
        .extend(census.surplus.iter().filter_map(|pod| pod.delete()));
}

/// Tells people that pods of others stand in the way.
fn warn(job: &Job, census: &Census<'_>) -> Option<Change> {
    let blocked = census.blocked(job);
    let (first, rest) = blocked.split_first()?;
    let more = match rest.len() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(Change::Event {
        regarding: object::target(job)?,
        uid: object::uid(job)?.to_owned(),
        reason: "FailedCreate".to_owned(),
        message: format!("Pod {first}{more} cannot be made: a pod that is not of this job has that name, delete it"),
        event_type: EventType::Warning,
    })
}

/// The scheduler lets a group in by taking it out of Pending.
fn is_let_in(group: &PodGroup) -> bool {
    let phase = group.status.as_ref().and_then(|status| status.phase);
    group.metadata.deletion_timestamp.is_none() && phase.is_some_and(|phase| phase != PodGroupPhase::Pending)
}

/// Removes the pods that still live, keeps those that ended, and lets go of the group after them,
/// so that what they hold is accounted for until it is free.
fn stop(view: &JobView<'_>, census: &Census<'_>, outcome: &mut Outcome) {
    let living: Vec<&PodRecord> = census.own().filter(|pod| !pod.is_finished()).collect();
    outcome.changes.extend(living.iter().filter_map(|pod| pod.delete()));
    if living.is_empty() {
        outcome.changes.extend(view.pod_group.and_then(object::delete));
    }
}

/// Deletes a finished Job when its time is over, or asks to be called then.
fn expire(job: &Job, finished: Option<Timestamp>, now: Timestamp, outcome: &mut Outcome) {
    let (Some(ttl), Some(finished)) = (job.spec.ttl_seconds_after_finished, finished) else {
        return;
    };
    let end = finished
        .saturating_add(SignedDuration::from_secs(i64::from(ttl.max(0))))
        .unwrap_or(Timestamp::MAX);
    if now < end {
        outcome.wake(end);
    } else {
        outcome.changes.extend(object::delete(job));
    }
}
