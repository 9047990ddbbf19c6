//! The live system: watches feed the pure crates, one executor carries out what they decide.

pub mod bare;
pub mod binder;
pub mod controllers;
pub mod executor;
pub mod feed;
pub mod frame;
pub mod latest;
pub mod lead;
pub mod lenient;
pub mod limit;
#[cfg(test)]
mod monitoring;
pub mod raw;
pub mod scheduler;
#[cfg(test)]
pub(crate) mod scripted;
mod stand_in;
pub mod vitals;
pub mod watches;
pub mod writer;
