//! The promises, recomputed from raw objects; pure, and never with the engine.
//!
//! The auditor shares no arithmetic with what it checks: it reads JSON as a stranger would, so that
//! one mistake cannot hide another. [`check`] looks once at a world at rest; an [`Auditor`] watches a
//! world that moves and also knows what must never change. [`judge`] holds one decision of a scheduler
//! against the [`World`] that it saw and the [`Rules`] of its configuration; a [`History`] of decisions
//! tells evictions that go round in circles. A [`QueueWatch`] is told of every single write, and knows what queues may
//! accept, lose and be told. The [`oracle`] knows which nodes a reservation should lock.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

mod amounts;
mod auditor;
mod decision;
mod gang;
mod history;
mod job;
mod locks;
mod node;
mod objects;
pub mod oracle;
mod quantity;
mod queue;
mod queue_state;
mod queue_watch;
mod read;
mod request;
mod reservation;
mod rules;
mod world;

pub use auditor::Auditor;
pub use decision::{Decision, Eviction, Placement, Purpose, QueueReport, judge};
pub use history::History;
pub use objects::Objects;
pub use queue_watch::{QueueWatch, Write};
pub use rules::Rules;
pub use world::World;

use serde::Serialize;
use serde_json::Value;

/// One broken promise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Id of the promise: `I1` no over-commit, `I2` gang, `I3` capability, `I4` guarantee, `I5` evictions have
    /// a purpose and permitted victims, `I6` no lost or doubled pod, `I7` one bind, `I8` closed queues are
    /// empty, `I10` accounts are the facts, `I13` pods go only where they may, `L1` status follows facts, `Q1` queues
    /// accept only what they may, `Q2` Commands take effect once, `Q3` nothing that was accepted is lost, `R1` locked nodes take
    /// only their queue's pods, `R2` evictions for a reservation are needed and permitted, `R3` locks are exclusive and nested,
    /// `R4` nothing is locked for nobody, `R5` what is said of a reservation is what the pods say.
    pub invariant: &'static str,
    /// The object that it was found on: `Kind namespace/name`.
    pub object: String,
    /// What is, and what should be.
    pub message: String,
}

impl Finding {
    fn on(invariant: &'static str, object: String, message: String) -> Self {
        Self {
            invariant,
            object,
            message,
        }
    }

    fn new(invariant: &'static str, kind: &str, object: &Value, message: String) -> Self {
        Self {
            invariant,
            object: read::label(kind, object),
            message,
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.invariant, self.object, self.message)
    }
}

/// Everything that is wrong with a world at rest (nothing is about to happen by itself).
pub fn check(objects: &Objects) -> Vec<Finding> {
    Auditor::default().settled(objects)
}
