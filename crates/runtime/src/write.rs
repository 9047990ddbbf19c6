//! Writes: every request that changes something leaves through [`writer::Writer`].

pub mod binder;
pub mod coalescing;
pub mod concurrency_limit;
pub mod executor;
pub mod writer;
