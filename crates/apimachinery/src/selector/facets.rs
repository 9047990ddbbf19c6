//! The facets of a stored object: its labels and the few fields that selectors may name.
//!
//! Runs on every write and on replay, so it reads the JSON text with slim types and builds no tree.

use serde::Deserialize;
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

use super::CompactStringMap;

#[derive(Deserialize)]
struct Plain<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
}

#[derive(Default, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default)]
    labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
}

type Text<'a> = Option<Cow<'a, str>>;

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow, default)]
    spec: PodSpec<'a>,
    #[serde(borrow, default)]
    status: PodStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'a> {
    host_network: Option<bool>,
    #[serde(borrow)]
    node_name: Text<'a>,
    #[serde(borrow)]
    restart_policy: Text<'a>,
    #[serde(borrow)]
    scheduler_name: Text<'a>,
    #[serde(borrow)]
    service_account_name: Text<'a>,
}

#[derive(Default, Deserialize)]
struct PodStatus<'a> {
    #[serde(borrow, rename = "nominatedNodeName")]
    nominated_node_name: Text<'a>,
    #[serde(borrow)]
    phase: Text<'a>,
    #[serde(borrow, rename = "podIP")]
    pod_ip: Text<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow, default, alias = "regarding")]
    involved_object: Reference<'a>,
    #[serde(borrow)]
    reason: Text<'a>,
    #[serde(borrow, alias = "reportingController")]
    reporting_component: Text<'a>,
    #[serde(borrow, default, alias = "deprecatedSource")]
    source: Source<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    #[serde(borrow)]
    api_version: Text<'a>,
    #[serde(borrow)]
    field_path: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    resource_version: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
}

#[derive(Default, Deserialize)]
struct Source<'a> {
    #[serde(borrow)]
    component: Text<'a>,
}

#[derive(Deserialize)]
struct Small<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(default)]
    spec: Option<SmallSpec>,
    #[serde(borrow, default)]
    status: Option<SmallStatus<'a>>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
}

#[derive(Deserialize)]
struct SmallSpec {
    unschedulable: Option<bool>,
}

#[derive(Deserialize)]
struct SmallStatus<'a> {
    #[serde(borrow)]
    phase: Text<'a>,
}

/// Labels and selectable fields of a stored object, each sorted by key; empty values are left out of the fields.
/// Text that is no such object has no facets.
pub fn facets(resource: &str, body: &[u8]) -> (CompactStringMap, CompactStringMap) {
    match resource {
        "pods" => serde_json::from_slice::<Pod>(body).map(pod),
        "events" | "events.events.k8s.io" => serde_json::from_slice::<Event>(body).map(event),
        "secrets" | "nodes" | "namespaces" => {
            serde_json::from_slice::<Small>(body).map(|object| small(resource, object))
        }
        _ => serde_json::from_slice::<Plain>(body).map(|object| (labels(object.metadata), CompactStringMap::default())),
    }
    .unwrap_or_default()
}

/// Like [`facets`] for a custom resource whose definition has `selectableFields` (paths without the leading dot).
pub fn facets_of_paths(paths: &[&str], body: &[u8]) -> (CompactStringMap, CompactStringMap) {
    let (labels, _) = facets("", body);
    let Ok(object) = serde_json::from_slice::<Value>(body) else {
        return (labels, CompactStringMap::default());
    };
    let mut fields = Vec::new();
    for path in paths {
        let found = path.split('.').try_fold(&object, |value, step| value.get(step));
        let text = match found {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
            _ => continue,
        };
        fields.push((*path, text));
    }
    fields.sort();
    (labels, fields.into_iter().collect())
}

fn labels(meta: Meta<'_>) -> CompactStringMap {
    meta.labels.unwrap_or_default().into_iter().collect()
}

/// Keeps what has a value; the array is written in order of path.
fn fields<const N: usize>(candidates: [(&str, Text<'_>); N]) -> CompactStringMap {
    debug_assert!(candidates.is_sorted_by(|left, right| left.0 < right.0));
    let present = candidates
        .into_iter()
        .filter_map(|(path, value)| value.map(|value| (path, value)));
    present.filter(|(_, value)| !value.is_empty()).collect()
}

fn pod(pod: Pod<'_>) -> (CompactStringMap, CompactStringMap) {
    let selected = fields([
        ("spec.hostNetwork", flag(pod.spec.host_network)),
        ("spec.nodeName", pod.spec.node_name),
        ("spec.restartPolicy", pod.spec.restart_policy),
        ("spec.schedulerName", pod.spec.scheduler_name),
        ("spec.serviceAccountName", pod.spec.service_account_name),
        ("status.nominatedNodeName", pod.status.nominated_node_name),
        ("status.phase", pod.status.phase),
        ("status.podIP", pod.status.pod_ip),
    ]);
    (labels(pod.metadata), selected)
}

fn event(event: Event<'_>) -> (CompactStringMap, CompactStringMap) {
    let object = event.involved_object;
    // As in Kubernetes, `source` falls back on the reporting component.
    let source = event
        .source
        .component
        .filter(|text| !text.is_empty())
        .or_else(|| event.reporting_component.clone());
    let selected = fields([
        ("involvedObject.apiVersion", object.api_version),
        ("involvedObject.fieldPath", object.field_path),
        ("involvedObject.kind", object.kind),
        ("involvedObject.name", object.name),
        ("involvedObject.namespace", object.namespace),
        ("involvedObject.resourceVersion", object.resource_version),
        ("involvedObject.uid", object.uid),
        ("reason", event.reason),
        ("reportingComponent", event.reporting_component),
        ("source", source),
        ("type", event.kind),
    ]);
    (labels(event.metadata), selected)
}

fn small(resource: &str, object: Small<'_>) -> (CompactStringMap, CompactStringMap) {
    let selected = match resource {
        "secrets" => fields([("type", object.kind)]),
        "nodes" => fields([(
            "spec.unschedulable",
            flag(object.spec.and_then(|spec| spec.unschedulable)),
        )]),
        _ => fields([("status.phase", object.status.and_then(|status| status.phase))]),
    };
    (labels(object.metadata), selected)
}

fn flag(value: Option<bool>) -> Text<'static> {
    value.unwrap_or_default().then_some(Cow::Borrowed("true"))
}
