//! Rules for pod disruption budgets.

use crate::field_error::{FieldError, child};
use serde_json::Value;

pub(super) fn disruption_budget(spec: &Value, errors: &mut Vec<FieldError>) {
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        let words = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid("spec", spec.clone(), words));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let path = child("spec", field);
        match spec.get(field) {
            Some(Value::Number(count)) if count.as_i64().is_none_or(|count| count < 0) => {
                errors.push(FieldError::invalid(
                    path,
                    Value::Number(count.clone()),
                    "must be greater than or equal to 0",
                ));
            }
            Some(Value::String(share)) => {
                let percent = share.strip_suffix('%').and_then(|digits| digits.parse::<u32>().ok());
                match percent {
                    None => {
                        let words = "a valid percent string must be a numeric string followed by an ending '%' \
                                     (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                        errors.push(FieldError::invalid(path, share.as_str(), words));
                    }
                    Some(percent) if percent > 100 => {
                        errors.push(FieldError::invalid(
                            path,
                            share.as_str(),
                            "must not be greater than 100%",
                        ));
                    }
                    Some(_) => {}
                }
            }
            _ => {}
        }
    }
}
