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
    /// Create the object. "Already exists" counts as done: names are functions of their owner, and
    /// the next view shows whose object holds the name.
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
    /// Delete the object. "Not found" and "other uid" count as done.
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
