//! Reservation: nodes that are locked for a queue, so that what its guarantee asks for is ready.
//!
//! [`score`](mod@score) says how good a set of nodes is for a queue, [`search`] finds the best one. Both
//! know numbers only: what a node is worth, who uses it and who may have it is decided before.
//!
//! | module | what it holds |
//! |---|---|
//! | [`row`] | amounts as whole numbers |
//! | [`site`] | what each node offers, and what stands on it, as sums |
//! | [`ask`] | what a queue asks for, and which nodes can serve it |
//! | [`outlook`] | the same in numbers, once for all queues that have nothing there |
//! | [`mod@choose`] | one queue's choice: the best set, unless the one that it holds is good enough |
//! | [`round`] | all queues, in order; what may be written now |
//! | [`report`] | a decision in numbers and words |

pub mod ask;
pub mod choose;
pub mod outlook;
pub mod report;
pub mod round;
pub mod row;
pub mod score;
pub mod search;
pub mod site;

pub use row::{Dimension, Dimensions};
pub use score::{Candidate, Figures, Problem, score, share_score};
pub use search::{pick, reach};
