//! Flags that several commands share.

pub mod connection;
pub mod scheduling;
