//! Rows of volumes, claims and storage classes.

use super::cells::{name, object_age};
use crate::json::{annotation, list_at, string_at};
use jiff::Timestamp;
use serde_json::Value;

pub(super) const VOLUME_HEADS: &[&str] = &[
    "Name!",
    "Capacity",
    "Access Modes",
    "Reclaim Policy",
    "Status",
    "Claim",
    "StorageClass",
    "VolumeAttributesClass",
    "Reason",
    "Age",
    "VolumeMode+",
];

pub(super) fn volume(volume: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match string_at(volume, "/spec/claimRef/name") {
        "" => String::new(),
        found => format!("{}/{found}", string_at(volume, "/spec/claimRef/namespace")),
    };
    vec![
        name(volume),
        Value::from(string_at(volume, "/spec/capacity/storage")),
        access_modes(list_at(volume, "/spec/accessModes")),
        Value::from(string_at(volume, "/spec/persistentVolumeReclaimPolicy")),
        phase(volume),
        Value::from(claim),
        Value::from(string_at(volume, "/spec/storageClassName")),
        or_unset(string_at(volume, "/spec/volumeAttributesClassName")),
        Value::from(string_at(volume, "/status/reason")),
        object_age(volume, now),
        or_unset(string_at(volume, "/spec/volumeMode")),
    ]
}

pub(super) const CLAIM_HEADS: &[&str] = &[
    "Name!",
    "Status",
    "Volume",
    "Capacity",
    "Access Modes",
    "StorageClass",
    "VolumeAttributesClass",
    "Age",
    "VolumeMode+",
];

pub(super) fn claim(claim: &Value, now: Timestamp) -> Vec<Value> {
    let bound = !string_at(claim, "/spec/volumeName").is_empty();
    let capacity = if bound {
        string_at(claim, "/status/capacity/storage")
    } else {
        ""
    };
    vec![
        name(claim),
        phase(claim),
        Value::from(string_at(claim, "/spec/volumeName")),
        Value::from(capacity),
        if bound {
            access_modes(list_at(claim, "/status/accessModes"))
        } else {
            Value::from("")
        },
        Value::from(string_at(claim, "/spec/storageClassName")),
        or_unset(string_at(claim, "/spec/volumeAttributesClassName")),
        object_age(claim, now),
        or_unset(string_at(claim, "/spec/volumeMode")),
    ]
}

pub(super) const CLASS_HEADS: &[&str] = &[
    "Name!",
    "Provisioner",
    "ReclaimPolicy",
    "VolumeBindingMode",
    "AllowVolumeExpansion",
    "Age",
];

pub(super) fn class(class: &Value, now: Timestamp) -> Vec<Value> {
    let default = annotation(class, "storageclass.kubernetes.io/is-default-class") == "true";
    let title = string_at(class, "/metadata/name");
    let or = |pointer: &str, default: &str| match string_at(class, pointer) {
        "" => Value::from(default),
        found => Value::from(found),
    };
    vec![
        Value::from(if default {
            format!("{title} (default)")
        } else {
            title.to_owned()
        }),
        Value::from(string_at(class, "/provisioner")),
        or("/reclaimPolicy", "Delete"),
        or("/volumeBindingMode", "Immediate"),
        Value::from(
            class
                .get("allowVolumeExpansion")
                .and_then(Value::as_bool)
                .unwrap_or_default(),
        ),
        object_age(class, now),
    ]
}

fn or_unset(found: &str) -> Value {
    Value::from(if found.is_empty() { "<unset>" } else { found })
}

fn phase(object: &Value) -> Value {
    let leaving = object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|time| !time.is_null());
    Value::from(if leaving {
        "Terminating"
    } else {
        string_at(object, "/status/phase")
    })
}

fn access_modes(modes: &[Value]) -> Value {
    let short = |mode: &Value| match mode.as_str()? {
        "ReadWriteOnce" => Some("RWO"),
        "ReadOnlyMany" => Some("ROX"),
        "ReadWriteMany" => Some("RWX"),
        "ReadWriteOncePod" => Some("RWOP"),
        _ => None,
    };
    let mut found: Vec<&str> = Vec::new();
    for mode in modes.iter().filter_map(short) {
        if !found.contains(&mode) {
            found.push(mode);
        }
    }
    Value::from(found.join(","))
}
