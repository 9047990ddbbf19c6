//! Rules for new pods.

use super::field_error::{FieldError, child, index, key};
use super::{label_errors, names, placement};
use crate::json::{integer_at, list_at, string_at};
use crate::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeSet;

/// Says what is wrong with a name.
type Rule = fn(&str) -> Vec<String>;

/// Checks a new pod.
pub fn validate(pod: &Value, errors: &mut Vec<FieldError>) {
    let empty = Value::Object(serde_json::Map::new());
    validate_spec(pod.get("spec").unwrap_or(&empty), "spec", errors);
}

/// Checks a pod spec; also those inside of templates.
pub fn validate_spec(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let volumes = check_volumes(spec, path, errors);
    let containers = list_at(spec, "containers");
    if containers.is_empty() {
        errors.push(FieldError::required(child(path, "containers"), ""));
    }
    let mut seen = BTreeSet::new();
    for field in ["initContainers", "containers"] {
        for (position, container) in list_at(spec, field).iter().enumerate() {
            let at = index(&child(path, field), position);
            let name = string_at(container, "name");
            check_name(name, &child(&at, "name"), &mut seen, names::dns_label, errors);
            check_container(container, &at, &volumes, errors);
        }
    }
    placement::validate(spec, path, errors);
    check_words(spec, path, errors);
    check_tolerations(list_at(spec, "tolerations"), &child(path, "tolerations"), errors);
    errors.extend(label_errors(spec.get("nodeSelector"), &child(path, "nodeSelector")));
    let mut gates = BTreeSet::new();
    for (position, gate) in list_at(spec, "schedulingGates").iter().enumerate() {
        let at = index(&child(path, "schedulingGates"), position);
        check_name(string_at(gate, "name"), &at, &mut gates, names::qualified, errors);
    }
}

/// A name that must be there, well formed and new.
fn check_name<'a>(name: &'a str, path: &str, seen: &mut BTreeSet<&'a str>, rule: Rule, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    errors.extend(
        rule(name)
            .into_iter()
            .map(|words| FieldError::invalid(path, name, words)),
    );
    if !seen.insert(name) {
        errors.push(FieldError::duplicate(path, name));
    }
}

/// A word that must be one of a few, if it is given.
pub fn check_one_of(object: &Value, field: &str, path: &str, allowed: &[&str], errors: &mut Vec<FieldError>) {
    let word = string_at(object, field);
    if !word.is_empty() && !allowed.contains(&word) {
        errors.push(FieldError::not_supported(child(path, field), word, allowed));
    }
}

fn check_words(spec: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if string_at(spec, "restartPolicy").is_empty() {
        errors.push(FieldError::required(child(path, "restartPolicy"), ""));
    }
    check_one_of(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"], errors);
    let dns = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
    check_one_of(spec, "dnsPolicy", path, &dns, errors);
    check_one_of(
        spec,
        "preemptionPolicy",
        path,
        &["Never", "PreemptLowerPriority"],
        errors,
    );
    let rules: [(&str, Rule); 6] = [
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
        ("nodeName", names::dns_subdomain),
        ("serviceAccountName", names::dns_subdomain),
        ("priorityClassName", names::dns_subdomain),
        ("runtimeClassName", names::dns_subdomain),
    ];
    for (field, rule) in rules {
        let word = string_at(spec, field);
        if !word.is_empty() {
            let at = child(path, field);
            errors.extend(
                rule(word)
                    .into_iter()
                    .map(|words| FieldError::invalid(at.as_str(), word, words)),
            );
        }
    }
    if let Some(seconds) = integer_at(spec, "activeDeadlineSeconds").filter(|n| !(1..=i64::from(i32::MAX)).contains(n))
    {
        let words = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(
            child(path, "activeDeadlineSeconds"),
            seconds,
            words,
        ));
    }
    if let Some(seconds) = integer_at(spec, "terminationGracePeriodSeconds").filter(|seconds| *seconds < 0) {
        let words = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            child(path, "terminationGracePeriodSeconds"),
            seconds,
            words,
        ));
    }
}

