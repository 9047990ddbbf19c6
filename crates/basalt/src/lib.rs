//! Queues, gangs and reservations for Kubernetes, on one machine or a cluster.
//!
//! This crate is the thin shell around the pure crates: it holds the sockets, the clock, the watches and the one
//! executor. Decisions are made elsewhere (`basalt_engine`, `basalt_controllers`, `basalt_admission`).

pub mod bench;
pub mod cli;
pub mod connection;
pub mod controllers;
pub mod demo;
#[cfg(test)]
mod embedded;
pub mod hosting;
pub mod lease;
pub mod live;
pub mod logging;
pub mod manager;
pub mod nodes;
pub mod operations;
pub mod parts;
pub mod plan;
pub mod process;
pub mod scheduler;
pub mod scheduling;
pub mod tenure;
pub mod uninstall;
pub mod up;
pub mod webhook;
