//! Counting a Job's pods by task and index.

use std::collections::{BTreeMap, BTreeSet};

use basalt_api::Job;
use basalt_api::job::{Iteration, JobStatus, TaskSpec};
use basalt_api::names;
use basalt_api::slim::PodPhase;

use super::JobView;
use super::restart::{self, Place};
use crate::pod::PodRecord;

/// Pods by what they do. A pod that is being deleted is terminating, whatever its phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) pending: i32,
    pub(crate) running: i32,
    pub(crate) succeeded: i32,
    pub(crate) failed: i32,
    pub(crate) unknown: i32,
    pub(crate) terminating: i32,
}

impl Tally {
    fn count(&mut self, pod: &PodRecord) {
        let counter = match pod.phase {
            _ if pod.deleting => &mut self.terminating,
            PodPhase::Pending => &mut self.pending,
            PodPhase::Running => &mut self.running,
            PodPhase::Succeeded => &mut self.succeeded,
            PodPhase::Failed => &mut self.failed,
            PodPhase::Unknown => &mut self.unknown,
        };
        *counter = counter.saturating_add(1);
    }

    /// Counters that Kubernetes has a pod phase for, without the zeros.
    pub(crate) fn phases(&self) -> BTreeMap<String, i32> {
        let all = [
            ("Pending", self.pending),
            ("Running", self.running),
            ("Succeeded", self.succeeded),
            ("Failed", self.failed),
            ("Unknown", self.unknown),
        ];
        all.into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(phase, count)| (phase.to_owned(), count))
            .collect()
    }
}

/// The wanted pods of one task that exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskCensus<'a> {
    pub(crate) present: BTreeMap<u32, &'a PodRecord>,
    /// Places that pods of an earlier run still hold.
    leaving: BTreeSet<u32>,
    /// Pods with an index beyond the replicas.
    beyond: u32,
    /// The newest generation of the spec that one of those was made for.
    pub(crate) newest_beyond: Option<i64>,
    pub(crate) tally: Tally,
    /// Succeeded, or running with all containers ready.
    pub(crate) ready: i32,
}

/// All pods of a Job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census<'a> {
    /// In the order of `spec.tasks`.
    pub(crate) tasks: Vec<TaskCensus<'a>>,
    /// Sum over the wanted pods; terminating includes the unwanted and the outdated ones.
    pub(crate) tally: Tally,
    /// Own pods of an earlier run.
    pub(crate) outdated: Vec<(Place<'a>, &'a PodRecord)>,
    /// Own pods that nobody wants: index beyond replicas, highest first, or a task that is gone.
    pub(crate) surplus: Vec<&'a PodRecord>,
    /// Pods of others, by name.
    held: BTreeMap<&'a str, &'a PodRecord>,
}

impl<'a> Census<'a> {
    /// Counts. The place of a pod is in its name, which nobody can change.
    pub(crate) fn of(job: &'a Job, uid: &str, status: &JobStatus, pods: &[&'a PodRecord]) -> Self {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let mut places = BTreeMap::new();
        for (place, task) in job.spec.tasks.iter().enumerate() {
            places.entry(task.name.as_str()).or_insert((place, task));
        }
        let mut census = Self {
            tasks: vec![TaskCensus::default(); job.spec.tasks.len()],
            ..Self::default()
        };
        let mut surplus = BTreeMap::new();
        for pod in pods {
            let pod_name = &*pod.key.name;
            if pod.owner.as_deref() != Some(uid) {
                census.held.insert(pod_name, pod);
                continue;
            }
            let Some((task, index)) = split(name, pod_name) else {
                continue;
            };
            match places.get(task) {
                Some((at, task)) if index < wanted(task) => {
                    let place = place(task, index);
                    if restart::is_outdated(status, place, pod) {
                        census.leave(*at, place, pod);
                    } else {
                        census.count(*at, index, pod);
                    }
                }
                found => {
                    let at = found.map_or(usize::MAX, |(at, _)| *at);
                    census.tally.terminating += i32::from(pod.deleting);
                    surplus.insert((at, std::cmp::Reverse(index), pod_name), *pod);
                    if let Some(task) = census.tasks.get_mut(at) {
                        task.beyond = task.beyond.saturating_add(1);
                        task.newest_beyond = task.newest_beyond.max(Some(pod.generation));
                    }
                }
            }
        }
        census.surplus = surplus.into_values().collect();
        census
    }

    fn leave(&mut self, at: usize, place: Place<'a>, pod: &'a PodRecord) {
        self.tally.terminating = self.tally.terminating.saturating_add(1);
        if let Some(task) = self.tasks.get_mut(at) {
            task.leaving.insert(place.index);
        }
        self.outdated.push((place, pod));
    }

    fn count(&mut self, place: usize, index: u32, pod: &'a PodRecord) {
        self.tally.count(pod);
        if let Some(task) = self.tasks.get_mut(place) {
            task.tally.count(pod);
            task.ready += i32::from(pod.ready);
            task.present.insert(index, pod);
        }
    }

    /// All own pods, wanted or not.
    pub(crate) fn own(&self) -> impl Iterator<Item = &'a PodRecord> {
        self.tasks
            .iter()
            .flat_map(|task| task.present.values().copied())
            .chain(self.outdated.iter().map(|(_, pod)| *pod))
            .chain(self.surplus.iter().copied())
    }

    /// Wanted names that pods of others hold and are not about to let go.
    pub(crate) fn blocked(&self, job: &Job) -> Vec<&'a str> {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let is_wanted = |pod_name: &str| {
            split(name, pod_name).is_some_and(|(task_name, index)| {
                let mut tasks = job.spec.tasks.iter();
                tasks.any(|task| task.name == task_name && index < wanted(task))
            })
        };
        let held = self.held.iter().filter(|(_, pod)| !pod.deleting);
        held.map(|(pod_name, _)| *pod_name)
            .filter(|pod_name| is_wanted(pod_name))
            .collect()
    }

    /// Whether the tasks that this one waits for are up.
    pub(crate) fn may_start(&self, job: &Job, task: &TaskSpec) -> bool {
        let Some(depends) = task.depends_on.as_ref().filter(|_| waits_for_others(task)) else {
            return true;
        };
        let up = |name: &String| {
            let mut pairs = job.spec.tasks.iter().zip(&self.tasks);
            pairs
                .find(|(other, _)| other.name == *name)
                .is_none_or(|(other, counted)| counted.ready >= task_min(other))
        };
        match depends.iteration {
            Some(Iteration::Any) => depends.name.iter().any(up),
            Some(Iteration::All) | None => depends.name.iter().all(up),
        }
    }
}