fn check_volumes<'a>(spec: &'a Value, path: &str, errors: &mut Vec<FieldError>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (position, volume) in list_at(spec, "volumes").iter().enumerate() {
        let at = index(&child(path, "volumes"), position);
        check_name(
            string_at(volume, "name"),
            &child(&at, "name"),
            &mut seen,
            names::dns_label,
            errors,
        );
        let sources = volume.as_object().map_or(0, |fields| fields.len().saturating_sub(1));
        if sources > 1 {
            let second = volume
                .as_object()
                .into_iter()
                .flatten()
                .map(|(field, _)| field)
                .filter(|f| *f != "name")
                .nth(1);
            let words = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(
                child(&at, second.map_or("", String::as_str)),
                words,
            ));
        }
    }
    seen
}

fn check_container(container: &Value, path: &str, volumes: &BTreeSet<&str>, errors: &mut Vec<FieldError>) {
    let image = string_at(container, "image");
    if image.is_empty() {
        errors.push(FieldError::required(child(path, "image"), ""));
    } else if image.trim() != image {
        let words = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(child(path, "image"), image, words));
    }
    check_one_of(
        container,
        "imagePullPolicy",
        path,
        &["Always", "IfNotPresent", "Never"],
        errors,
    );
    check_one_of(
        container,
        "terminationMessagePolicy",
        path,
        &["FallbackToLogsOnError", "File"],
        errors,
    );
    check_ports(container, path, errors);
    for (position, env) in list_at(container, "env").iter().enumerate() {
        let at = child(&index(&child(path, "env"), position), "name");
        match string_at(env, "name") {
            "" => errors.push(FieldError::required(at, "")),
            name => {
                let wrong = names::env_name(name);
                errors.extend(
                    wrong
                        .into_iter()
                        .map(|words| FieldError::invalid(at.as_str(), name, words)),
                );
            }
        }
    }
    let mut paths = BTreeSet::new();
    for (position, mount) in list_at(container, "volumeMounts").iter().enumerate() {
        let at = index(&child(path, "volumeMounts"), position);
        match string_at(mount, "name") {
            "" => errors.push(FieldError::required(child(&at, "name"), "")),
            name if !volumes.contains(name) => errors.push(FieldError::not_found(child(&at, "name"), name)),
            _ => {}
        }
        match string_at(mount, "mountPath") {
            "" => errors.push(FieldError::required(child(&at, "mountPath"), "")),
            mount_path if !paths.insert(mount_path) => {
                errors.push(FieldError::invalid(
                    child(&at, "mountPath"),
                    mount_path,
                    "must be unique",
                ));
            }
            _ => {}
        }
    }
    check_resources(container.get("resources"), &child(path, "resources"), errors);
}

/// A number of a port.
pub fn port_range(port: i64, path: &str, errors: &mut Vec<FieldError>) {
    if !(1..=65535).contains(&port) {
        errors.push(FieldError::invalid(
            path,
            port,
            "must be between 1 and 65535, inclusive",
        ));
    }
}

fn check_ports(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (position, port) in list_at(container, "ports").iter().enumerate() {
        let at = index(&child(path, "ports"), position);
        let name = string_at(port, "name");
        if !name.is_empty() {
            let wrong = names::port_name(name);
            errors.extend(
                wrong
                    .into_iter()
                    .map(|words| FieldError::invalid(child(&at, "name"), name, words)),
            );
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(child(&at, "name"), name));
            }
        }
        match integer_at(port, "containerPort") {
            None | Some(0) => errors.push(FieldError::required(child(&at, "containerPort"), "")),
            Some(found) => port_range(found, &child(&at, "containerPort"), errors),
        }
        if let Some(found) = integer_at(port, "hostPort").filter(|found| *found != 0) {
            port_range(found, &child(&at, "hostPort"), errors);
        }
        match string_at(port, "protocol") {
            "" => errors.push(FieldError::required(child(&at, "protocol"), "")),
            _ => check_one_of(port, "protocol", &at, &["SCTP", "TCP", "UDP"], errors),
        }
    }
}

