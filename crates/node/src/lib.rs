//! Runs pods as local processes, or fakes them.
//!
//! [`fake`] serves any number of made-up nodes: their pods go through the whole life of a pod without a process behind them.
//! [`local`] makes this machine a node.

mod addresses;
mod error;
mod events;
pub mod fake;
mod lease;
pub mod local;

pub use error::NodeError;
