//! Rules for config maps and secrets.

use super::string_at;
use crate::{
    field_error::{FieldError, key},
    json::annotation,
    names,
};
use serde_json::Value;

/// Kubernetes' limit for the data of one object.
const BYTES_MAX: u64 = 1024 * 1024;

fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    object.get(field).and_then(Value::as_object).into_iter().flatten()
}

/// The bytes that base64 text stands for.
fn decoded_length(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_default().trim_end_matches('=');
    (text.len() as u64).saturating_mul(3) / 4
}

fn check_keys(object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (name, _) in entries(object, field) {
        let wrong = names::config_key(name);
        errors.extend(
            wrong
                .into_iter()
                .map(|words| FieldError::invalid(key(field, name), name.as_str(), words)),
        );
    }
}

pub(super) fn config_map(map: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    check_keys(map, "data", errors);
    check_keys(map, "binaryData", errors);
    for (name, _) in
        entries(map, "binaryData").filter(|(name, _)| entries(map, "data").any(|(other, _)| other == *name))
    {
        let words = "duplicate of key present in data";
        errors.push(FieldError::invalid(key("binaryData", name), name.as_str(), words));
    }
    let plain: u64 = entries(map, "data")
        .map(|(_, value)| value.as_str().map_or(0, |text| text.len() as u64))
        .sum();
    let binary: u64 = entries(map, "binaryData").map(|(_, value)| decoded_length(value)).sum();
    if plain.saturating_add(binary) > BYTES_MAX {
        errors.push(FieldError::too_long("[]", BYTES_MAX));
    }
    if let Some(old) = old {
        check_immutable(map, old, &["data", "binaryData"], errors);
    }
}

/// `immutable: true` freezes the data, and itself.
fn check_immutable(new: &Value, old: &Value, fields: &[&str], errors: &mut Vec<FieldError>) {
    if old.get("immutable") != Some(&Value::Bool(true)) {
        return;
    }
    let words = "field is immutable when `immutable` is set";
    if new.get("immutable") != Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden("immutable", words));
    }
    for field in fields.iter().filter(|field| new.get(**field) != old.get(**field)) {
        errors.push(FieldError::forbidden(*field, words));
    }
}

pub(super) fn secret(secret: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    check_keys(secret, "data", errors);
    if entries(secret, "data")
        .map(|(_, value)| decoded_length(value))
        .sum::<u64>()
        > BYTES_MAX
    {
        errors.push(FieldError::too_long("data", BYTES_MAX));
    }
    let kind = string_at(secret, "type");
    let has = |name: &str| entries(secret, "data").any(|(found, _)| found == name);
    let needed: &[&str] = match kind {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for name in needed.iter().filter(|name| !has(name)) {
        errors.push(FieldError::required(key("data", name), ""));
    }
    if kind == "kubernetes.io/basic-auth" && !has("username") && !has("password") {
        errors.push(FieldError::required("data[username]", ""));
        errors.push(FieldError::required("data[password]", ""));
    }
    if kind == "kubernetes.io/service-account-token" {
        let name = "kubernetes.io/service-account.name";
        if annotation(secret, name).is_empty() {
            errors.push(FieldError::required(key("metadata.annotations", name), ""));
        }
    }
    if let Some(old) = old {
        super::immutable(secret, old, "/type", "type", errors);
        check_immutable(secret, old, &["data"], errors);
    }
}
