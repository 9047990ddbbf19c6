//! Reservation: nodes that are locked for a queue, so that what its guarantee asks for is ready.
//!
//! [`score`](mod@score) says how good a set of nodes is for a queue, [`search`] finds the best one. Both
//! know numbers only: what a node is worth, who uses it and who may have it is decided before.

pub mod score;
pub mod search;

pub use score::{Candidate, Problem, score, share_score};
pub use search::{pick, reach};
