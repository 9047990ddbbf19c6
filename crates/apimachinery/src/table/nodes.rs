//! Rows of nodes, services and endpoints: what has addresses.

use super::cells::{name, none_if_empty, object_age, or_none, pairs, plain};
use crate::json::{list_at, string_at};
use jiff::Timestamp;
use serde_json::Value;

pub(super) const NODE_HEADS: &[&str] = &[
    "Name!",
    "Status",
    "Roles",
    "Age",
    "Version",
    "Internal-IP+",
    "External-IP+",
    "OS-Image+",
    "Kernel-Version+",
    "Container-Runtime+",
];

pub(super) fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let or_unknown = |pointer: &str| match string_at(node, pointer) {
        "" => Value::from("<unknown>"),
        found => Value::from(found),
    };
    vec![
        name(node),
        Value::from(node_status(node)),
        node_roles(node),
        object_age(node, now),
        Value::from(string_at(node, "/status/nodeInfo/kubeletVersion")),
        node_address(node, "InternalIP"),
        node_address(node, "ExternalIP"),
        or_unknown("/status/nodeInfo/osImage"),
        or_unknown("/status/nodeInfo/kernelVersion"),
        or_unknown("/status/nodeInfo/containerRuntimeVersion"),
    ]
}

fn node_status(node: &Value) -> String {
    let ready = list_at(node, "/status/conditions")
        .iter()
        .find(|condition| string_at(condition, "/type") == "Ready");
    let mut status = match ready.map(|condition| string_at(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn node_roles(node: &Value) -> Value {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<String> = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => roles.push(role.to_owned()),
            None if key == "kubernetes.io/role" && value != "" => roles.push(plain(value)),
            _ => {}
        }
    }
    roles.sort();
    none_if_empty(&roles.join(","))
}

fn node_address(node: &Value, kind: &str) -> Value {
    let found = list_at(node, "/status/addresses")
        .iter()
        .find(|address| string_at(address, "/type") == kind);
    found.map_or_else(|| Value::from("<none>"), |address| or_none(address, "/address"))
}

pub(super) const SERVICE_HEADS: &[&str] = &[
    "Name!",
    "Type",
    "Cluster-IP",
    "External-IP",
    "Port(s)",
    "Age",
    "Selector+",
];

pub(super) fn service(service: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(service),
        Value::from(string_at(service, "/spec/type")),
        or_none(service, "/spec/clusterIP"),
        Value::from(external_ip(service)),
        none_if_empty(
            &list_at(service, "/spec/ports")
                .iter()
                .map(service_port)
                .collect::<Vec<_>>()
                .join(","),
        ),
        object_age(service, now),
        pairs(service.pointer("/spec/selector")),
    ]
}

fn external_ip(service: &Value) -> String {
    let given: Vec<String> = list_at(service, "/spec/externalIPs").iter().map(plain).collect();
    let or_none = |words: Vec<String>| {
        if words.is_empty() {
            "<none>".to_owned()
        } else {
            words.join(",")
        }
    };
    match string_at(service, "/spec/type") {
        "ExternalName" => string_at(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let ingress = list_at(service, "/status/loadBalancer/ingress").iter();
            let address = |entry: &Value| match string_at(entry, "/ip") {
                "" => string_at(entry, "/hostname").to_owned(),
                ip => ip.to_owned(),
            };
            let all: Vec<String> = ingress.map(address).chain(given).collect();
            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        _ => or_none(given),
    }
}

fn service_port(port: &Value) -> String {
    let number = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or_default();
    let protocol = string_at(port, "/protocol");
    match number("nodePort") {
        0 => format!("{}/{protocol}", number("port")),
        node_port => format!("{}:{node_port}/{protocol}", number("port")),
    }
}

pub(super) const ENDPOINTS_HEADS: &[&str] = &["Name!", "Endpoints", "Age"];

pub(super) fn endpoints(endpoints: &Value, now: Timestamp) -> Vec<Value> {
    let mut found = Vec::new();
    for subset in list_at(endpoints, "/subsets") {
        let ports = list_at(subset, "/ports");
        for address in list_at(subset, "/addresses") {
            let ip = string_at(address, "/ip");
            if ports.is_empty() {
                found.push(ip.to_owned());
            }
            let numbers = ports.iter().filter_map(|port| port.get("port").and_then(Value::as_i64));
            found.extend(numbers.map(|number| format!("{ip}:{number}")));
        }
    }
    let shown = found.iter().take(3).cloned().collect::<Vec<_>>().join(",");
    let cell = if found.len() > 3 {
        format!("{shown} + {} more...", found.len() - 3)
    } else {
        shown
    };
    vec![name(endpoints), none_if_empty(&cell), object_age(endpoints, now)]
}
