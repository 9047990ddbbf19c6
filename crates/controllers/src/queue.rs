//! Queues: `root` and `default` exist, the state is derived, the counters are those of the facts, what is wrong is told,
//! and a queue that is deleted goes in order.

pub mod commands;
pub mod hierarchy;
pub mod tally;

mod conditions;
mod deletion;
mod meta;
mod reserved;

use basalt_api::preserved::merge_patch;
use basalt_api::queue::{QueueSpec, QueueState, QueueStatus, WantedState};
use basalt_api::{Job, ObjectRef, PodGroup, Queue, names};
use jiff::Timestamp;
use serde_json::json;

use crate::change::{Change, EventType, Outcome};
use crate::object;
use crate::reservation::report::Decision;
use hierarchy::{Damage, Excess, Overcommit};
use meta::Note;
pub(crate) use reserved::RESERVATION_MET;
use tally::Tally;

/// What one queue's controller looks at.
#[derive(Clone, Debug)]
pub struct QueueView<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// What it holds.
    pub tally: Tally,
    /// The nearest queue, itself or above, whose spec asks for this one to be closed.
    pub closed_by: Option<&'a str>,
    /// How many queues stand right below it.
    pub children: usize,
    /// How many of those are not closed and empty.
    pub unsettled: usize,
    /// Why it waits because of its place in the tree.
    pub damage: Option<Damage>,
    /// Its children ask for more than it has.
    pub overcommit: Option<&'a Overcommit>,
    /// For `root`: its children ask for more than the cluster has.
    pub shortage: Option<Excess>,
    /// What the last round decided for it; nothing: there was none yet, or it has nothing to do with reservations.
    pub reservation: Option<&'a Decision>,
    /// For a queue that is being deleted, once the watch has shown that: what has to go before it. Nothing comes under a
    /// queue whose deletion has begun, so that all its children are known by then.
    pub remains: Option<Remains<'a>>,
}

/// What has to go before a queue that is being deleted.
#[derive(Clone, Debug, Default)]
pub struct Remains<'a> {
    /// The queues right below it, and whether each is closed and empty.
    pub children: Vec<(&'a Queue, bool)>,
    /// Jobs that name it, some of them.
    pub jobs: Vec<&'a Job>,
    /// PodGroups that name it, some of them.
    pub groups: Vec<&'a PodGroup>,
}

/// Creates `root` and `default` where they do not exist.
pub fn bootstrap(exists: impl Fn(&str) -> bool) -> Outcome {
    let missing = [names::ROOT_QUEUE, names::DEFAULT_QUEUE]
        .into_iter()
        .filter(|name| !exists(name));
    let changes = missing.filter_map(|name| object::create(&standard(name))).collect();
    Outcome {
        changes,
        ..Outcome::default()
    }
}

