//! Virtual clock, in-memory objects, step-wise executor: the system in a world of its own, with the auditor watching.
//!
//! A [`Cluster`] is the scheduler alone, its plans carried out whole. A [`Kernel`] is everything that acts, one write at a
//! time, each part with a view of its own that lags, and any of them killed after any write.

pub mod actor;
pub mod api;
pub mod jobs;
pub mod kernel;
pub mod nodes;
pub mod queues;
pub mod reservation;
pub mod whim;

mod cluster;
mod decision;
mod lookout;

pub use actor::BindMode;
pub use api::{Answer, Api, Key, Kind, Refusal, Request, Snapshot};
pub use cluster::{Cluster, Cycle, Owners, UnknownObject, rules};
pub use decision::decision;
pub use kernel::{Crash, Faults, Kernel, Stuck, Who};
pub use whim::Whim;
