//! The kernel, and the state machine of queues in it.

mod endings;
mod face;
mod kernel;
mod machine;
mod planted;
