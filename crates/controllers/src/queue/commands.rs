//! Commands to a queue: `OpenQueue` and `CloseQueue` become `spec.state`, exactly once.

use std::collections::BTreeSet;

use basalt_api::job::Action;
use basalt_api::queue::WantedState;
use basalt_api::{Command, ObjectRef, Queue, names};
use jiff::Timestamp;
use serde_json::json;

use crate::change::{Change, Outcome};
use crate::commands::heard;
use crate::object;

/// What the commands to one queue are decided from.
#[derive(Clone, Debug)]
pub struct CommandsView<'a> {
    /// The queue of that name.
    pub queue: Option<&'a Queue>,
    /// All Commands whose target it is by name, in any order.
    pub commands: Vec<&'a Command>,
}

/// Carries out what waits, in the order in which it was asked for.
pub fn reconcile(view: &CommandsView<'_>, now: Timestamp) -> Outcome {
    let mut outcome = Outcome::default();
    let accepted = heard(view.queue, &view.commands, now, read, &mut outcome);
    if let Some(queue) = view.queue {
        outcome.changes.extend(apply(queue, &accepted));
    }
    outcome
        .changes
        .extend(accepted.iter().filter_map(|(command, _)| object::delete(*command)));
    outcome
}

fn read(command: &Command) -> Result<WantedState, String> {
    let name = command.spec.target.as_ref().map(|target| target.name.as_str());
    match &command.spec.action {
        Action::OpenQueue => Ok(WantedState::Open),
        Action::CloseQueue if name == Some(names::ROOT_QUEUE) => {
            Err("root cannot be closed: close its children instead".to_owned())
        }
        Action::CloseQueue => Ok(WantedState::Closed),
        other => Err(format!("a queue takes OpenQueue or CloseQueue, not {other}")),
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
        target: ObjectRef::of(queue)?,
        subresource: None,
        uid: queue.metadata.uid.clone(),
        resource_version: queue.metadata.resource_version.clone(),
        merge: json!({
            "metadata": { "annotations": { names::APPLIED_COMMANDS: uids.join(",") } },
            "spec": { "state": state },
        }),
    })
}