/// Whether the queue always exists.
fn is_standard(queue: &Queue) -> bool {
    matches!(
        queue.metadata.name.as_deref(),
        Some(names::ROOT_QUEUE | names::DEFAULT_QUEUE)
    )
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

/// Brings a queue in line. Its status goes first, for others wait for that; then, if it is being deleted, what has to go
/// before it; else what is noted in its metadata.
pub fn reconcile(view: &QueueView<'_>, now: Timestamp) -> Outcome {
    let mut outcome = Outcome {
        changes: write_status(view, now),
        ..Outcome::default()
    };
    // The answer to a write brings us here again, with the version that the next write may build on.
    if !outcome.changes.is_empty() {
        return outcome;
    }
    let conditions = view.queue.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let outlook = view.reservation.and_then(|decision| decision.outlook.as_ref());
    if let Some(at) = outlook.and_then(|outlook| reserved::wake(outlook, conditions, now)) {
        outcome.wake(at);
    }
    match &view.remains {
        Some(remains) => outcome.changes = deletion::proceed(view, remains),
        // An answer told of its deletion, and the watch will.
        None if view.queue.metadata.deletion_timestamp.is_some() => {}
        None => match meta::note(view, now) {
            Note::Now(change) => {
                outcome.changes.push(change);
                outcome.unhurried = true;
            }
            Note::At(then) => outcome.wake(then),
            Note::Nothing => {}
        },
    }
    outcome
}

/// State, counters, conditions and reservation; nothing that the scheduler writes. What others wrote into them is repaired.
fn write_status(view: &QueueView<'_>, now: Timestamp) -> Vec<Change> {
    let old = view.queue.status.clone().unwrap_or_default();
    let state = view.state();
    let new = QueueStatus {
        state: Some(state),
        conditions: conditions::next(view, state, &old.conditions, now),
        reservation: match view.reservation {
            Some(decision) => decision.reservation.clone(),
            None => old.reservation.clone(),
        },
        ..counted(&view.tally, &old)
    };
    let stored = view.queue.status.as_ref().map_or(json!({}), object::value);
    let (Some(target), Some(merge)) = (ObjectRef::of(view.queue), merge_patch(&stored, &object::value(&new))) else {
        return Vec::new();
    };
    let uid = view.queue.metadata.uid.clone();
    // Whoever takes a node must still be where it was in the tree when that was decided.
    let resource_version = view.queue.metadata.resource_version.clone();
    let mut changes = vec![Change::Patch {
        target: target.clone(),
        subresource: Some("status".to_owned()),
        uid: uid.clone(),
        resource_version: resource_version.filter(|_| reserved::takes(&old, &new)),
        merge: json!({ "status": merge }),
    }];
    if let Some(uid) = uid {
        let tell = |(reason, message, event_type): (String, String, EventType)| Change::Event {
            regarding: target.clone(),
            uid: uid.clone(),
            reason,
            message,
            event_type,
        };
        let changed = old.state.unwrap_or(QueueState::Open) != state;
        changes.extend(changed.then(|| news_of_state(view, state)).map(&tell));
        changes.extend(conditions::news(&old.conditions, &new.conditions).map(&tell));
        changes.extend(reserved::news(&old, &new).into_iter().map(tell));
    }
    changes
}

/// Tells people that a reservation is not what it was.
pub(crate) fn tell_of_lost_guarantee(queue: &Queue) -> Outcome {
    let event = ObjectRef::of(queue)
        .zip(object::uid(queue))
        .map(|(regarding, uid)| Change::Event {
            regarding,
            uid: uid.to_owned(),
            reason: "GuaranteeReduced".to_owned(),
            message:
                "spec.guarantee has lost its policy or its percentage; a client that does not know these fields drops \
                      them with a full update: patch them in again if they are still wanted"
                    .to_owned(),
            event_type: EventType::Warning,
        });
    Outcome {
        changes: event.into_iter().collect(),
        ..Outcome::default()
    }
}

fn news_of_state(view: &QueueView<'_>, state: QueueState) -> (String, String, EventType) {
    let (reason, message) = match (state, view.closed_by) {
        (QueueState::Closing, Some(by)) => (
            "CloseQueue",
            format!("Queue is closing, asked for by spec.state of queue {by}; what it has runs to its end"),
        ),
        (QueueState::Closed, Some(by)) => (
            "CloseQueue",
            format!("Queue is closed and empty, asked for by spec.state of queue {by}"),
        ),
        (_, _) => ("OpenQueue", "Queue is open".to_owned()),
    };
    (reason.to_owned(), message, EventType::Normal)
}

impl QueueView<'_> {
    /// The state that the facts call for.
    pub fn state(&self) -> QueueState {
        if self.closed_by.is_none() {
            return QueueState::Open;
        }
        if self.tally.is_idle() && self.unsettled == 0 {
            QueueState::Closed
        } else {
            QueueState::Closing
        }
    }
}

fn counted(tally: &Tally, old: &QueueStatus) -> QueueStatus {
    let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    QueueStatus {
        unknown: count(tally.unknown),
        pending: count(tally.pending),
        running: count(tally.running),
        inqueue: count(tally.inqueue),
        completed: count(tally.completed),
        failed: count(tally.failed),
        aborted: count(tally.aborted),
        ..old.clone()
    }
}
