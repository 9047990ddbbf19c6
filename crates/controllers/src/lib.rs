//! Queue, reservation, job and podgroup controllers: view in, changes out; pure.
//!
//! Each controller is one function from a *view* (the objects it needs, as last observed) to an
//! [`Outcome`]: the [`Change`]s that bring the world closer to what the objects ask for, and the
//! moment at which to look again although nothing changed. Nothing is remembered between calls, so
//! a crash after any change loses nothing: the next call sees what was done and does the rest.
//!
//! Around them stands what every loop that drives them shares, the live one and the simulator's: a
//! [`world`] that takes in reports of objects, says what has to be looked at, and looks at it; and
//! a [`WorkQueue`] of what is due when.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod cache;
pub mod change;
pub mod companion;
pub mod job;
pub mod key;
pub mod pod;
pub mod podgroup;
pub mod queue;
pub mod reservation;
pub mod words;
pub mod world;

mod commands;
mod object;
mod usage;

pub use basalt_api::{ObjectRef, WorkQueue};
pub use change::{Change, EventType, Outcome};
