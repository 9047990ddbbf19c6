//! Rules for persistent volumes, their claims and storage classes.

use super::{
    immutable, list_at,
    pod::{check_one_of, quantity, quantity_words},
    quota::amounts,
    string_at,
};
use crate::field_error::FieldError;
use basalt_api::quantity::Quantity;
use serde_json::{Map, Value};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

fn access_modes(spec: &Value, errors: &mut Vec<FieldError>) {
    let modes = list_at(spec, "accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(
            "spec.accessModes",
            "at least 1 access mode is required",
        ));
    }
    for mode in modes
        .iter()
        .filter(|mode| !ACCESS_MODES.contains(&mode.as_str().unwrap_or_default()))
    {
        errors.push(FieldError::not_supported(
            "spec.accessModes",
            mode.clone(),
            &ACCESS_MODES,
        ));
    }
    check_one_of(spec, "volumeMode", "spec", &["Block", "Filesystem"], errors);
}

pub(super) fn claim(new: &Value, spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    access_modes(spec, errors);
    match spec.pointer("/resources/requests/storage").map(quantity) {
        None => errors.push(FieldError::required("spec.resources[storage]", "")),
        Some(None) => {
            let value = spec.pointer("/resources/requests/storage").cloned().unwrap_or_default();
            errors.push(FieldError::invalid("spec.resources[storage]", value, quantity_words()));
        }
        Some(Some(amount)) if amount <= Quantity::default() => {
            errors.push(FieldError::invalid(
                "spec.resources[storage]",
                amount.to_string(),
                "must be greater than zero",
            ));
        }
        Some(Some(_)) => {}
    }
    let frozen = |object: &Value, bound: bool| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Some(fields) = spec.as_object_mut() {
            // The binder fills these once; storage may grow afterwards.
            fields.remove("resources");
            fields.remove("volumeAttributesClassName");
            if !bound {
                fields.remove("volumeName");
                fields.remove("storageClassName");
            }
        }
        spec
    };
    if let Some(old) = old {
        let bound = old.pointer("/spec/volumeName").is_some();
        if frozen(new, bound) != frozen(old, bound) {
            let words = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
            errors.push(FieldError::forbidden("spec", words));
        }
    }
}

pub(super) fn volume(spec: &Value, errors: &mut Vec<FieldError>) {
    access_modes(spec, errors);
    let capacity = spec.get("capacity").and_then(Value::as_object);
    if capacity.is_none_or(Map::is_empty) {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    amounts(spec.get("capacity"), "spec.capacity", errors);
    check_one_of(
        spec,
        "persistentVolumeReclaimPolicy",
        "spec",
        &["Delete", "Recycle", "Retain"],
        errors,
    );
    let plain = [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ];
    if spec
        .as_object()
        .into_iter()
        .flatten()
        .all(|(field, _)| plain.contains(&field.as_str()))
    {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
}

pub(super) fn storage_class(class: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if string_at(class, "provisioner").is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    }
    check_one_of(class, "reclaimPolicy", "", &["Delete", "Retain"], errors);
    check_one_of(
        class,
        "volumeBindingMode",
        "",
        &["Immediate", "WaitForFirstConsumer"],
        errors,
    );
    let Some(old) = old else { return };
    for field in ["parameters", "provisioner", "reclaimPolicy"] {
        if class.get(field) != old.get(field) {
            errors.push(FieldError::forbidden(
                field,
                format!("updates to {field} are forbidden."),
            ));
        }
    }
    immutable(class, old, "/volumeBindingMode", "volumeBindingMode", errors);
}
