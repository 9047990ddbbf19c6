//! What clients ask before they ask for objects: which groups, versions, resources and schemas this server has.

pub(super) mod groups;
pub(super) mod openapi;
