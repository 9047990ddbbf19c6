//! Changes of objects as plain data: what the pure crates decide, and what an executor carries out.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object_ref::ObjectRef;

/// Severity of an event, as Kubernetes spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventType {
    /// Information.
    Normal,
    /// Something that a person should look at.
    Warning,
}

/// One change that a controller or the scheduler asks for.
///
/// The changes of one decision are executed in order; neighbouring creates may run at the same
/// time, and so may neighbouring deletes. After a failure the rest is dropped: the next
/// call decides anew from what is then observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Change {
    /// Create the object. "Already exists" is a failure: names are functions of their owner, so either the view was old
    /// or somebody else holds the name, and only a newer view tells which.
    Create {
        /// Where it goes; repeats what `object` says, so that nobody has to parse it.
        target: ObjectRef,
        /// The complete object.
        object: Value,
    },
    /// Apply a JSON merge patch that touches own fields only.
    Patch {
        /// What to patch.
        target: ObjectRef,
        /// `status`, or none for the object itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subresource: Option<String>,
        /// The patch is refused if the object has another uid.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uid: Option<String>,
        /// The patch is refused if the object has another resourceVersion: set where the patch was
        /// computed from the object's own former content (a counter, a phase).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource_version: Option<String>,
        /// The merge patch (RFC 7386).
        merge: Value,
    },
    /// Apply a strategic merge patch: for lists that are maps, such as a pod's conditions, of which only one entry is ours.
    Strategic {
        /// What to patch.
        target: ObjectRef,
        /// `status`, or none for the object itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        subresource: Option<String>,
        /// The patch is refused if the object has another uid.
        uid: String,
        /// The patch.
        patch: Value,
    },
    /// Delete the object. "Not found" counts as done, and so does another uid.
    Delete {
        /// What to delete.
        target: ObjectRef,
        /// Only the object with this uid.
        uid: String,
        /// Only in this resourceVersion: set where the object may be deleted only in the condition that it was seen in.
        /// Another version counts as outdated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource_version: Option<String>,
    },
    /// Tell people: an event on an object.
    Event {
        /// The object that it is about.
        regarding: ObjectRef,
        /// That object's uid.
        uid: String,
        /// One word in upper camel case.
        reason: String,
        /// One sentence with names and numbers.
        message: String,
        /// Severity.
        #[serde(rename = "type")]
        event_type: EventType,
    },
}

/// What the refusal of a change means for the decision that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalMeaning {
    /// Nothing is left to do: the change counts as done.
    Done,
    /// The decision was made from an old view of the object: decide again.
    Outdated,
    /// The change was not carried out.
    Failed,
}

impl Change {
    /// Returns what a refusal of this change means. This is the only place that says which answers count as done.
    ///
    /// `reason` is the one of the `Status` that the API server answered; `has_other_uid` says that it refused the request
    /// because the object has another uid than the request names, which Kubernetes calls an invalid change of the uid.
    pub fn refusal_meaning(&self, reason: &str, has_other_uid: bool) -> RefusalMeaning {
        let is_outdated = reason == "Conflict" || has_other_uid;
        match self {
            Self::Create { .. } if reason == "AlreadyExists" => RefusalMeaning::Outdated,
            // A namespace that is being deleted takes no events any more, and nothing depends on them.
            Self::Event { .. } if matches!(reason, "NotFound" | "Forbidden") => RefusalMeaning::Done,
            Self::Create { .. } | Self::Event { .. } => RefusalMeaning::Failed,
            _ if reason == "NotFound" => RefusalMeaning::Done,
            // Another object under the same name is not the one to delete; another version may be this one, changed since.
            Self::Delete {
                resource_version: None, ..
            } if is_outdated => RefusalMeaning::Done,
            _ if is_outdated => RefusalMeaning::Outdated,
            _ => RefusalMeaning::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource_kind;

    #[test]
    fn which_answers_count_as_done() {
        use RefusalMeaning::{Done, Failed, Outdated};
        let target = || ObjectRef::new(resource_kind::POD, "a", "b");
        let create = Change::Create {
            target: target(),
            object: json!({}),
        };
        let patch = Change::Patch {
            target: target(),
            subresource: None,
            uid: None,
            resource_version: None,
            merge: json!({}),
        };
        let strategic = Change::Strategic {
            target: target(),
            subresource: None,
            uid: "u".to_owned(),
            patch: json!({}),
        };
        let delete = |version: Option<&str>| Change::Delete {
            target: target(),
            uid: "u".to_owned(),
            resource_version: version.map(str::to_owned),
        };
        let event = Change::Event {
            regarding: target(),
            uid: "u".to_owned(),
            reason: "R".to_owned(),
            message: "m".to_owned(),
            event_type: EventType::Normal,
        };
        // AlreadyExists, Conflict, NotFound, Forbidden, another uid.
        for (change, expected) in [
            (create, [Outdated, Failed, Failed, Failed, Failed]),
            (patch, [Failed, Outdated, Done, Failed, Outdated]),
            (strategic, [Failed, Outdated, Done, Failed, Outdated]),
            (delete(None), [Failed, Done, Done, Failed, Done]),
            (delete(Some("7")), [Failed, Outdated, Done, Failed, Outdated]),
            (event, [Failed, Failed, Done, Done, Failed]),
        ] {
            let reasons = ["AlreadyExists", "Conflict", "NotFound", "Forbidden"];
            let mut found = reasons.map(|reason| change.refusal_meaning(reason, false)).to_vec();
            found.push(change.refusal_meaning("Invalid", true));
            assert_eq!(found, expected, "{change:?}");
        }
    }
}
