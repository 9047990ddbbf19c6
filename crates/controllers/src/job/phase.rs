//! The table of phases: what the observed pods make of a Job, as long as nobody acts on it.

use basalt_api::Job;
use basalt_api::job::JobPhase;

use super::census::{Census, Tally, task_min, waits_for_others};

/// A step from one phase to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) phase: JobPhase,
    /// One word, where the phase alone does not say it.
    pub(crate) reason: String,
    /// A sentence with numbers.
    pub(crate) message: String,
}

impl Step {
    pub(crate) fn to(phase: JobPhase) -> Self {
        Self {
            phase,
            reason: String::new(),
            message: String::new(),
        }
    }

    fn failed(reason: &'static str, message: String) -> Self {
        Self {
            phase: JobPhase::Failed,
            reason: reason.to_owned(),
            message,
        }
    }
}

/// The next phase, if the pods call for one.
pub(crate) fn next(phase: JobPhase, job: &Job, retries: i32, census: &Census<'_>) -> Option<Step> {
    let pods = &census.tally;
    match phase {
        JobPhase::Pending => pending(job, pods),
        JobPhase::Running => running(job, census),
        JobPhase::Restarting => restarting(job, retries, pods),
        JobPhase::Aborting if is_still(pods) => Some(Step::to(JobPhase::Aborted)),
        JobPhase::Terminating if is_still(pods) => Some(Step::to(JobPhase::Terminated)),
        JobPhase::Completing if is_still(pods) => Some(Step::to(JobPhase::Completed)),
        _ => None,
    }
}

/// No pod lives any more.
const fn is_still(pods: &Tally) -> bool {
    pods.terminating == 0 && pods.pending == 0 && pods.running == 0 && pods.unknown == 0
}

/// Enough pods have got as far as running.
fn pending(job: &Job, pods: &Tally) -> Option<Step> {
    let begun = pods.running.saturating_add(pods.succeeded).saturating_add(pods.failed);
    (begun > 0 && begun >= job.spec.min_available).then(|| Step::to(JobPhase::Running))
}

fn running(job: &Job, census: &Census<'_>) -> Option<Step> {
    let pods = &census.tally;
    let total = job.total_replicas();
    if total == 0 {
        return None;
    }
    if job.spec.min_success.is_some_and(|min| pods.succeeded >= min) {
        return Some(Step::to(JobPhase::Completed));
    }
    if i64::from(pods.succeeded) + i64::from(pods.failed) == total {
        return Some(ended(job, census));
    }
    let waits = i64::from(pods.pending) > total - i64::from(job.spec.min_available);
    waits.then(|| Step::to(JobPhase::Pending))
}

/// All pods have ended: did enough succeed, in each task and in all?
fn ended(job: &Job, census: &Census<'_>) -> Step {
    let pods = &census.tally;
    let tasks = || job.spec.tasks.iter().zip(&census.tasks);
    // A minimum that has all tasks whole which start by themselves means all of the others, too.
    let alone = tasks().filter(|(task, _)| !waits_for_others(task));
    let task_sum: i64 = alone.map(|(task, _)| i64::from(task_min(task))).sum();
    if i64::from(job.spec.min_available) >= task_sum {
        let short = tasks().find(|(task, counted)| task.replicas > 0 && counted.tally.succeeded < task_min(task));
        if let Some((task, counted)) = short {
            let (name, have, need) = (&task.name, counted.tally.succeeded, task_min(task));
            return Step::failed(
                "TaskFailed",
                format!("{have} pods of task {name} succeeded, {need} must"),
            );
        }
    }
    let need = job.spec.min_success.unwrap_or(job.spec.min_available);
    if pods.succeeded >= need {
        return Step::to(JobPhase::Completed);
    }
    let message = format!(
        "{} pods succeeded and {} failed, {need} must succeed",
        pods.succeeded, pods.failed
    );
    Step::failed("PodsFailed", message)
}

/// The pods of the former run are gone, or going, and there is a try left.
fn restarting(job: &Job, retries: i32, pods: &Tally) -> Option<Step> {
    if retries >= job.spec.max_retry {
        let message = format!("restarted {retries} times, maxRetry is {}", job.spec.max_retry);
        return Some(Step::failed("RetriesExhausted", message));
    }
    let remaining = job.total_replicas() - i64::from(pods.terminating);
    (remaining >= i64::from(job.spec.min_available)).then(|| Step::to(JobPhase::Pending))
}
