//! Rules for where a pod wants to run: affinity and topology spread.

use super::field_error::{FieldError, child, index};
use super::names;
use crate::json::{integer_at, list_at, string_at};
use serde_json::Value;

type Errors = Vec<FieldError>;

pub(super) fn validate(spec: &Value, path: &str, errors: &mut Errors) {
    if let Some(affinity) = spec.get("affinity") {
        let at = child(path, "affinity");
        if let Some(nodes) = affinity.get("nodeAffinity") {
            node_affinity(nodes, &child(&at, "nodeAffinity"), errors);
        }
        for field in ["podAffinity", "podAntiAffinity"] {
            if let Some(pods) = affinity.get(field) {
                pod_affinity(pods, &child(&at, field), errors);
            }
        }
    }
    for (position, constraint) in list_at(spec, "topologySpreadConstraints").iter().enumerate() {
        spread(
            constraint,
            &index(&child(path, "topologySpreadConstraints"), position),
            errors,
        );
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn node_affinity(affinity: &Value, path: &str, errors: &mut Errors) {
    if let Some(required) = affinity.get(REQUIRED) {
        let at = child(&child(path, REQUIRED), "nodeSelectorTerms");
        let terms = list_at(required, "nodeSelectorTerms");
        if terms.is_empty() {
            errors.push(FieldError::required(
                at.as_str(),
                "must have at least one node selector term",
            ));
        }
        for (position, term) in terms.iter().enumerate() {
            node_term(term, &index(&at, position), errors);
        }
    }
    for (position, preferred) in list_at(affinity, PREFERRED).iter().enumerate() {
        let at = index(&child(path, PREFERRED), position);
        weight(preferred, &at, errors);
        if let Some(term) = preferred.get("preference") {
            node_term(term, &child(&at, "preference"), errors);
        }
    }
}

fn weight(preferred: &Value, path: &str, errors: &mut Errors) {
    let found = integer_at(preferred, "weight").unwrap_or_default();
    if !(1..=100).contains(&found) {
        errors.push(FieldError::invalid(
            child(path, "weight"),
            found,
            "must be in the range 1-100",
        ));
    }
}

fn node_term(term: &Value, path: &str, errors: &mut Errors) {
    for (position, expression) in list_at(term, "matchExpressions").iter().enumerate() {
        let at = index(&child(path, "matchExpressions"), position);
        let (values, values_at) = (list_at(expression, "values").len(), child(&at, "values"));
        match string_at(expression, "operator") {
            "In" | "NotIn" if values == 0 => {
                let words = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(values_at, words));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(values_at, words));
            }
            "Gt" | "Lt" if values != 1 => {
                let words = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.push(FieldError::required(values_at, words));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                errors.push(FieldError::invalid(
                    child(&at, "operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        let key = string_at(expression, "key");
        let wrong = names::qualified(key).into_iter();
        errors.extend(wrong.map(|words| FieldError::invalid(child(&at, "key"), key, words)));
    }
}

fn pod_affinity(affinity: &Value, path: &str, errors: &mut Errors) {
    for (position, term) in list_at(affinity, REQUIRED).iter().enumerate() {
        pod_term(term, &index(&child(path, REQUIRED), position), errors);
    }
    for (position, preferred) in list_at(affinity, PREFERRED).iter().enumerate() {
        let at = index(&child(path, PREFERRED), position);
        weight(preferred, &at, errors);
        if let Some(term) = preferred.get("podAffinityTerm") {
            pod_term(term, &child(&at, "podAffinityTerm"), errors);
        }
    }
}

fn pod_term(term: &Value, path: &str, errors: &mut Errors) {
    label_selector(term.get("labelSelector"), &child(path, "labelSelector"), errors);
    label_selector(term.get("namespaceSelector"), &child(path, "namespaceSelector"), errors);
    topology_key(term, path, errors);
}

fn topology_key(object: &Value, path: &str, errors: &mut Errors) {
    let (key, at) = (string_at(object, "topologyKey"), child(path, "topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(at, "can not be empty"));
        return;
    }
    errors.extend(
        names::qualified(key)
            .into_iter()
            .map(|words| FieldError::invalid(at.as_str(), key, words)),
    );
}

/// A selector object: `matchLabels` and `matchExpressions`.
fn label_selector(selector: Option<&Value>, path: &str, errors: &mut Errors) {
    let Some(selector) = selector else { return };
    errors.extend(super::label_errors(
        selector.get("matchLabels"),
        &child(path, "matchLabels"),
    ));
    for (position, expression) in list_at(selector, "matchExpressions").iter().enumerate() {
        let at = index(&child(path, "matchExpressions"), position);
        let values = list_at(expression, "values").len();
        match string_at(expression, "operator") {
            "In" | "NotIn" if values == 0 => {
                let words = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(child(&at, "values"), words));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let words = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(child(&at, "values"), words));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(
                    child(&at, "operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
    }
}

fn spread(constraint: &Value, path: &str, errors: &mut Errors) {
    let skew = integer_at(constraint, "maxSkew").unwrap_or_default();
    if skew <= 0 {
        errors.push(FieldError::invalid(
            child(path, "maxSkew"),
            skew,
            "must be greater than zero",
        ));
    }
    topology_key(constraint, path, errors);
    let action = string_at(constraint, "whenUnsatisfiable");
    let actions = ["DoNotSchedule", "ScheduleAnyway"];
    if !actions.contains(&action) {
        errors.push(FieldError::not_supported(
            child(path, "whenUnsatisfiable"),
            action,
            &actions,
        ));
    }
    label_selector(constraint.get("labelSelector"), &child(path, "labelSelector"), errors);
}
