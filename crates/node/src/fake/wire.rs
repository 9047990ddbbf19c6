//! The few fields of pods and nodes that are decoded from the wire, and the facts made of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use basalt_api::names::FAKE_NODE;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::{ApiResource, DynamicResourceScope, ObjectMeta};
use serde::{Deserialize, Deserializer};

use super::facts::{AtExit, Container, NodeFacts, Phase, PodFacts, Shape, Untainted};
use super::kubelet::Millis;
use super::status;

/// A pod with only the fields that are used here.
pub(crate) type SlimPod = Slim<PodSpec, PodStatus>;
/// A node with only the fields that are used here.
pub(crate) type SlimNode = Slim<NodeSpec, NodeStatus>;

/// An object of which any part may be missing: one odd object must not end a watch.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Slim<S: Default, T: Default> {
    pub(crate) metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable", bound(deserialize = "S: Deserialize<'de>"))]
    spec: S,
    #[serde(default, deserialize_with = "nullable", bound(deserialize = "T: Deserialize<'de>"))]
    status: T,
}

/// `null` is the same as absent.
fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl<S: Default, T: Default> kube::Resource for Slim<S, T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

pub(crate) fn pod_resource() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}

pub(crate) fn node_resource() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&())
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    node_name: Option<String>,
    restart_policy: Option<String>,
    active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    containers: Vec<ContainerSpec>,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<ContainerSpec>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerSpec {
    name: String,
    image: String,
    restart_policy: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    phase: Option<String>,
    start_time: Option<Time>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    last_transition_time: Option<Time>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    restart_count: i32,
    state: Option<ContainerState>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    running: Option<Running>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    started_at: Option<Time>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    #[serde(deserialize_with = "nullable")]
    taints: Vec<serde_json::Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatus {
    #[serde(deserialize_with = "nullable")]
    capacity: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    allocatable: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    addresses: Vec<Address>,
    #[serde(deserialize_with = "nullable")]
    node_info: NodeInfo,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeInfo {
    kubelet_version: String,
}

/// The facts of a bound pod; `None` for one that is not bound.
pub(crate) fn pod_facts(pod: SlimPod) -> Option<PodFacts> {
    let node = pod.spec.node_name.filter(|n| !n.is_empty())?;
    let status = pod.status;
    let deleted = deletion_asked(&pod.metadata);
    let at_exit = match pod.spec.restart_policy.as_deref() {
        Some("Never" | "OnFailure") => AtExit::End,
        _ => AtExit::Restart,
    };
    let shape = Shape::new(
        pod.spec.containers.into_iter().map(container).collect(),
        pod.spec.init_containers.into_iter().map(container).collect(),
        at_exit,
        pod.spec.active_deadline_seconds,
        &pod.metadata.annotations.unwrap_or_default(),
    );
    let first = status.container_statuses.first();
    let running = first.and_then(|c| c.state.as_ref()).and_then(|s| s.running.as_ref());
    let scheduled = status
        .conditions
        .iter()
        .find(|c| c.kind == "PodScheduled" && c.status == "True");
    Some(PodFacts {
        namespace: pod.metadata.namespace?,
        name: pod.metadata.name?,
        uid: pod.metadata.uid?,
        node,
        shape,
        phase: match status.phase.as_deref() {
            Some("Running") => Phase::Running,
            Some("Succeeded" | "Failed") => Phase::Finished,
            _ => Phase::Pending,
        },
        started: status.start_time.as_ref().map(millis),
        run_started: running.and_then(|r| r.started_at.as_ref()).map(millis),
        scheduled: scheduled.and_then(|c| c.last_transition_time.as_ref()).map(millis),
        restarts: first.map_or(0, |c| u32::try_from(c.restart_count).unwrap_or(0)),
        address: status.pod_ip.and_then(|ip| ip.parse().ok()),
        deleted,
    })
}

fn container(spec: ContainerSpec) -> Container {
    Container {
        sidecar: spec.restart_policy.as_deref() == Some("Always"),
        name: spec.name,
        image: spec.image,
    }
}

/// When the deletion was asked for: the deletion timestamp is that moment plus the grace period.
fn deletion_asked(metadata: &ObjectMeta) -> Option<Millis> {
    let grace = metadata
        .deletion_grace_period_seconds
        .unwrap_or(0)
        .max(0)
        .saturating_mul(1_000);
    metadata
        .deletion_timestamp
        .as_ref()
        .map(|at| millis(at).saturating_sub(grace))
}

fn millis(time: &Time) -> Millis {
    time.0.as_millisecond()
}

fn untainted(taints: Vec<serde_json::Value>, version: Option<String>) -> Option<Untainted> {
    let lost = |taint: &serde_json::Value| taint["key"].as_str().is_some_and(|key| status::LOST.contains(&key));
    taints.iter().any(lost).then(|| Untainted {
        taints: taints.into_iter().filter(|taint| !lost(taint)).collect(),
        resource_version: version.unwrap_or_default(),
    })
}

/// The facts of a node.
pub(crate) fn node_facts(node: SlimNode) -> Option<NodeFacts> {
    let name = node.metadata.name?;
    let labels = node.metadata.labels.unwrap_or_default();
    let status = node.status;
    let address = status.addresses.iter().find(|a| a.kind == "InternalIP");
    Some(NodeFacts {
        uid: node.metadata.uid.unwrap_or_default(),
        lost: untainted(node.spec.taints, node.metadata.resource_version),
        fake: labels.get(FAKE_NODE).is_some_and(|v| v == "true"),
        ready: status
            .conditions
            .iter()
            .any(|c| c.kind == "Ready" && c.status == "True"),
        info: !status.node_info.kubelet_version.is_empty(),
        labels: status::node_labels(&name)
            .iter()
            .all(|(key, _)| labels.contains_key(*key)),
        address: address.and_then(|a| a.address.parse().ok()),
        capacity: status.capacity,
        allocatable: status.allocatable,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_on_the_wire_becomes_facts() {
        let pod: SlimPod = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": "a", "name": "p", "uid": "u", "annotations": {"basalt.sh/run-time": "5s"},
                "deletionTimestamp": "1970-01-01T00:01:40Z", "deletionGracePeriodSeconds": 30,
            },
            "spec": {
                "nodeName": "n", "restartPolicy": "Never", "unknown": {"deep": [1]},
                "containers": [{"name": "c", "image": "i"}],
                "initContainers": [{"name": "s", "image": "j", "restartPolicy": "Always"}],
            },
            "status": {
                "phase": "Running", "startTime": "1970-01-01T00:00:10Z", "podIP": "10.0.0.7",
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"}],
                "containerStatuses": [{"restartCount": 2, "state": {"running": {"startedAt": "1970-01-01T00:00:20Z"}}}],
            },
        }))
        .unwrap();
        let facts = pod_facts(pod).unwrap();
        assert_eq!(
            (facts.namespace.as_str(), facts.name.as_str(), facts.uid.as_str()),
            ("a", "p", "u")
        );
        assert_eq!(
            (facts.node.as_str(), facts.phase, facts.restarts),
            ("n", Phase::Running, 2)
        );
        assert_eq!((facts.started, facts.run_started), (Some(10_000), Some(20_000)));
        assert_eq!((facts.scheduled, facts.deleted), (Some(9_000), Some(70_000)));
        assert_eq!((facts.shape.run_time, facts.shape.at_exit), (Some(5_000), AtExit::End));
        assert!(facts.shape.init[0].sidecar && !facts.shape.containers[0].sidecar);
    }

    #[test]
    fn odd_objects_do_no_harm() {
        for value in [
            json!({"metadata": {}, "spec": {}}),
            json!({"metadata": {}, "spec": null, "status": {"conditions": null, "containerStatuses": null}}),
            json!({"metadata": {"name": "p", "namespace": "a", "uid": "u"}}),
            json!({"metadata": {"name": "p", "namespace": "a", "uid": "u"}, "spec": {"nodeName": ""}}),
            json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}, "status": {"podIP": "not an address"}}),
        ] {
            let pod: SlimPod = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(pod_facts(pod), None, "{value}");
        }
        let node: SlimNode =
            serde_json::from_value(json!({"metadata": {"name": "n"}, "status": {"capacity": null, "nodeInfo": null}}))
                .unwrap();
        assert!(!node_facts(node).unwrap().complete());
        let gpu = json!({"key": "gpu", "effect": "NoSchedule"});
        for (taints, rest) in [
            (json!(null), None),
            (json!([gpu]), None),
            (
                json!([gpu, {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
                Some(vec![gpu.clone()]),
            ),
            (
                json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]),
                Some(Vec::new()),
            ),
        ] {
            let metadata = json!({"name": "n", "uid": "u", "resourceVersion": "7"});
            let value = json!({"metadata": metadata, "spec": {"taints": taints}});
            let facts = node_facts(serde_json::from_value(value).unwrap()).unwrap();
            let lost = rest.map(|taints| Untainted {
                taints,
                resource_version: "7".to_owned(),
            });
            assert_eq!((facts.lost, facts.uid.as_str()), (lost, "u"), "{taints}");
        }
    }
}
