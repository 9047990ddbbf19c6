//! Policies: what has happened to a Job, and what it says should be done then.
//!
//! What happened is read from what is there, not from what was seen to change: a pod that failed while nobody looked
//! has failed all the same. Each happening is answered once, because the answer takes it away: the pod goes, or
//! the version of the Job grows, and what was made for an earlier version does not count.

use basalt_api::Job;
use basalt_api::job::{Action, Event, JobStatus, LifecyclePolicy, TaskSpec};
use basalt_api::podgroup::PodGroupPhase;
use basalt_api::slim::PodPhase;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::JobView;
use super::census::{Census, TaskCensus, wanted};
use super::group::is_replaced;
use super::vacancy;
use crate::pod::PodRecord;

/// Restarts of containers that a task bears, unless told otherwise.
const TASK_MAX_RETRY: i32 = 3;

/// Something that happened.
#[derive(Clone, Debug)]
struct Happening<'a> {
    event: Event,
    exit_code: Option<i32>,
    task: Option<usize>,
    index: Option<u32>,
    /// When, as far as somebody wrote it down.
    at: Option<Timestamp>,
    pod: Option<&'a PodRecord>,
}

/// What has to be done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) action: Action,
    /// The place of the task that it is about, in `spec.tasks`.
    pub(crate) task: Option<usize>,
    /// The pod of that task that it is about.
    pub(crate) index: Option<u32>,
    /// One word.
    pub(crate) reason: String,
    /// A sentence.
    pub(crate) message: String,
}

/// All that is due, and when to look again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Due {
    pub(crate) orders: Vec<Order>,
    pub(crate) wake: Option<Timestamp>,
}

/// What the policies of a Job ask for now.
pub(crate) fn due(view: &JobView<'_>, status: &JobStatus, census: &Census<'_>, now: Timestamp) -> Due {
    let job = view.job;
    let mut due = Due::default();
    if job.spec.policies.is_empty() && job.spec.tasks.iter().all(|task| task.policies.is_empty()) {
        return due;
    }
    for happening in happenings(view, status, census) {
        let Some(policy) = answer(job, &happening) else {
            continue;
        };
        let fires = match policy.timeout {
            None => now,
            Some(timeout) => {
                let Some(at) = happening.at else { continue };
                at.saturating_add(SignedDuration::from_nanos(timeout.as_nanos()))
                    .unwrap_or(Timestamp::MAX)
            }
        };
        if fires > now {
            due.wake = Some(due.wake.map_or(fires, |wake| wake.min(fires)));
        } else {
            due.orders.push(order(job, policy, &happening));
        }
    }
    due
}

/// What the Job says to a change of its spec; `*` does not mean that.
pub(crate) fn on_update(job: &Job) -> Option<Order> {
    let happening = Happening {
        event: Event::JobUpdated,
        exit_code: None,
        task: None,
        index: None,
        at: None,
        pod: None,
    };
    answer(job, &happening).map(|policy| order(job, policy, &happening))
}

/// Whether the Job says anything to the loss of a pod.
pub(crate) fn minds_losses(job: &Job) -> bool {
    let tasks = job.spec.tasks.iter().flat_map(|task| &task.policies);
    let minds = |event: &Event| matches!(event, Event::PodEvicted | Event::Any);
    tasks
        .chain(&job.spec.policies)
        .any(|policy| policy.all_events().any(minds))
}

/// The first policy that fits: the task's come before the job's.
fn answer<'a>(job: &'a Job, happening: &Happening<'_>) -> Option<&'a LifecyclePolicy> {
    let task = happening.task.and_then(|place| job.spec.tasks.get(place));
    let of_task = task.into_iter().flat_map(|task| &task.policies);
    of_task.chain(&job.spec.policies).find(|policy| fits(policy, happening))
}

fn fits(policy: &LifecyclePolicy, happening: &Happening<'_>) -> bool {
    let event = &happening.event;
    let means = |word: &Event| word == event || (*word == Event::Any && *event != Event::JobUpdated);
    // That a pod waits is nothing special; that it waits for long is.
    let counts = *event != Event::PodPending || policy.timeout.is_some();
    let by_code = policy.exit_code.is_some() && policy.exit_code == happening.exit_code;
    by_code || (counts && policy.all_events().any(means))
}

fn happenings<'a>(view: &JobView<'a>, status: &JobStatus, census: &Census<'a>) -> Vec<Happening<'a>> {
    let mut all = Vec::new();
    for (place, counted) in census.tasks.iter().enumerate() {
        let of_pods = counted.present.iter().filter_map(|(index, pod)| {
            let (event, exit_code) = of_pod(status, pod)?;
            Some(Happening {
                event,
                exit_code,
                task: Some(place),
                index: Some(*index),
                at: Some(pod.since),
                pod: Some(pod),
            })
        });
        all.extend(of_pods);
        all.extend(losses(view, status, place, counted));
        all.extend(of_task(view.job, status, place, counted));
    }
    all.extend(of_group(view, status));
    all
}

fn of_pod(status: &JobStatus, pod: &PodRecord) -> Option<(Event, Option<i32>)> {
    if pod.version < status.version {
        return None;
    }
    match pod.phase {
        // Who is told to go often fails on the way out: that is no failure of its own.
        _ if pod.deleting => Some((Event::PodEvicted, None)),
        PodPhase::Failed => Some((Event::PodFailed, pod.exit_code.filter(|code| *code != 0))),
        PodPhase::Pending => Some((Event::PodPending, None)),
        _ => None,
    }
}

