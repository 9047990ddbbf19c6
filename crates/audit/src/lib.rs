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
mod invariant;
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
pub use invariant::Invariant;
pub use objects::Objects;
pub use queue_watch::{QueueWatch, Write};
pub use rules::Rules;
pub use world::World;

use serde::Serialize;
use serde_json::Value;

/// One broken promise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Which promise.
    pub invariant: Invariant,
    /// The object that it was found on: `Kind namespace/name`.
    pub object: String,
    /// What is, and what should be.
    pub message: String,
}

impl Finding {
    fn on(invariant: Invariant, object: String, message: String) -> Self {
        Self {
            invariant,
            object,
            message,
        }
    }

    fn new(invariant: Invariant, kind: &str, object: &Value, message: String) -> Self {
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
