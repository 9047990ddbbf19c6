//! The kinds that Kubernetes itself defines: their defaults and their validation.

mod defaults;
mod validation;

pub use validation::{NameRule, SYSTEM_PRIORITY_CLASSES, annotation_errors, name_rule, validate, validate_metadata};

use crate::openapi;
use serde_json::Value;

/// Sets the fields that Kubernetes sets when a client leaves them out, and writes quantities in canonical form.
pub fn default(api_version: &str, kind: &str, object: &mut Value) {
    if let Some(schema) = openapi::compiled(api_version, kind) {
        schema.default(object);
    }
    defaults::apply(kind, object);
}
