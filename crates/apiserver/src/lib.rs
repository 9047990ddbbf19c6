//! The embedded Kubernetes API server: a durable, revisioned [`store`], the API over [`http`], and the workers that a
//! cluster counts on (garbage collection, namespaces, service accounts, …).

pub mod http;
pub mod store;
mod workers;

pub use workers::Workers;
