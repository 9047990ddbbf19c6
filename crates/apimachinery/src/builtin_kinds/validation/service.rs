//! Rules for services.

use super::{
    integer_at, list_at,
    pod::{check_one_of, port_range},
    string_at,
};
use crate::{
    field_error::{FieldError, child, index},
    names,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn validate(spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    check_one_of(spec, "type", "spec", &TYPES, errors);
    check_one_of(spec, "sessionAffinity", "spec", &["ClientIP", "None"], errors);
    let kind = string_at(spec, "type");
    let headless = string_at(spec, "clusterIP") == "None";
    if list_at(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    if kind == "ExternalName" && string_at(spec, "externalName").is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    }
    check_ports(list_at(spec, "ports"), errors);
    let before = |field: &str| {
        old.and_then(|old| old.get("spec"))
            .map(|spec| string_at(spec, field))
            .unwrap_or_default()
    };
    let same_type = kind != "ExternalName" && before("type") == kind;
    if same_type && !before("clusterIP").is_empty() && string_at(spec, "clusterIP") != before("clusterIP") {
        let value = json!([string_at(spec, "clusterIP")]);
        errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            value,
            "may not change once set",
        ));
    }
}

fn check_ports(ports: &[Value], errors: &mut Vec<FieldError>) {
    let (mut seen, mut pairs) = (BTreeSet::new(), BTreeSet::new());
    for (position, port) in ports.iter().enumerate() {
        let at = index("spec.ports", position);
        match string_at(port, "name") {
            "" if ports.len() > 1 => errors.push(FieldError::required(child(&at, "name"), "")),
            "" => {}
            name => {
                let wrong = names::dns_label(name).into_iter();
                errors.extend(wrong.map(|words| FieldError::invalid(child(&at, "name"), name, words)));
                if !seen.insert(name) {
                    errors.push(FieldError::duplicate(child(&at, "name"), name));
                }
            }
        }
        let found = integer_at(port, "port").unwrap_or_default();
        port_range(found, &child(&at, "port"), errors);
        check_target(port.get("targetPort"), &child(&at, "targetPort"), errors);
        check_one_of(port, "protocol", &at, &["SCTP", "TCP", "UDP"], errors);
        if !pairs.insert((string_at(port, "protocol"), found)) {
            let value = json!({ "protocol": string_at(port, "protocol"), "port": found });
            errors.push(FieldError::duplicate(at, value));
        }
    }
}

fn check_target(target: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    match target {
        Some(Value::String(name)) => {
            let wrong = names::port_name(name).into_iter();
            errors.extend(wrong.map(|words| FieldError::invalid(path, name.as_str(), words)));
        }
        Some(target) => port_range(target.as_i64().unwrap_or_default(), path, errors),
        None => {}
    }
}
