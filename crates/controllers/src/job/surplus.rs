//! Pods that the Job itself takes away because it was scaled down.
//!
//! Who scales up again before they are gone wants other pods in their places, and nobody was evicted. So the status says
//! which ones they are before any is deleted, by the generation of the spec that pods are made for, and a crash at any
//! point changes nothing.

use basalt_api::Job;
use basalt_api::job::{JobStatus, Surplus};

use super::census::{Census, wanted};
use super::restart::Place;
use super::runs;
use crate::pod::PodRecord;

/// Whether scaling down took this pod away.
pub(crate) fn takes(surplus: &Surplus, place: Place<'_>, pod: &PodRecord) -> bool {
    surplus.task == place.task
        && i64::from(place.index) >= i64::from(surplus.from)
        && pod.generation < surplus.generation
}

/// Notes what is too many now, and forgets what is gone.
pub(crate) fn note(job: &Job, census: &Census<'_>, status: &mut JobStatus) {
    let tasks = || job.spec.tasks.iter().zip(&census.tasks);
    status.surplus.retain(|noted| {
        let leaving = || census.outdated.iter().any(|(place, pod)| takes(noted, *place, pod));
        let beyond = || tasks().any(|(task, counted)| task.name == noted.task && counted.newest_beyond.is_some());
        leaving() || beyond()
    });
    if !runs(status.state.phase.unwrap_or_default()) {
        return;
    }
    for (task, counted) in tasks() {
        let current = job.metadata.generation.unwrap_or(0);
        // Who was made for this very spec cannot be told from those to come.
        let Some(newest) = counted.newest_beyond.filter(|newest| *newest < current) else {
            continue;
        };
        let from = i32::try_from(wanted(task)).unwrap_or(i32::MAX);
        let generation = newest.saturating_add(1);
        let known = |noted: &Surplus| noted.task == task.name && noted.from <= from && noted.generation >= generation;
        if status.surplus.iter().any(known) {
            continue;
        }
        // What the new one covers is told by it.
        let covered = |noted: &Surplus| noted.task == task.name && noted.from >= from && noted.generation <= generation;
        status.surplus.retain(|noted| !covered(noted));
        status.surplus.push(Surplus {
            task: task.name.clone(),
            from,
            generation,
        });
    }
}
