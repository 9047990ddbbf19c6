//! Queues, gangs and reservations for Kubernetes, on one machine or a cluster.
//!
//! This crate is the command line and the wiring: it reads flags, connects the parts of the other crates and starts
//! them. Decisions are made in `basalt_engine`, `basalt_scheduler`, `basalt_controllers` and `basalt_admission`; what
//! runs them against an API is in `basalt_runtime`.

pub mod cli;
pub mod cluster_process;
pub mod commands;
pub mod demo;
pub mod flags;
pub mod monitoring;
pub mod plan;
pub mod up;
