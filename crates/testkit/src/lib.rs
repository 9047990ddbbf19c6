//! What tests and measurements of the engine share; never part of the product.
//!
//! [`workload`] makes clusters of any size, [`mutants`] lists the bugs that can be planted in the engine to see that
//! the auditor finds each of them. Plans are carried out by the engine's own
//! [`OfflineCluster`](basalt_engine::offline::OfflineCluster).

pub mod mutants;
pub mod workload;
