//! Commands: whoever steers a queue by a Command must be allowed to update that queue.

use basalt_api::job::COMMAND_ACTIONS;
use basalt_api::json::{string_at, value_or_null};
use basalt_api::names;
use basalt_api::resource_kind::{self, split_api_version};
use serde_json::Value;

use crate::read::brief;
use crate::request::Operation::{Create, Update};
use crate::rule::{Access, Case, Rule};

pub(crate) const RULES: &[Rule] = &[
    Rule::forbidden(
        "command/fixed",
        "action and target of a Command do not change: it was judged by them",
        fixed,
    )
    .on(&[Update]),
    Rule::invalid(
        "command/queue-action",
        "a Command for a queue says OpenQueue or CloseQueue, and only such a Command says so",
        queue_action,
    )
    .on(&[Create]),
    Rule::invalid(
        "command/job-action",
        "a Command for a Job says what can be done to one",
        job_action,
    )
    .on(&[Create]),
    Rule::forbidden("command/queue-exists", "the target queue exists", queue_exists).on(&[Create]),
    Rule::forbidden("command/queue-uid", "the target queue has the target's uid", queue_uid).on(&[Create]),
    Rule::forbidden("command/queue-root", "root is not closed", queue_root).on(&[Create]),
    Rule::access(
        "command/queue-access",
        "whoever steers a queue may update it",
        queue_access,
    )
    .on(&[Create]),
];

/// Read widely, so that no spelling of the target gets around the rules.
fn targets_queue(command: &Value) -> bool {
    string_at(command, "/target/kind") == "Queue"
}

fn fixed(case: &Case<'_>, broken: &mut Vec<String>) {
    for field in ["action", "target"] {
        let now = case.object.get(field);
        if case.old.is_some_and(|old| old.get(field) != now) {
            broken.push(format!(
                "{}: {field} is {}, was {}, and cannot be changed: create another Command",
                case.subject(),
                brief(now.unwrap_or(&Value::Null)),
                brief(case.old.and_then(|old| old.get(field)).unwrap_or(&Value::Null))
            ));
        }
    }
}

fn queue_action(case: &Case<'_>, broken: &mut Vec<String>) {
    let action = string_at(case.object, "/action");
    let of_queue = matches!(action, "OpenQueue" | "CloseQueue");
    let version = string_at(case.object, "/target/apiVersion");
    if targets_queue(case.object) && !of_queue {
        broken.push(format!(
            "{}: action is {action:?}, a queue takes \"OpenQueue\" or \"CloseQueue\"",
            case.subject()
        ));
    }
    if targets_queue(case.object) && split_api_version(version).0 != names::SCHEDULING_GROUP {
        broken.push(format!(
            "{}: target.apiVersion is {version:?}, a queue's is {:?}",
            case.subject(),
            resource_kind::QUEUE.api_version
        ));
    }
    if of_queue && !targets_queue(case.object) {
        broken.push(format!(
            "{}: action is {action:?}, but target.kind is {}: name a Queue",
            case.subject(),
            brief(value_or_null(case.object, "/target/kind"))
        ));
    }
}

/// The controller takes a Command away whatever it says, so a word that nobody knows would be lost without a sound.
fn job_action(case: &Case<'_>, broken: &mut Vec<String>) {
    let of_job = string_at(case.object, "/target/kind") == "Job"
        && split_api_version(string_at(case.object, "/target/apiVersion")).0 == names::BATCH_GROUP;
    let action = value_or_null(case.object, "/action");
    // The actions of queues have their own rule.
    let of_jobs = COMMAND_ACTIONS.map(|action| action.to_string());
    let known =
        |action: &str| of_jobs.iter().any(|known| known == action) || matches!(action, "OpenQueue" | "CloseQueue");
    if of_job && !action.as_str().is_some_and(known) {
        broken.push(format!(
            "{}: action is {}, a job takes {}",
            case.subject(),
            brief(action),
            of_jobs.join(", ")
        ));
    }
}

/// The target's name and the queue of that name, if the target is a queue.
fn target<'a>(case: &'a Case<'_>) -> Option<(&'a str, Option<&'a Value>)> {
    let name = string_at(case.object, "/target/name");
    targets_queue(case.object).then(|| (name, case.view.queue(name)))
}

fn queue_exists(case: &Case<'_>, broken: &mut Vec<String>) {
    if let Some((name, None)) = target(case) {
        broken.push(format!(
            "{}: target queue {name:?} does not exist, look at its name again",
            case.subject()
        ));
    }
}

fn queue_uid(case: &Case<'_>, broken: &mut Vec<String>) {
    let wanted = string_at(case.object, "/target/uid");
    if let Some((name, Some(queue))) = target(case)
        && string_at(queue, "/metadata/uid") != wanted
    {
        broken.push(format!(
            "{}: target.uid is {wanted:?} but queue {name:?} has {:?}: it was made anew, look again before steering it",
            case.subject(),
            string_at(queue, "/metadata/uid")
        ));
    }
}

fn queue_root(case: &Case<'_>, broken: &mut Vec<String>) {
    let closes = string_at(case.object, "/action") == "CloseQueue";
    if let Some((names::ROOT_QUEUE, _)) = target(case).filter(|_| closes) {
        broken.push(format!(
            "{}: root cannot be closed, close its children instead",
            case.subject()
        ));
    }
}

/// Creating Commands is a common right, updating queues is not.
fn queue_access(case: &Case<'_>) -> Option<Access> {
    let (name, _) = target(case)?;
    Some(Access {
        verb: "update",
        queue: name.to_owned(),
        denied: format!(
            "{}: {:?} on queue {name:?} needs the right to update that queue, which user {:?} lacks",
            case.subject(),
            string_at(case.object, "/action"),
            case.request.user.name
        ),
    })
}
