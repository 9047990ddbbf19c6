//! Defaults and validation of the kinds that Kubernetes itself defines.

mod config;
mod crd;
mod defaults;
mod meta;
mod pod_update;
mod service;
mod small;

pub use meta::{NameRule, annotation_errors, name_rule, validate_metadata};

use super::{field_error::FieldError, openapi};
use basalt_api::check::{label_errors, pod};
use basalt_api::json::{integer, items, text};
use serde_json::Value;

/// Sets the fields that Kubernetes sets when a client leaves them out, and writes quantities in canonical form.
pub fn default(api_version: &str, kind: &str, object: &mut Value) {
    if let Some(schema) = openapi::compiled(api_version, kind) {
        schema.default(object);
    }
    defaults::apply(kind, object);
}

/// What is wrong with a new object, or (with `old`) with a change of an object.
pub fn validate(api_version: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate_metadata(name_rule(kind), new, old);
    match (api_version, kind) {
        ("v1", "Pod") => match old {
            None => pod::validate(new, &mut errors),
            Some(old) => pod_update::validate(new, old, &mut errors),
        },
        ("v1", "ConfigMap") => config::config_map(new, old, &mut errors),
        ("v1", "Secret") => config::secret(new, old, &mut errors),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => crd::validate(new, old, &mut errors),
        _ => small::validate(kind, new, old, &mut errors),
    }
    errors
}

/// Checks that a field did not change.
fn immutable(new: &Value, old: &Value, pointer: &str, path: &str, errors: &mut Vec<FieldError>) {
    let (new, old) = (new.pointer(pointer), old.pointer(pointer));
    if new != old {
        let value = new.cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(path, value, "field is immutable"));
    }
}
