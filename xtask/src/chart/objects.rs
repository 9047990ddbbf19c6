//! What must hold of the chart's objects, whatever the values.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The objects of a stream of YAML documents.
fn read(text: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in format!("\n{text}").split("\n---\n") {
        if document
            .lines()
            .all(|line| line.trim().is_empty() || line.starts_with('#'))
        {
            continue;
        }
        let object: Value = serde_saphyr::from_str(document).with_context(|| format!("no YAML:\n{document:.400}"))?;
        objects.push(object);
    }
    Ok(objects)
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(path).and_then(Value::as_array).into_iter().flatten()
}

/// Who an object is, for people.
fn title(object: &Value) -> String {
    format!("{} {}", text(object, "/kind"), text(object, "/metadata/name"))
}

/// Kinds that belong to the whole cluster.
const CLUSTER_WIDE: [&str; 6] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "Namespace",
    "ValidatingWebhookConfiguration",
];

/// Findings about the objects of a rendered chart.
pub(super) fn check(stream: &str) -> Result<Vec<String>> {
    let objects = read(stream)?;
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for object in &objects {
        let title = title(object);
        let mut say = |what: String| findings.push(format!("{title}: {what}"));
        let key = (title.clone(), text(object, "/metadata/namespace").to_owned());
        if !seen.insert(key) {
            say("is there twice".to_owned());
        }
        let cluster_wide = CLUSTER_WIDE.contains(&text(object, "/kind"));
        if cluster_wide != text(object, "/metadata/namespace").is_empty() {
            say("has a namespace where it should have none, or none where it should".to_owned());
        }
        if text(object, "/metadata/labels/app.kubernetes.io~1name") != "basalt" {
            say("has not our labels".to_owned());
        }
        match text(object, "/kind") {
            "CustomResourceDefinition" if !keeps(object) => {
                say("would go with the release, and its objects".to_owned());
            }
            "Deployment" | "Job" => {
                for what in pod_findings(&object["spec"]["template"]["spec"]) {
                    say(what);
                }
            }
            _ => {}
        }
    }
    findings.extend(references(&objects));
    Ok(findings)
}

fn keeps(object: &Value) -> bool {
    text(object, "/metadata/annotations/helm.sh~1resource-policy") == "keep"
}

/// What a pod of ours must be: the rules of the restricted level, and a file system that nobody writes.
fn pod_findings(pod: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    let mut want = |place: &Value, path: &str, expected: Option<Value>| {
        let found = place.pointer(path);
        match expected {
            Some(expected) if found != Some(&expected) => findings.push(format!("{path} is not {expected}")),
            None if found.is_none() => findings.push(format!("{path} is missing")),
            _ => {}
        }
    };
    want(pod, "/securityContext/runAsNonRoot", Some(json!(true)));
    want(
        pod,
        "/securityContext/seccompProfile/type",
        Some(json!("RuntimeDefault")),
    );
    want(pod, "/enableServiceLinks", Some(json!(false)));
    for container in list(pod, "/containers") {
        want(
            container,
            "/securityContext/allowPrivilegeEscalation",
            Some(json!(false)),
        );
        want(container, "/securityContext/readOnlyRootFilesystem", Some(json!(true)));
        want(container, "/securityContext/capabilities/drop", Some(json!(["ALL"])));
        want(container, "/resources/requests/cpu", None);
        want(container, "/resources/requests/memory", None);
        want(container, "/resources/limits/memory", None);
    }
    findings
}

/// What one object says of another must be there.
fn references(objects: &[Value]) -> Vec<String> {
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for object in objects {
        names
            .entry(text(object, "/kind"))
            .or_default()
            .insert(text(object, "/metadata/name"));
    }
    let known = |kind: &str, name: &str| names.get(kind).is_some_and(|names| names.contains(name));
    let mut findings = Vec::new();
    for object in objects {
        let mut need = |kind: &str, name: &str| {
            if !name.is_empty() && !known(kind, name) {
                findings.push(format!("{}: there is no {kind} {name}", title(object)));
            }
        };
        let pod = "/spec/template/spec";
        need("ServiceAccount", text(object, &format!("{pod}/serviceAccountName")));
        for volume in list(object, &format!("{pod}/volumes")) {
            need("ConfigMap", text(volume, "/configMap/name"));
        }
        need(text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
        for subject in list(object, "/subjects") {
            need(text(subject, "/kind"), text(subject, "/name"));
        }
        for webhook in list(object, "/webhooks") {
            need("Service", text(webhook, "/clientConfig/service/name"));
        }
        if text(object, "/kind") == "Service" && !selects(object, objects) {
            findings.push(format!("{}: selects no pods, or not those ports", title(object)));
        }
    }
    findings
}

/// Whether a Service finds pods that have its ports.
fn selects(service: &Value, objects: &[Value]) -> bool {
    let wanted = service["spec"]["selector"].as_object();
    let deployments = objects.iter().filter(|object| text(object, "/kind") == "Deployment");
    let mut pods = deployments.map(|deployment| &deployment["spec"]["template"]);
    pods.any(|pod| {
        let labels = &pod["metadata"]["labels"];
        let matches = wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)));
        let ports: BTreeSet<&str> = list(pod, "/spec/containers/0/ports")
            .map(|port| text(port, "/name"))
            .collect();
        matches && list(service, "/spec/ports").all(|port| ports.contains(text(port, "/targetPort")))
    })
}

#[cfg(test)]
mod tests;
