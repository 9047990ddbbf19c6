//! Changes in the order in which they are made and told of.

use basalt_controllers::Change;

/// Changes, and what is told when they are done.
#[derive(Default)]
pub(super) struct Step {
    pub(super) changes: Vec<Change>,
    pub(super) events: Vec<Change>,
}

/// Cuts changes where something is told: what comes after may fail, and what was done is told all the same.
pub(super) fn steps(changes: Vec<Change>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for change in changes {
        let is_event = matches!(change, Change::Event { .. });
        if steps.last().is_none_or(|step| !is_event && !step.events.is_empty()) {
            steps.push(Step::default());
        }
        let Some(step) = steps.last_mut() else { continue };
        if is_event {
            step.events.push(change);
        } else {
            step.changes.push(change);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use basalt_api::{ObjectRef, resource_kind};
    use basalt_controllers::EventType;

    use super::*;

    /// `e` is an event, `d` a deletion.
    #[test]
    fn what_was_done_is_told_though_more_was_to_come() {
        let change = |word: char| {
            let target = ObjectRef::new(resource_kind::POD, "n", "p");
            match word {
                'e' => Change::Event {
                    regarding: target,
                    uid: String::new(),
                    reason: String::new(),
                    message: String::new(),
                    event_type: EventType::Normal,
                },
                _ => Change::Delete {
                    target,
                    uid: String::new(),
                    resource_version: None,
                },
            }
        };
        let check = |words: &str, expected: &str| {
            let found: Vec<String> = steps(words.chars().map(change).collect())
                .iter()
                .map(|step| "d".repeat(step.changes.len()) + &"e".repeat(step.events.len()))
                .collect();
            assert_eq!(found.join(" "), expected, "{words}");
        };
        check("", "");
        check("dd", "dd");
        check("ddee", "ddee");
        check("e", "e");
        check("edde", "e dde");
        check("deded", "de de d");
    }
}
