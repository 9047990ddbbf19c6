//! Tables of cases: one file per module.

#[path = "apimachinery/builtin_kinds.rs"]
mod builtin_kinds;
#[path = "apimachinery/kinds.rs"]
mod kinds;
#[path = "apimachinery/openapi.rs"]
mod openapi;
#[path = "apimachinery/patch.rs"]
mod patch;
#[path = "apimachinery/pods.rs"]
mod pods;
#[path = "apimachinery/protobuf.rs"]
mod protobuf;
#[path = "apimachinery/schema.rs"]
mod schema;
#[path = "apimachinery/selector.rs"]
mod selector;
#[path = "apimachinery/table.rs"]
mod table;
#[path = "apimachinery/validation.rs"]
mod validation;
