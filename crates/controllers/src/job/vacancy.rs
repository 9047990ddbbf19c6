//! Places whose pods were taken away, while a policy waits whether somebody runs there again.
//!
//! The pod is gone and its successor is like any other, so the Job's status says since when the place is vacant: then the
//! wait goes on over a restart of the controllers. It is over when the successor runs, or when the policy has had its say.

use basalt_api::Job;
use basalt_api::job::{JobStatus, Vacancy};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::JobView;
use super::census::{Census, TaskCensus, place, wanted};
use super::{policy, restart, runs};

/// Vacancies that a status tells of at most; for what is beyond, a successor that waits for long is what policies see.
const VACANCIES_MAX: usize = 1_000;

/// Notes the places that have become vacant, and forgets those that are not any more.
pub(crate) fn note(view: &JobView<'_>, census: &Census<'_>, status: &mut JobStatus, now: Timestamp) {
    let job = view.job;
    if !runs(status.state.phase.unwrap_or_default()) {
        return;
    }
    let mut vacancies = std::mem::take(&mut status.vacancies);
    vacancies.retain(|vacancy| still_vacant(job, census, vacancy));
    for (at, (task, counted)) in job.spec.tasks.iter().zip(&census.tasks).enumerate() {
        if !policy::waits_for_successors(job, at) {
            continue;
        }
        let lost = counted.lost(view, status, at).into_iter();
        let known = |index: u32| vacancies.iter().any(|vacancy| is_at(vacancy, &task.name, index));
        let fresh: Vec<Vacancy> = lost
            .filter(|index| !known(*index))
            .filter_map(|index| Vacancy::new(&task.name, index, Time(now)))
            .collect();
        let room = VACANCIES_MAX.saturating_sub(vacancies.len());
        vacancies.extend(fresh.into_iter().take(room));
    }
    status.vacancies = vacancies;
}

/// Forgets the places that a new run, or a restart that has just begun, fills anyway.
pub(crate) fn settle(job: &Job, status: &mut JobStatus, version_before: i32) {
    if status.version != version_before {
        status.vacancies.clear();
        return;
    }
    let (restarts, retry) = (&status.restarts, status.retry_count);
    status.vacancies.retain(|vacancy| {
        let task = job.spec.tasks.iter().find(|task| task.name == vacancy.task);
        let at = task.zip(index(vacancy)).map(|(task, index)| place(task, index));
        let mut begun = restarts.iter().filter(|restart| restart.retry == retry);
        at.is_some_and(|at| !begun.any(|restart| restart::covers(restart, at)))
    });
}

/// Whether the status tells of this place.
pub(crate) fn is_noted(status: &JobStatus, task: &str, index: u32) -> bool {
    status.vacancies.iter().any(|vacancy| is_at(vacancy, task, index))
}

/// The vacant places of a task, each with the time since when.
pub(crate) fn of_task(status: &JobStatus, task: &str) -> impl Iterator<Item = (u32, Timestamp)> {
    let of_task = status.vacancies.iter().filter(move |vacancy| vacancy.task == task);
    of_task.filter_map(|vacancy| Some((index(vacancy)?, vacancy.since.as_ref()?.0)))
}

fn index(vacancy: &Vacancy) -> Option<u32> {
    u32::try_from(vacancy.index).ok()
}

fn is_at(vacancy: &Vacancy, task: &str, at: u32) -> bool {
    vacancy.task == task && index(vacancy) == Some(at)
}

fn still_vacant(job: &Job, census: &Census<'_>, vacancy: &Vacancy) -> bool {
    let mut tasks = job.spec.tasks.iter().zip(&census.tasks).enumerate();
    let found = tasks.find(|(_, (task, _))| task.name == vacancy.task);
    let (Some((at, (task, counted))), Some(index)) = (found, index(vacancy)) else {
        return false;
    };
    let runs = |counted: &TaskCensus<'_>| counted.present.get(&index).is_some_and(|pod| pod.ready);
    index < wanted(task) && policy::waits_for_successors(job, at) && !runs(counted)
}
