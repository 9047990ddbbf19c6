//! Virtual clock, in-memory objects, step-wise executor: the scheduler in a world of its own, with the auditor watching.

mod cluster;
mod decision;

pub use cluster::{Cluster, Cycle, Owners, UnknownObject, rules};
pub use decision::decision;
