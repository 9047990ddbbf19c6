//! The embedded Kubernetes API: store, watch, http face.

pub mod machinery;
pub mod store;
