//! Queues: `root` and `default` exist, the state is derived, the counters are those of the facts.

use basalt_api::job::JobPhase;
use basalt_api::podgroup::PodGroupPhase;
use basalt_api::preserved::merge_patch;
use basalt_api::queue::{QueueSpec, QueueState, QueueStatus, WantedState};
use basalt_api::{Job, PodGroup, Queue, names};
use serde_json::json;

use crate::change::{Change, EventType, Outcome};
use crate::object;

/// A PodGroup of a queue, and its pods.
#[derive(Clone, Copy, Debug)]
pub struct GroupFacts<'a> {
    /// The group.
    pub group: &'a PodGroup,
    /// Pods that exist.
    pub pods: usize,
    /// Those of them that have not ended.
    pub living: usize,
}

/// What one queue's controller looks at.
#[derive(Clone, Debug)]
pub struct QueueView<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// The queues above it, in any order.
    pub ancestors: Vec<&'a Queue>,
    /// The queues directly below it.
    pub children: Vec<&'a Queue>,
    /// The Jobs that name it.
    pub jobs: Vec<&'a Job>,
    /// The PodGroups that name it.
    pub groups: Vec<GroupFacts<'a>>,
}

/// Creates `root` and `default` where they do not exist.
pub fn bootstrap(exists: impl Fn(&str) -> bool) -> Outcome {
    let missing = [names::ROOT_QUEUE, names::DEFAULT_QUEUE]
        .into_iter()
        .filter(|name| !exists(name));
    let changes = missing.filter_map(|name| object::create(&standard(name))).collect();
    Outcome { changes, wake_at: None }
}

fn standard(name: &str) -> Queue {
    let root = name == names::ROOT_QUEUE;
    let spec = QueueSpec {
        state: Some(WantedState::Open),
        reclaimable: Some(!root),
        parent: if root {
            String::new()
        } else {
            names::ROOT_QUEUE.to_owned()
        },
        ..QueueSpec::default()
    };
    Queue::new(name, spec)
}

/// Brings the status of a queue in line: state and counters, nothing that the scheduler writes.
pub fn reconcile(view: &QueueView<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let old = view.queue.status.clone().unwrap_or_default();
    let state = state(view);
    let new = QueueStatus {
        state: Some(state),
        ..counted(view, &old)
    };
    let stored = view.queue.status.as_ref().map_or(json!({}), object::value);
    let (Some(target), Some(merge)) = (object::target(view.queue), merge_patch(&stored, &object::value(&new))) else {
        return outcome;
    };
    let uid = view.queue.metadata.uid.clone();
    let changed = old.state.unwrap_or(QueueState::Open) != state;
    outcome.changes.push(Change::Patch {
        target: target.clone(),
        subresource: Some("status".to_owned()),
        uid: uid.clone(),
        resource_version: None,
        merge: json!({ "status": merge }),
    });
    if let (Some(uid), true) = (uid, changed) {
        outcome.changes.push(event(view, target, uid, state));
    }
    outcome
}

fn event(view: &QueueView<'_>, regarding: crate::Target, uid: String, state: QueueState) -> Change {
    let by = wanted_closed_by(view).map(|by| by.metadata.name.as_deref().unwrap_or_default());
    let (reason, message) = match (state, by) {
        (QueueState::Open, _) => ("OpenQueue", "Queue is open".to_owned()),
        (QueueState::Closing, Some(by)) => (
            "CloseQueue",
            format!("Queue is closing, asked for by spec.state of queue {by}; what it has runs to its end"),
        ),
        (_, _) => ("CloseQueue", "Queue is closed and empty".to_owned()),
    };
    Change::Event {
        regarding,
        uid,
        reason: reason.to_owned(),
        message,
        event_type: EventType::Normal,
    }
}

/// The queue, itself or above, whose spec asks for this one to be closed.
fn wanted_closed_by<'a>(view: &QueueView<'a>) -> Option<&'a Queue> {
    // The root cannot be closed, whatever was written into it.
    let closes = |queue: &&Queue| queue.wants_closed() && queue.metadata.name.as_deref() != Some(names::ROOT_QUEUE);
    std::iter::once(view.queue)
        .chain(view.ancestors.iter().copied())
        .find(closes)
}

fn state(view: &QueueView<'_>) -> QueueState {
    if wanted_closed_by(view).is_none() {
        return QueueState::Open;
    }
    let closed = |queue: &&Queue| queue.status.as_ref().and_then(|status| status.state) == Some(QueueState::Closed);
    let empty = view.jobs.iter().all(|job| job.phase().is_finished())
        && view.groups.iter().all(is_done)
        && view.children.iter().all(closed);
    if empty { QueueState::Closed } else { QueueState::Closing }
}

/// A group is done when it says so or when all the pods it had have ended; none of them may live.
fn is_done(facts: &GroupFacts<'_>) -> bool {
    let completed = facts.group.status.as_ref().and_then(|status| status.phase) == Some(PodGroupPhase::Completed);
    facts.living == 0 && (completed || facts.pods > 0)
}

fn counted(view: &QueueView<'_>, old: &QueueStatus) -> QueueStatus {
    let mut status = QueueStatus {
        unknown: 0,
        pending: 0,
        running: 0,
        inqueue: 0,
        completed: 0,
        failed: 0,
        aborted: 0,
        ..old.clone()
    };
    let inqueue = inqueue_jobs(view);
    for job in &view.jobs {
        let counter = match job.phase() {
            JobPhase::Pending if object::uid(*job).is_some_and(|uid| inqueue.contains(uid)) => &mut status.inqueue,
            JobPhase::Pending => &mut status.pending,
            JobPhase::Completed => &mut status.completed,
            JobPhase::Failed | JobPhase::Terminated => &mut status.failed,
            JobPhase::Aborted => &mut status.aborted,
            JobPhase::Running
            | JobPhase::Restarting
            | JobPhase::Aborting
            | JobPhase::Completing
            | JobPhase::Terminating => &mut status.running,
        };
        *counter = counter.saturating_add(1);
    }
    let foreign = view.groups.iter().filter(|facts| job_of(facts.group).is_none()).count();
    status.unknown = i32::try_from(foreign).unwrap_or(i32::MAX);
    status
}

/// Uids of the Jobs whose group is let in and waits for nodes.
fn inqueue_jobs<'a>(view: &QueueView<'a>) -> std::collections::BTreeSet<&'a str> {
    let phase = |group: &PodGroup| group.status.as_ref().and_then(|status| status.phase);
    let waiting = view
        .groups
        .iter()
        .filter(|facts| phase(facts.group) == Some(PodGroupPhase::Inqueue));
    waiting.filter_map(|facts| job_of(facts.group)).collect()
}

/// Uid of the Volcano Job that a group belongs to.
fn job_of(group: &PodGroup) -> Option<&str> {
    let owner = object::controller(&group.metadata)?;
    let is_job = owner.kind == "Job" && owner.api_version.starts_with(names::BATCH_GROUP);
    is_job.then_some(owner.uid.as_str())
}
