//! Commands to a queue: `OpenQueue` and `CloseQueue` become `spec.state`, exactly once.
//!
//! The uid of a Command is recorded in the same write as its effect. After a crash at any point the next look either
//! finds no trace of it and does both again, or finds the record and only removes the Command.

use std::collections::BTreeSet;

use basalt_api::job::Action;
use basalt_api::queue::WantedState;
use basalt_api::{Command, Queue, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::change::{Change, EventType, Outcome, Target};
use crate::object;

/// Admission has seen the target; our own view of it may come later than the Command. After so long it is gone.
const GRACE: SignedDuration = SignedDuration::from_secs(5);

/// What the commands to one queue are decided from.
#[derive(Clone, Debug)]
pub struct CommandsView<'a> {
    /// The queue of that name.
    pub queue: Option<&'a Queue>,
    /// All Commands whose target it is by name, in any order.
    pub commands: Vec<&'a Command>,
}

/// The name of the queue that a Command is for. Admission asks for the right to update that queue by the same field.
pub fn target_queue(command: &Command) -> Option<&str> {
    let target = command.spec.target.as_ref()?;
    let group = target.api_version.split_once('/').map(|(group, _)| group);
    (target.kind == "Queue" && group == Some(names::SCHEDULING_GROUP)).then_some(target.name.as_str())
}

/// Carries out what waits, in the order in which it was asked for.
pub fn reconcile(view: &CommandsView<'_>, now: Timestamp) -> Outcome {
    let mut outcome = Outcome::default();
    let mut commands = view.commands.clone();
    commands.retain(|command| command.metadata.deletion_timestamp.is_none());
    commands.sort_by_key(|command| age(command));
    let mut accepted: Vec<(&Command, WantedState)> = Vec::new();
    for command in commands {
        match judge(view.queue, command, now) {
            Verdict::Do(state) => accepted.push((command, state)),
            Verdict::Wait(until) => outcome.wake(until),
            Verdict::Drop { regarding, message } => {
                outcome.changes.extend(regarding.map(|(regarding, uid)| Change::Event {
                    regarding,
                    uid,
                    reason: "CommandDropped".to_owned(),
                    message,
                    event_type: EventType::Warning,
                }));
                outcome.changes.extend(object::delete(command));
            }
        }
    }
    if let Some(queue) = view.queue {
        outcome.changes.extend(apply(queue, &accepted));
    }
    outcome
        .changes
        .extend(accepted.iter().filter_map(|(command, _)| object::delete(*command)));
    outcome
}

/// The oldest first; within a second, which is all that a time says, by what the store counted.
fn age(command: &Command) -> (Option<Timestamp>, u64, &str) {
    let meta = &command.metadata;
    let revision = meta
        .resource_version
        .as_deref()
        .and_then(|version| version.parse().ok());
    (
        meta.creation_timestamp.as_ref().map(|time| time.0),
        revision.unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

enum Verdict {
    Do(WantedState),
    Wait(Timestamp),
    Drop {
        regarding: Option<(Target, String)>,
        message: String,
    },
}

fn judge(queue: Option<&Queue>, command: &Command, now: Timestamp) -> Verdict {
    let meta = &command.metadata;
    let (name, uid) = command
        .spec
        .target
        .as_ref()
        .map_or(("", ""), |target| (target.name.as_str(), target.uid.as_str()));
    let Some(queue) = queue.filter(|queue| object::uid(*queue) == Some(uid)) else {
        let created = meta
            .creation_timestamp
            .as_ref()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let until = created.saturating_add(GRACE).unwrap_or(now);
        if now < until {
            return Verdict::Wait(until);
        }
        let regarding = object::target(command).zip(meta.uid.clone());
        let message = match queue.and_then(object::uid) {
            Some(other) => format!(
                "queue {name} with uid {uid} does not exist any more, the one of that name has {other}: look again before steering it"
            ),
            None => format!("queue {name} does not exist"),
        };
        return Verdict::Drop { regarding, message };
    };
    let regarding = object::target(queue).zip(queue.metadata.uid.clone());
    let action = &command.spec.action;
    let of = |why: &str| {
        format!(
            "Command {}/{}: {why}",
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default()
        )
    };
    if queue.metadata.deletion_timestamp.is_some() {
        let message = of(&format!("{action} came too late, queue {name} is being deleted"));
        return Verdict::Drop { regarding, message };
    }
    match action {
        Action::OpenQueue => Verdict::Do(WantedState::Open),
        Action::CloseQueue if name == names::ROOT_QUEUE => {
            let message = of("root cannot be closed: close its children instead");
            Verdict::Drop { regarding, message }
        }
        Action::CloseQueue => Verdict::Do(WantedState::Closed),
        other => {
            let message = of(&format!("a queue takes OpenQueue or CloseQueue, not {other}"));
            Verdict::Drop { regarding, message }
        }
    }
}

/// The effect of all Commands that have had none yet: that of the last one, with the uids of all of them.
fn apply(queue: &Queue, accepted: &[(&Command, WantedState)]) -> Option<Change> {
    let annotations = queue.metadata.annotations.as_ref();
    let record = annotations.and_then(|all| all.get(names::APPLIED_COMMANDS));
    let recorded: BTreeSet<&str> = record.map_or("", String::as_str).split(',').map(str::trim).collect();
    let is_new = |command: &&Command| object::uid(*command).is_some_and(|uid| !recorded.contains(uid));
    let (_, state) = accepted.iter().rev().find(|(command, _)| is_new(command))?;
    // A Command that is gone cannot come back: only those that still exist are kept in the record.
    let uids: Vec<&str> = accepted
        .iter()
        .filter_map(|(command, _)| object::uid(*command))
        .collect();
    Some(Change::Patch {
        target: object::target(queue)?,
        subresource: None,
        uid: queue.metadata.uid.clone(),
        resource_version: queue.metadata.resource_version.clone(),
        merge: json!({
            "metadata": { "annotations": { names::APPLIED_COMMANDS: uids.join(",") } },
            "spec": { "state": state },
        }),
    })
}
