//! What one call of a controller returns: changes, and when to call again.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use basalt_api::change::{Change, EventType};

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
