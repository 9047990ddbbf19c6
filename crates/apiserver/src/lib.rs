//! The embedded Kubernetes API: store, watch, http face.

pub mod face;
pub mod machinery;
pub mod store;
mod workers;

pub use workers::Workers;