/// Whether requests of this resource may be below its limit.
fn overcommits(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    native && !name.starts_with("hugepages-")
}

/// A quantity, written as text or as a number.
pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// Quantities that are not negative, under names that containers may ask for.
fn check_amounts(amounts: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    for (name, value) in amounts.and_then(Value::as_object).into_iter().flatten() {
        let at = key(path, name);
        let wrong = names::qualified(name);
        if wrong.is_empty() {
            let standard =
                matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
            if !name.contains('/') && !standard {
                errors.push(FieldError::invalid(
                    at.as_str(),
                    name.as_str(),
                    "must be a standard resource type or fully qualified",
                ));
                errors.push(FieldError::invalid(
                    at.as_str(),
                    name.as_str(),
                    "must be a standard resource for containers",
                ));
            }
        }
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
            Some(amount) if !overcommits(name) && name.contains('/') && amount.milli().is_ok_and(|m| m % 1000 != 0) => {
                errors.push(FieldError::invalid(at, value.clone(), "must be an integer"));
            }
            Some(_) => {}
        }
    }
}

/// What Kubernetes says of text that is no quantity.
pub fn quantity_words() -> &'static str {
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
}

/// Requests and limits: each for itself, and a request beside its limit.
pub fn check_resources(resources: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(resources) = resources else { return };
    let (limits, requests) = (resources.get("limits"), resources.get("requests"));
    check_amounts(limits, &child(path, "limits"), errors);
    check_amounts(requests, &child(path, "requests"), errors);
    let at = child(path, "requests");
    for (name, value) in requests.and_then(Value::as_object).into_iter().flatten() {
        let Some(request) = quantity(value) else { continue };
        match limits.and_then(|limits| limits.get(name)).and_then(quantity) {
            Some(limit) if !overcommits(name) && request != limit => {
                let words = format!("must be equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(at.as_str(), request.to_string(), words));
            }
            Some(limit) if request > limit => {
                let words = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(at.as_str(), request.to_string(), words));
            }
            None if !overcommits(name) => {
                let words = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(child(path, "limits"), words));
            }
            _ => {}
        }
    }
}

/// Tolerations.
pub fn check_tolerations(tolerations: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    for (position, toleration) in tolerations.iter().enumerate() {
        let at = index(path, position);
        let (name, effect) = (string_at(toleration, "key"), string_at(toleration, "effect"));
        if !name.is_empty() {
            let wrong = names::qualified(name);
            errors.extend(
                wrong
                    .into_iter()
                    .map(|words| FieldError::invalid(child(&at, "key"), name, words)),
            );
        }
        let operator = string_at(toleration, "operator");
        if name.is_empty() && operator != "Exists" {
            let words = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(child(&at, "operator"), operator, words));
        }
        if integer_at(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            let words = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(child(&at, "effect"), effect, words));
        }
        let value = string_at(toleration, "value");
        match operator {
            "" | "Equal" => {
                let wrong = names::label_value(value);
                let at = child(&at, "operator");
                errors.extend(
                    wrong
                        .into_iter()
                        .map(|words| FieldError::invalid(at.as_str(), value, words)),
                );
            }
            "Exists" if !value.is_empty() => {
                let words = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(child(&at, "operator"), toleration.clone(), words));
            }
            "Exists" => {}
            other => {
                let at = child(&at, "operator");
                errors.push(FieldError::not_supported(at, other, &["Equal", "Exists"]));
            }
        }
        check_one_of(
            toleration,
            "effect",
            &at,
            &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            errors,
        );
    }
}
