//! Rules for resource quotas and limit ranges.

use super::{
    list_at,
    pod::{quantity, quantity_words},
    string_at,
};
use crate::{
    field_error::{FieldError, child, index, key},
    names,
};
use basalt_api::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeSet;

/// Checks a map of resource names and quantities, which must not be negative.
pub(super) fn amounts(map: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    for (name, value) in map.and_then(Value::as_object).into_iter().flatten() {
        let at = key(path, name);
        let wrong = names::qualified(name);
        errors.extend(
            wrong
                .into_iter()
                .map(|words| FieldError::invalid(at.as_str(), name.as_str(), words)),
        );
        match quantity(value) {
            None => errors.push(FieldError::invalid(at, value.clone(), quantity_words())),
            Some(amount) if amount < Quantity::default() => {
                errors.push(FieldError::invalid(
                    at,
                    value.clone(),
                    "must be greater than or equal to 0",
                ));
            }
            Some(_) => {}
        }
    }
}

pub(super) fn limit_range(spec: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (position, item) in list_at(spec, "limits").iter().enumerate() {
        let at = index("spec.limits", position);
        let kind = string_at(item, "type");
        if kind.is_empty() {
            errors.push(FieldError::required(child(&at, "type"), ""));
        } else if !seen.insert(kind) {
            errors.push(FieldError::duplicate(child(&at, "type"), kind));
        }
        for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            amounts(item.get(field), &child(&at, field), errors);
        }
    }
}