/// Pods that vanished, and places that wait for a successor since.
fn losses<'a>(
    view: &JobView<'a>,
    status: &JobStatus,
    place: usize,
    counted: &TaskCensus<'a>,
) -> impl Iterator<Item = Happening<'a>> {
    let task = view.job.spec.tasks.get(place).map_or("", |task| task.name.as_str());
    let lost = counted.lost(view, status, place).into_iter();
    let lost = lost.filter(move |index| !vacancy::is_noted(status, task, *index));
    let vacant = vacancy::of_task(status, task).map(|(index, since)| (index, Some(since)));
    let all: Vec<_> = lost.map(|index| (index, None)).chain(vacant).collect();
    all.into_iter().map(move |(index, at)| loss(place, index, at))
}

fn loss<'a>(place: usize, index: u32, at: Option<Timestamp>) -> Happening<'a> {
    Happening {
        event: Event::PodEvicted,
        exit_code: None,
        task: Some(place),
        index: Some(index),
        at,
        pod: None,
    }
}

/// Whether the Job waits a while before it answers the loss of a pod of this task.
pub(crate) fn waits_for_successors(job: &Job, task: usize) -> bool {
    answer(job, &loss(task, 0, None)).is_some_and(|policy| policy.timeout.is_some())
}

fn of_task<'a>(job: &Job, status: &JobStatus, place: usize, counted: &TaskCensus<'a>) -> Option<Happening<'a>> {
    let task = job.spec.tasks.get(place)?;
    let current = || counted.present.values().filter(|pod| pod.version >= status.version);
    let at = || current().map(|pod| pod.since).max();
    let happening = |event| Happening {
        event,
        exit_code: None,
        task: Some(place),
        index: None,
        at: at(),
        pod: None,
    };
    let replicas = wanted(task);
    let succeeded = u32::try_from(counted.tally.succeeded).unwrap_or(0);
    // All that ended before the job was resumed is old news.
    if replicas > 0 && succeeded >= replicas && current().next().is_some() {
        return Some(happening(Event::TaskCompleted));
    }
    is_failing(task, status, counted).then(|| Happening {
        at: status.failing_tasks.get(&task.name).map(|since| since.0),
        ..happening(Event::TaskFailed)
    })
}

/// Pods of this run that have not ended and stay.
fn living<'a, 'b>(status: &'b JobStatus, counted: &'b TaskCensus<'a>) -> impl Iterator<Item = &'b &'a PodRecord> {
    let current = counted.present.values().filter(|pod| pod.version >= status.version);
    current.filter(|pod| !pod.deleting && matches!(pod.phase, PodPhase::Pending | PodPhase::Running))
}

/// Whether the containers of a task were restarted too often.
fn is_failing(task: &TaskSpec, status: &JobStatus, counted: &TaskCensus<'_>) -> bool {
    let max = match task.max_retry {
        0 => TASK_MAX_RETRY,
        max => max,
    };
    let restarts = living(status, counted).fold(0_i32, |sum, pod| sum.saturating_add(pod.restarts));
    max >= 0 && restarts >= max
}

/// Notes since when tasks fail for which a policy waits: the containers only tell of their last restart.
pub(crate) fn note_failing(job: &Job, census: &Census<'_>, status: &mut JobStatus, now: Timestamp) {
    let mut noted = std::mem::take(&mut status.failing_tasks);
    for (at, (task, counted)) in job.spec.tasks.iter().zip(&census.tasks).enumerate() {
        let failed = Happening {
            event: Event::TaskFailed,
            index: None,
            ..loss(at, 0, None)
        };
        let waits = || answer(job, &failed).is_some_and(|policy| policy.timeout.is_some());
        if waits() && is_failing(task, status, counted) {
            let restarted = living(status, counted).filter_map(|pod| pod.restarted).max();
            let since = restarted.and_then(|second| Timestamp::from_second(second.get()).ok());
            let since = noted.remove(&task.name).unwrap_or(Time(since.unwrap_or(now)));
            status.failing_tasks.insert(task.name.clone(), since);
        }
    }
}

fn of_group<'a>(view: &JobView<'a>, status: &JobStatus) -> Option<Happening<'a>> {
    let group = view.pod_group?;
    let phase = group.status.as_ref().and_then(|status| status.phase);
    if phase != Some(PodGroupPhase::Unknown)
        || is_replaced(group, status)
        || group.metadata.deletion_timestamp.is_some()
    {
        return None;
    }
    let conditions = group.status.iter().flat_map(|status| &status.conditions);
    Some(Happening {
        event: Event::Unknown,
        exit_code: None,
        task: None,
        index: None,
        at: conditions
            .filter_map(|condition| condition.last_transition_time.as_ref())
            .map(|time| time.0)
            .max(),
        pod: None,
    })
}

fn order(job: &Job, policy: &LifecyclePolicy, happening: &Happening<'_>) -> Order {
    let task = happening.task.and_then(|place| job.spec.tasks.get(place));
    let about = match (happening.pod, task) {
        (Some(pod), _) => format!("pod {}", pod.key.name),
        (None, Some(task)) => match happening.index {
            Some(index) => format!("pod {index} of task {}", task.name),
            None => format!("task {}", task.name),
        },
        (None, None) => "the job".to_owned(),
    };
    let code = happening
        .exit_code
        .map_or(String::new(), |code| format!(" with exit code {code}"));
    let after = policy
        .timeout
        .map_or(String::new(), |timeout| format!(" and {timeout} passed"));
    let event = &happening.event;
    Order {
        action: policy.action.clone(),
        task: happening.task,
        index: happening.index,
        reason: event.to_string(),
        message: format!("{event} of {about}{code}{after}: {}", policy.action),
    }
}
