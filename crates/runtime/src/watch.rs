//! Watches: lists and changes of one kind each, and the typed or partial forms in which objects are read.

pub mod feed;
pub mod interruptions;

pub mod metadata_only;
pub mod raw_object;
pub(crate) mod resource_alias;