impl<'a> TaskCensus<'a> {
    /// Places whose pods vanished unseen: those that were noted, and, right after a start, as many as the status counts
    /// and nobody finds.
    pub(crate) fn lost(&self, view: &JobView<'a>, status: &JobStatus, at: usize) -> Vec<u32> {
        let Some(task) = view.job.spec.tasks.get(at) else {
            return Vec::new();
        };
        let noted = view.lost.iter().filter_map(|pod| {
            let index = lost_place(view.job, status, pod)
                .filter(|(name, _)| *name == task.name)?
                .1;
            Some(index)
        });
        let mut lost: Vec<u32> = noted.collect();
        if view.unconfirmed {
            let counted = view
                .job
                .status
                .as_ref()
                .and_then(|old| old.task_status_count.get(&task.name));
            let counted: i64 = counted.map_or(0, |counted| counted.phase.values().map(|n| i64::from(*n)).sum());
            let found = self.present.len().saturating_add(self.leaving.len()) as u64;
            let found = i64::try_from(found.saturating_add(u64::from(self.beyond))).unwrap_or(i64::MAX);
            let missing = usize::try_from(counted.saturating_sub(found)).unwrap_or(0);
            lost.extend((0..wanted(task)).filter(|index| !self.holds(*index)).take(missing));
        }
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    fn holds(&self, index: u32) -> bool {
        self.present.contains_key(&index) || self.leaving.contains(&index)
    }

    /// Indices without a pod, lowest first. A name that another's pod holds is left until it is free.
    pub(crate) fn missing<'b>(
        &'b self,
        task: &'b TaskSpec,
        census: &'b Census<'_>,
        job: &'b Job,
    ) -> impl Iterator<Item = u32> + 'b {
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let free = move |index: &u32| {
            census.held.is_empty()
                || !census
                    .held
                    .contains_key(names::job_pod(name, &task.name, *index).as_str())
        };
        (0..wanted(task)).filter(|index| !self.holds(*index)).filter(free)
    }
}

/// Task and index of a pod that is gone, if the job has not let go of it itself.
pub(crate) fn lost_place<'a>(job: &Job, status: &JobStatus, pod: &'a PodRecord) -> Option<(&'a str, u32)> {
    let (name, index) = split(job.metadata.name.as_deref()?, &pod.key.name)?;
    let task = job.spec.tasks.iter().find(|task| task.name == name)?;
    let ours =
        index >= wanted(task) || pod.version < status.version || restart::is_outdated(status, place(task, index), pod);
    (!ours).then_some((name, index))
}

/// The place of the pod of a task with that index.
pub(crate) fn place(task: &TaskSpec, index: u32) -> Place<'_> {
    let size = task.partition_policy.as_ref().map(|policy| policy.partition_size);
    let size = size.and_then(|size| u32::try_from(size).ok());
    Place {
        task: &task.name,
        index,
        partition: size.and_then(|size| index.checked_div(size)),
    }
}

/// How many pods a task wants.
pub(crate) fn wanted(task: &TaskSpec) -> u32 {
    u32::try_from(task.replicas).unwrap_or(0)
}

/// Whether the pods of a task are made only when those of others are up.
pub(crate) fn waits_for_others(task: &TaskSpec) -> bool {
    task.depends_on.as_ref().is_some_and(|depends| !depends.name.is_empty())
}

/// The pods of a task that must run together.
pub(crate) fn task_min(task: &TaskSpec) -> i32 {
    let partitions = task.partition_policy.as_ref();
    let partitioned = partitions.map_or(0, |policy| policy.min_partitions.saturating_mul(policy.partition_size));
    match task.min_available {
        None if partitioned > 0 => partitioned,
        _ => task.min_available(),
    }
}

/// Task and index of the pod name `<job>-<task>-<index>`, written without leading zeros.
fn split<'a>(job: &str, pod: &'a str) -> Option<(&'a str, u32)> {
    let (task, digits) = pod.strip_prefix(job)?.strip_prefix('-')?.rsplit_once('-')?;
    let index: u32 = digits.parse().ok()?;
    (index.to_string() == digits).then_some((task, index))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn the_place_of_a_pod_is_in_its_name() {
        let cases = [
            ("job", "job-task-0", Some(("task", 0))),
            ("job", "job-a-1-12", Some(("a-1", 12))),
            ("job-a", "job-a-b-0", Some(("b", 0))),
            ("job", "job-task-01", None),
            ("job", "job-task-x", None),
            ("job", "jobs-task-0", None),
            ("job", "job-0", None),
            ("job", "job-task-4294967296", None),
        ];
        for (job, pod, expected) in cases {
            assert_eq!(split(job, pod), expected, "{pod}");
        }
    }
}
