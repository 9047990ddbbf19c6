//! What Kubernetes does with objects, as pure functions over JSON values: select, check, default, prune, patch, decode, print.
//!
//! No I/O, no clock: time is an argument.

pub mod builtin;
pub mod openapi;
pub mod patch;
pub mod proto;
pub mod schema;
pub mod selector;
pub mod table;

pub use basalt_api::check::{field_error, names};
