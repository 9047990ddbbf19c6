//! What a controller wants done: plain data, executed by the one executor.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The address of one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// Group and version as on the wire: `v1`, `batch.volcano.sh/v1alpha1`.
    pub api_version: String,
    /// Kind as on the wire: `Pod`.
    pub kind: String,
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Object name.
    pub name: String,
}

impl Target {
    /// The address of `namespace/name` of a kind; an empty namespace means cluster-scoped.
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// Severity of an event, as Kubernetes spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventType {
    /// Information.
    Normal,
    /// Something that a person should look at.
    Warning,
}

/// One wish of a controller.
///
/// The changes of one [`Outcome`] are executed in order; neighbouring creates may run at the same
/// time, and so may neighbouring deletes. After a failure the rest is dropped: the next
/// call decides anew from what is then observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Change {
    /// Create the object. "Already exists" counts as done: names are functions of their owner, and
    /// the next view shows whose object holds the name.
    Create {
        /// Where it goes; repeats what `object` says, so that nobody has to parse it.
        target: Target,
        /// The complete object.
        object: Value,
    },
    /// Apply a JSON merge patch that touches own fields only.
    Patch {
        /// What to patch.
        target: Target,
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
        target: Target,
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
        target: Target,
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
        regarding: Target,
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

/// What one call of a controller asks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// In the order of execution.
    pub changes: Vec<Change>,
    /// Call again at this moment even if nothing changes until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
    /// Queues that have to be looked at because of what was found out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// Nobody waits for it: however many of these there are, they may not hold up others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unhurried: bool,
}

impl Outcome {
    /// Ask for a call at `at`, unless an earlier one is already asked for.
    pub fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |sooner| sooner.min(at)));
    }
}
