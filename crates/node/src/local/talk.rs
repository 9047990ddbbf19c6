//! What agent and shim say to each other: one JSON value a line, each at most [`LINE_MAX`] bytes.

use serde::{Deserialize, Serialize};

use super::state::PodState;

/// Longest line that is read.
pub const LINE_MAX: usize = 1024 * 1024;

/// From a shim. The first line of a connection is always a state: that is how the agent knows who calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromShim {
    /// The whole state, at every change.
    State(Box<PodState>),
    /// Something that belongs into an event on the pod.
    Told {
        /// Normal, or Warning.
        warning: bool,
        /// `Unhealthy`, `Killing`, `BackOff`, `FailedPostStartHook`, …
        reason: String,
        /// In words.
        message: String,
    },
}

/// To a shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToShim {
    /// End all containers: hooks, SIGTERM, and after so many seconds SIGKILL to all that is left. A second one can shorten it.
    Stop {
        /// 0: at once.
        grace_seconds: u32,
    },
}
