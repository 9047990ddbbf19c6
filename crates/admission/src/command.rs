//! Commands: whoever steers a queue by a Command must be allowed to update that queue.

use serde_json::Value;

use crate::decision::{AccessReview, Verdict};
use crate::queue;
use crate::read::text;
use crate::request::Operation::Create;
use crate::rule::{Case, Class, Rule};

pub(crate) const RULES: &[Rule] = &[
    Rule {
        id: "command/queue-action",
        about: "a Command for a queue says OpenQueue or CloseQueue",
        class: Class::Invalid,
        operations: &[Create],
        check: queue_action,
    },
    Rule {
        id: "command/queue-target",
        about: "the target queue exists and has the target's uid",
        class: Class::Forbidden,
        operations: &[Create],
        check: queue_target,
    },
];

fn names_queue(command: &Value) -> bool {
    text(command, "/target/kind") == "Queue"
        && text(command, "/target/apiVersion").starts_with("scheduling.volcano.sh/")
}

fn queue_action(case: &Case<'_>, broken: &mut Vec<String>) {
    let action = text(case.object, "/action");
    if names_queue(case.object) && !matches!(action, "OpenQueue" | "CloseQueue") {
        broken.push(format!(
            "{}: action is {action:?}, a queue takes \"OpenQueue\" or \"CloseQueue\"",
            case.subject()
        ));
    }
}

fn queue_target(case: &Case<'_>, broken: &mut Vec<String>) {
    if !names_queue(case.object) {
        return;
    }
    let (name, uid) = (text(case.object, "/target/name"), text(case.object, "/target/uid"));
    match queue::get(case.view, name) {
        None => broken.push(format!("{}: target queue {name:?} does not exist", case.subject())),
        Some(queue) if text(&queue, "/metadata/uid") != uid => broken.push(format!(
            "{}: target.uid is {uid:?} but queue {name:?} has {:?}: it was made anew, look again before steering it",
            case.subject(),
            text(&queue, "/metadata/uid")
        )),
        Some(_) => {}
    }
}

/// Creating Commands is a common right, updating queues is not.
pub(crate) fn review(case: &Case<'_>) -> Verdict {
    if case.request.operation != Create || !names_queue(case.object) {
        return Verdict::Allow;
    }
    let name = text(case.object, "/target/name");
    Verdict::Review(AccessReview {
        rule: "command/queue-access",
        verb: "update".to_owned(),
        group: "scheduling.volcano.sh".to_owned(),
        resource: "queues".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
        denied: format!(
            "{}: {:?} on queue {name:?} needs the right to update that queue, which user {:?} lacks",
            case.subject(),
            text(case.object, "/action"),
            case.request.user.name
        ),
    })
}
