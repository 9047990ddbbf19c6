//! What Kubernetes asks of names, labels and pod specs, as pure functions over JSON values.
//!
//! The embedded API server checks pods by it, and admission the templates that pods are made from: what would be refused
//! later is refused at once.

pub mod field_error;
pub mod names;
mod placement;
pub mod pod;

use serde_json::Value;

use field_error::FieldError;

/// What is wrong with a map of labels.
pub fn label_errors(labels: Option<&Value>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        errors.extend(
            names::qualified(key)
                .into_iter()
                .map(|words| FieldError::invalid(path, key.as_str(), words)),
        );
        errors.extend(
            names::label_value(value)
                .into_iter()
                .map(|words| FieldError::invalid(path, value, words)),
        );
    }
    errors
}
