//! Rules for services.

use super::{
    integer, items,
    pod::{check_one_of, port_range},
    text,
};
use crate::machinery::{
    field_error::{FieldError, child, index},
    names,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn validate(spec: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    check_one_of(spec, "type", "spec", &TYPES, errors);
    check_one_of(spec, "sessionAffinity", "spec", &["ClientIP", "None"], errors);
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    if items(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    if kind == "ExternalName" && text(spec, "externalName").is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    }
    check_ports(items(spec, "ports"), errors);
    let before = |field: &str| {
        old.and_then(|old| old.get("spec"))
            .map(|spec| text(spec, field))
            .unwrap_or_default()
    };
    let same_type = kind != "ExternalName" && before("type") == kind;
    if same_type && !before("clusterIP").is_empty() && text(spec, "clusterIP") != before("clusterIP") {
        let value = json!([text(spec, "clusterIP")]);
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
        match text(port, "name") {
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
        let found = integer(port, "port").unwrap_or_default();
        port_range(found, &child(&at, "port"), errors);
        check_target(port.get("targetPort"), &child(&at, "targetPort"), errors);
        check_one_of(port, "protocol", &at, &["SCTP", "TCP", "UDP"], errors);
        if !pairs.insert((text(port, "protocol"), found)) {
            let value = json!({ "protocol": text(port, "protocol"), "port": found });
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
