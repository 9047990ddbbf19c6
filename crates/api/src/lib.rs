//! Every custom resource as Rust types, well-known names, exact quantities and the CRD yaml.
//!
//! The wire format is Volcano's (v1.15.1) plus additive fields. Types follow Go's habit on the wire:
//! an empty string, list or map is the same as an absent one, and is not written.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printer column of a CRD says its own type"
)]

pub mod backoff;
pub mod change;
pub mod check;
pub mod command;
pub mod crd;
pub mod cronjob;
pub mod duration;
pub mod fake;
pub mod fraction;
pub mod hypernode;
pub mod job;
pub mod jobflow;
pub mod json;
pub mod names;
pub mod nodeshard;
pub mod numatopology;
pub mod object_ref;
pub mod podgroup;
pub mod preserved;
pub mod quantity;
pub mod queue;
pub mod reason;
pub mod resource_kind;
pub mod rights;
pub mod slim;
pub mod stable_hash;
pub mod work_queue;

mod schema;
mod wire;

pub use change::{Change, EventType};
pub use command::Command;
pub use cronjob::CronJob;
pub use hypernode::HyperNode;
pub use job::Job;
pub use jobflow::{JobFlow, JobTemplate};
pub use nodeshard::NodeShard;
pub use numatopology::Numatopology;
pub use object_ref::{NamespacedName, ObjectRef};
pub use podgroup::PodGroup;
pub use preserved::Preserved;
pub use quantity::{Quantity, ResourceList};
pub use queue::Queue;
pub use reason::Reason;
pub use resource_kind::ResourceKind;
pub use work_queue::WorkQueue;
