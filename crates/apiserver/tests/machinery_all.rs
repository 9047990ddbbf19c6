//! Tables of cases for the machinery: one file per module.

#[path = "machinery_all/builtin.rs"]
mod builtin;
#[path = "machinery_all/kinds.rs"]
mod kinds;
#[path = "machinery_all/openapi.rs"]
mod openapi;
#[path = "machinery_all/patch.rs"]
mod patch;
#[path = "machinery_all/pods.rs"]
mod pods;
#[path = "machinery_all/proto.rs"]
mod proto;
#[path = "machinery_all/schema.rs"]
mod schema;
#[path = "machinery_all/selector.rs"]
mod selector;
#[path = "machinery_all/table.rs"]
mod table;
#[path = "machinery_all/validation.rs"]
mod validation;
