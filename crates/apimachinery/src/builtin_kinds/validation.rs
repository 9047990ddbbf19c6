//! Validation of built-in kinds, with the error messages of Kubernetes: one module per group of kinds.

mod config_map;
mod custom_resource_definition;
mod disruption_budget;
mod event;
mod node;
mod object_meta;
mod pod_update;
mod priority_class;
mod quota;
mod rbac;
mod service;
mod storage;

pub use object_meta::{NameRule, annotation_errors, name_rule, validate_metadata};
pub use priority_class::SYSTEM_PRIORITY_CLASSES;

use crate::field_error::FieldError;
use basalt_api::check::{label_errors, pod};
use basalt_api::json::{integer_at, list_at, string_at};
use serde_json::{Map, Value};

/// Returns the errors of a new object, or (with `old`) of a change to an object.
pub fn validate(api_version: &str, kind: &str, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate_metadata(name_rule(kind), new, old);
    match (api_version, kind) {
        ("v1", "Pod") => match old {
            None => pod::validate(new, &mut errors),
            Some(old) => pod_update::validate(new, old, &mut errors),
        },
        ("v1", "ConfigMap") => config_map::config_map(new, old, &mut errors),
        ("v1", "Secret") => config_map::secret(new, old, &mut errors),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition") => {
            custom_resource_definition::validate(new, old, &mut errors);
        }
        _ => validate_other(kind, new, old, &mut errors),
    }
    errors
}

/// Validates the kinds whose names are unique among the built-in groups.
fn validate_other(kind: &str, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let empty = Value::Object(Map::new());
    let spec = new.get("spec").unwrap_or(&empty);
    match kind {
        "Service" => service::validate(spec, old, errors),
        "Node" => node::node(spec, errors),
        "Lease" => node::lease(spec, errors),
        "PriorityClass" => priority_class::priority_class(new, old, errors),
        "PersistentVolumeClaim" => storage::claim(new, spec, old, errors),
        "PersistentVolume" => storage::volume(spec, errors),
        "StorageClass" => storage::storage_class(new, old, errors),
        "PodDisruptionBudget" => disruption_budget::disruption_budget(spec, errors),
        "Role" | "ClusterRole" => rbac::role(kind, new, errors),
        "RoleBinding" | "ClusterRoleBinding" => rbac::binding(kind, new, old, errors),
        "Event" => event::event(new, errors),
        "ResourceQuota" => quota::amounts(spec.get("hard"), "spec.hard", errors),
        "LimitRange" => quota::limit_range(spec, errors),
        _ => {}
    }
}

/// Checks that a field did not change.
fn immutable(new: &Value, old: &Value, pointer: &str, path: &str, errors: &mut Vec<FieldError>) {
    let (new, old) = (new.pointer(pointer), old.pointer(pointer));
    if new != old {
        let value = new.cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(path, value, "field is immutable"));
    }
}
