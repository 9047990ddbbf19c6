//! Commands to a Job. Their uids are recorded in the status, in the write that has their effect.

use basalt_api::job::COMMAND_ACTIONS;
use basalt_api::{Command, Job};
use jiff::Timestamp;

use super::policy::Order;
use crate::change::Outcome;
use crate::commands;
use crate::object;

/// The Commands that a Job takes, in order.
pub(crate) fn heard<'a>(
    job: Option<&Job>,
    commands: &[&'a Command],
    now: Timestamp,
    outcome: &mut Outcome,
) -> Vec<(&'a Command, Order)> {
    commands::heard(job, commands, now, read, outcome)
}

/// Commands to a Job that does not exist: they are removed, with a word.
pub fn orphaned(commands: &[&Command], now: Timestamp) -> Outcome {
    let mut outcome = Outcome::default();
    heard(None, commands, now, &mut outcome);
    outcome
}

/// The orders that have had no effect yet.
pub(crate) fn unheard(job: &Job, commands: &[(&Command, Order)]) -> Vec<Order> {
    let recorded = job.status.as_ref().map(|status| status.applied_commands.as_slice());
    let recorded = recorded.unwrap_or_default();
    let is_new = |command: &Command| object::uid(command).is_some_and(|uid| !recorded.iter().any(|known| known == uid));
    let new = commands.iter().filter(|(command, _)| is_new(command));
    new.map(|(_, order)| order.clone()).collect()
}

fn read(command: &Command) -> Result<Order, String> {
    let action = command.spec.action.clone();
    if !COMMAND_ACTIONS.contains(&action) {
        let known = COMMAND_ACTIONS.map(|action| action.to_string()).join(", ");
        return Err(format!("a job takes {known}, not {action}"));
    }
    Ok(Order {
        message: format!("CommandIssued: {action}"),
        action,
        task: None,
        index: None,
        reason: "CommandIssued".to_owned(),
    })
}
