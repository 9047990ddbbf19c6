//! Runs pods as local processes, or fakes them.
//!
//! [`fake`] serves any number of made-up nodes: their pods go through the whole life of a pod without a process behind them.

mod error;
pub mod fake;

pub use error::NodeError;
