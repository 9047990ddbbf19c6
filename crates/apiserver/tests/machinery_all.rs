//! Tables of cases for the machinery: one file per module.

#[path = "machinery_all/patch.rs"]
mod patch;
#[path = "machinery_all/schema.rs"]
mod schema;
#[path = "machinery_all/selector.rs"]
mod selector;
