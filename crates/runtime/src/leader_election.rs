//! Leader election by a Kubernetes Lease: who may write, and until when.

mod flags;
mod keeper;
pub mod leader_gate;
pub mod lease;
pub mod write_fence;

pub use self::flags::ElectionFlags;
pub use self::keeper::{Ballot, Election, Lock};
