//! The embedded Kubernetes API: store, watch, http face.

pub mod face;
pub mod machinery;
mod pairs;
pub mod store;
mod workers;

pub use pairs::Pairs;
pub use workers::Workers;
