//! What a Kubernetes API server does with objects, as pure functions over JSON values and bytes.
//!
//! The crate reads request bodies ([`protobuf`], [`schema::strict_json`]), fills in defaults and validates
//! ([`schema`] for any OpenAPI v3 schema, [`builtin_kinds`] for the kinds that Kubernetes itself defines), applies patches
//! ([`patch`]), selects objects ([`selector`]), prints them as tables ([`table`]) and describes them ([`openapi`]).
//!
//! It has no async, no sockets, no files and no randomness, and time is an argument: the API server brings all of these.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod builtin_kinds;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod schema;
pub mod selector;
pub mod table;

pub use basalt_api::check::{field_error, names};
pub use basalt_api::json;
