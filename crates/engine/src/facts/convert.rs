//! Facts from the API's objects. Nothing here can fail: what cannot be understood counts against placement, not for it.

mod ties;

pub(super) use self::ties::requirements;

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_api::duration::Duration;
use basalt_api::names;
use basalt_api::podgroup::{NetworkTopology, PodGroup, PodGroupSpec, SubGroupPolicy, TopologyMode};
use basalt_api::quantity::{Format, Quantity, ResourceList};
use basalt_api::queue::{DequeueStrategy, GuaranteePolicy, Queue};
use basalt_api::slim;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{
    Constraints, HostPort, Labels, NodeFacts, NodeGroups, NodeOperator, NodeRequirement, NodeTerm, Phase, PodFacts,
    PodGroupFacts, PriorityClassFacts, QueueFacts, Resources, Strategy, Taint, TaintEffect, Tally, Toleration,
};

/// A quantity in the engine's units: milli for cpu, whole units for the rest, rounded up. What is too large to count
/// is the largest amount.
pub fn amount(name: &str, quantity: Quantity) -> i64 {
    let exact = if matches!(name, "cpu" | "requests.cpu" | "limits.cpu") {
        quantity.milli()
    } else {
        quantity.units()
    };
    exact.unwrap_or(i64::MAX).max(0)
}

/// The reverse of [`amount`].
pub fn quantity(name: &str, amount: i64) -> Quantity {
    match name {
        "cpu" | "limits.cpu" => Quantity::from_milli(amount),
        "memory" | "ephemeral-storage" => Quantity::from_units(amount, Format::BinarySi),
        _ => Quantity::from_units(amount, Format::DecimalSi),
    }
}

/// A resource list in the engine's units.
pub fn resources(list: &ResourceList) -> Resources {
    list.iter()
        .map(|(name, &quantity)| (Arc::from(name.as_str()), amount(name, quantity)))
        .collect()
}

/// A number that changes with the spec (FNV-1a over its JSON), the same on every machine.
pub fn spec_hash(spec: &PodGroupSpec) -> u64 {
    let json = serde_json::to_vec(spec).unwrap_or_default();
    json.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn text(value: Option<&String>) -> Arc<str> {
    value.map_or_else(|| Arc::from(""), |value| Arc::from(value.as_str()))
}

fn key(metadata: &ObjectMeta) -> Arc<str> {
    let (namespace, name) = (
        metadata.namespace.as_deref().unwrap_or(""),
        metadata.name.as_deref().unwrap_or(""),
    );
    Arc::from(format!("{namespace}/{name}"))
}

fn created_ms(metadata: &ObjectMeta) -> i64 {
    metadata
        .creation_timestamp
        .as_ref()
        .map_or(0, |time| time.0.as_millisecond())
}

fn pairs<'a>(map: impl IntoIterator<Item = (&'a String, &'a String)>) -> BTreeMap<Arc<str>, Arc<str>> {
    map.into_iter()
        .map(|(key, value)| (Arc::from(key.as_str()), Arc::from(value.as_str())))
        .collect()
}

fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    Some(metadata.annotations.as_ref()?.get(name)?.as_str())
}

fn effect(word: &str) -> Option<TaintEffect> {
    Some(match word {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return None,
    })
}

impl From<&slim::Node> for NodeFacts {
    fn from(node: &slim::Node) -> Self {
        // A node that says nothing of being ready counts as ready.
        let not_ready =
            |condition: &slim::NodeCondition| condition.condition_type == "Ready" && condition.status != "True";
        let taint = |taint: &core::Taint| Taint {
            key: Arc::from(taint.key.as_str()),
            value: text(taint.value.as_ref()),
            // An effect of tomorrow keeps pods away.
            effect: effect(&taint.effect).unwrap_or(TaintEffect::NoSchedule),
        };
        NodeFacts {
            name: text(node.metadata.name.as_ref()),
            uid: text(node.metadata.uid.as_ref()),
            allocatable: resources(&node.status.allocatable),
            labels: pairs(node.metadata.labels.iter().flatten()),
            taints: node.spec.taints.iter().map(taint).collect(),
            unschedulable: node.spec.unschedulable,
            not_ready: node.status.conditions.iter().any(not_ready),
            images: images_of(node),
        }
    }
}

fn images_of(node: &slim::Node) -> BTreeMap<Arc<str>, i64> {
    let sized = |image: &slim::NodeImage| {
        let size = image.size_bytes;
        let names = image.names.iter().map(move |name| (Arc::from(name.as_str()), size));
        names.collect::<Vec<_>>()
    };
    node.status.images.iter().flat_map(sized).collect()
}

impl From<&slim::Pod> for PodFacts {
    fn from(pod: &slim::Pod) -> Self {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
        let priority = pod
            .annotation(names::TASK_PRIORITY)
            .and_then(|value| value.parse().ok());
        let scheduler = pod.spec.scheduler_name.as_str();
        let labels: Labels = pairs(pod.metadata.labels.iter().flatten());
        PodFacts {
            key: key(&pod.metadata),
            uid: text(pod.metadata.uid.as_ref()),
            created_ms: created_ms(&pod.metadata),
            scheduler: Arc::from(if scheduler.is_empty() {
                names::DEFAULT_SCHEDULER_NAME
            } else {
                scheduler
            }),
            group: pod.pod_group().map(|name| Arc::from(format!("{namespace}/{name}"))),
            role: Arc::from(
                pod.annotation(names::TASK_SPEC)
                    .or_else(|| pod.label(names::TASK_SPEC))
                    .unwrap_or_default(),
            ),
            priority: priority.or(pod.spec.priority).unwrap_or(1),
            phase: pod.phase(),
            node: (!pod.spec.node_name.is_empty()).then(|| Arc::from(pod.spec.node_name.as_str())),
            terminating: pod.is_deleting(),
            gated: !pod.spec.scheduling_gates.is_empty(),
            preemptable: pod.is_preemptable(),
            preempts: pod.spec.preemption_policy != "Never",
            critical: namespace == "kube-system"
                || matches!(
                    pod.spec.priority_class_name.as_str(),
                    "system-cluster-critical" | "system-node-critical"
                ),
            fixed: is_daemon(&pod.metadata) || pod.annotation(names::MIRROR_POD).is_some(),
            started_ms: pod.status.start_time.as_ref().map_or(0, |time| time.0.as_millisecond()),
            nominated: (!pod.status.nominated_node_name.is_empty())
                .then(|| Arc::from(pod.status.nominated_node_name.as_str())),
            requests: resources(&slim::request(&pod.spec)),
            constraints: Arc::new(constraints(pod)),
            ties: Arc::new(ties::ties(pod, namespace, &labels)),
            labels,
        }
    }
}

fn constraints(pod: &slim::Pod) -> Constraints {
    let spec = &pod.spec;
    let affinity = spec.affinity.as_deref();
    let required = affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let mut tolerations: Vec<Toleration> = spec.tolerations.iter().filter_map(toleration).collect();
    tolerations.sort();
    tolerations.dedup();
    let preferred = affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    let wish = |wish: &core::PreferredSchedulingTerm| (wish.weight, term(&wish.preference));
    Constraints {
        node_selector: pairs(&spec.node_selector),
        node_wishes: preferred.into_iter().flatten().map(wish).collect(),
        node_affinity: required.map(|required| required.node_selector_terms.iter().map(term).collect()),
        tolerations,
        ports: ports(spec),
        images: images(spec),
        strategy: strategy(pod),
        everywhere: is_daemon(&pod.metadata) && spec.tolerations.iter().any(tolerates_everything),
        unsupported: Vec::new(),
    }
}

/// Whether a DaemonSet runs the pod.
fn is_daemon(metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet")
}

fn tolerates_everything(toleration: &core::Toleration) -> bool {
    let no = |word: Option<&String>| word.is_none_or(String::is_empty);
    toleration.operator.as_deref() == Some("Exists") && no(toleration.key.as_ref()) && no(toleration.effect.as_ref())
}

/// Ports of the node that a pod takes, sorted.
fn ports(spec: &slim::PodSpec) -> Vec<HostPort> {
    let port = |port: &slim::HostPort| HostPort {
        // A number that is none of a port is nobody's.
        port: u16::try_from(port.host_port).unwrap_or(u16::MAX),
        protocol: Arc::from(if port.protocol.is_empty() {
            "TCP"
        } else {
            &port.protocol
        }),
        address: Arc::from(if port.host_ip == "0.0.0.0" { "" } else { &port.host_ip }),
    };
    let mut ports: Vec<HostPort> = spec.host_ports().map(port).collect();
    ports.sort();
    ports.dedup();
    ports
}

/// An image's name as nodes report it: with a tag or a digest.
fn image(name: &str) -> Arc<str> {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains(':') || last.contains('@') {
        Arc::from(name)
    } else {
        Arc::from(format!("{name}:latest"))
    }
}

fn images(spec: &slim::PodSpec) -> Vec<Arc<str>> {
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let mut images: Vec<Arc<str>> = containers
        .filter(|container| !container.image.is_empty())
        .map(|container| image(&container.image))
        .collect();
    images.sort();
    images
}

/// What a pod's annotations say of how nodes are scored for it; nonsense says nothing.
fn strategy(pod: &slim::Pod) -> Option<Strategy> {
    let most = match pod.annotation(names::STRATEGY_TYPE) {
        Some("MostAllocated") => Some(true),
        Some("LeastAllocated") => Some(false),
        _ => None,
    };
    let weights: BTreeMap<Arc<str>, i64> = pod
        .annotation(names::STRATEGY_WEIGHT)
        .and_then(|weights| serde_json::from_str(weights).ok())
        .unwrap_or_default();
    (most.is_some() || !weights.is_empty()).then_some(Strategy { most, weights })
}

/// A toleration with an operator or effect that we do not know tolerates nothing.
fn toleration(toleration: &core::Toleration) -> Option<Toleration> {
    let exists = match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => false,
        Some(_) => return None,
    };
    let effect = match toleration.effect.as_deref() {
        None | Some("") => None,
        Some(word) => Some(effect(word)?),
    };
    Some(Toleration {
        key: text(toleration.key.as_ref()),
        exists,
        value: text(toleration.value.as_ref()),
        effect,
    })
}

fn term(term: &core::NodeSelectorTerm) -> NodeTerm {
    let labels = term.match_expressions.iter().flatten().map(|r| requirement(r, false));
    let fields = term.match_fields.iter().flatten().map(|r| requirement(r, true));
    labels.chain(fields).collect()
}

fn requirement(requirement: &core::NodeSelectorRequirement, on_name: bool) -> NodeRequirement {
    let operator = match requirement.operator.as_str() {
        "NotIn" => NodeOperator::NotIn,
        "Exists" => NodeOperator::Exists,
        "DoesNotExist" => NodeOperator::DoesNotExist,
        "Gt" => NodeOperator::Gt,
        "Lt" => NodeOperator::Lt,
        _ => NodeOperator::In,
    };
    NodeRequirement {
        key: Arc::from(requirement.key.as_str()),
        on_name,
        operator,
        values: requirement
            .values
            .iter()
            .flatten()
            .map(|value| Arc::from(value.as_str()))
            .collect(),
    }
}

/// The longest wait of a group, by either name of the annotation; nonsense is none.
fn sla(metadata: &ObjectMeta) -> Option<i64> {
    let annotations = metadata.annotations.as_ref()?;
    let text = [names::SLA_WAITING_TIME, names::SLA_WAITING_TIME_ALIAS]
        .iter()
        .find_map(|&key| annotations.get(key))?;
    let wait = Duration::parse(text).ok()?.as_millis();
    (wait > 0).then_some(wait)
}

/// Whether the minimum of a task already makes a sub-group policy true: pods are placed in the order of their indices, so
/// that the first of them fill whole partitions. Sub-groups that must be close to each other are another matter.
fn is_covered(spec: &PodGroupSpec, policy: &SubGroupPolicy) -> bool {
    let close = policy.network_topology.as_ref();
    let near = close.is_some_and(|topology| topology.mode == TopologyMode::Hard);
    let size = i64::from(policy.sub_group_size.unwrap_or(1));
    let needed = size.saturating_mul(i64::from(policy.min_sub_groups.unwrap_or(0)));
    let minimum = spec.min_task_member.get(&policy.name).copied().map_or(0, i64::from);
    !near && needed <= minimum
}

impl From<&PodGroup> for PodGroupFacts {
    fn from(group: &PodGroup) -> Self {
        let spec = &group.spec;
        let count = |number: i32| u32::try_from(number).unwrap_or(0);
        let hard = |topology: &NetworkTopology| topology.mode == TopologyMode::Hard;
        let mut unsupported: Vec<Arc<str>> = Vec::new();
        if spec.network_topology.as_ref().is_some_and(hard) {
            unsupported.push(Arc::from("networkTopology"));
        }
        if !spec.sub_group_policy.iter().all(|policy| is_covered(spec, policy)) {
            unsupported.push(Arc::from("subGroupPolicy"));
        }
        let queue = if spec.queue.is_empty() {
            names::DEFAULT_QUEUE
        } else {
            &spec.queue
        };
        PodGroupFacts {
            key: key(&group.metadata),
            uid: text(group.metadata.uid.as_ref()),
            created_ms: created_ms(&group.metadata),
            spec_hash: spec_hash(spec),
            queue: Arc::from(queue),
            min_member: count(spec.min_member),
            min_task_member: spec
                .min_task_member
                .iter()
                .map(|(role, &min)| (Arc::from(role.as_str()), count(min)))
                .collect(),
            min_resources: spec.min_resources.as_ref().map(resources),
            priority_class: Arc::from(spec.priority_class_name.as_str()),
            preemptable: group.preemptable(),
            phase: group
                .status
                .as_ref()
                .and_then(|status| status.phase)
                .unwrap_or(Phase::Pending),
            tally: group.status.as_ref().map_or_else(Tally::default, |status| Tally {
                running: count(status.running),
                succeeded: count(status.succeeded),
                failed: count(status.failed),
            }),
            sla_ms: sla(&group.metadata),
            unsupported,
        }
    }
}

impl From<&Queue> for QueueFacts {
    fn from(queue: &Queue) -> Self {
        let spec = &queue.spec;
        // What is being deleted holds nothing any more.
        let kept = queue.metadata.deletion_timestamp.is_none();
        let status = queue.status.as_ref().filter(|_| kept);
        let reservation = status.and_then(|status| status.reservation.as_ref());
        let mut locks: Vec<Arc<str>> = reservation
            .iter()
            .flat_map(|reservation| reservation.nodes.iter().map(|name| Arc::from(name.as_str())))
            .collect();
        locks.sort_unstable();
        locks.dedup();
        QueueFacts {
            locks,
            target: reservation.map_or_else(Resources::new, |reservation| resources(&reservation.target)),
            evicts: spec.guarantee.policy == Some(GuaranteePolicy::Guaranteed),
            name: text(queue.metadata.name.as_ref()),
            uid: text(queue.metadata.uid.as_ref()),
            created_ms: created_ms(&queue.metadata),
            parent: Arc::from(spec.parent.as_str()),
            weight: u32::try_from(spec.weight).unwrap_or(1).max(1),
            priority: spec.priority,
            reclaimable: spec.reclaimable.unwrap_or(true),
            deserved: resources(&spec.deserved),
            guarantee: resources(&spec.guarantee.resource),
            capability: resources(&spec.capability),
            fifo: spec.dequeue_strategy == DequeueStrategy::Fifo,
            hierarchy: annotation(&queue.metadata, names::HIERARCHY).map(|path| {
                let weights = annotation(&queue.metadata, names::HIERARCHY_WEIGHTS).unwrap_or_default();
                (Arc::from(path), Arc::from(weights))
            }),
            node_groups: spec.affinity.as_ref().map(node_groups),
        }
    }
}

fn node_groups(affinity: &basalt_api::queue::Affinity) -> NodeGroups {
    let names = |names: &[String]| names.iter().map(|name| Arc::from(name.as_str())).collect();
    let (mut groups, wanted, avoided) = (
        NodeGroups::default(),
        &affinity.node_group_affinity,
        &affinity.node_group_anti_affinity,
    );
    if let Some(wanted) = wanted {
        groups.required = names(&wanted.required_during_scheduling_ignored_during_execution);
        groups.preferred = names(&wanted.preferred_during_scheduling_ignored_during_execution);
    }
    if let Some(avoided) = avoided {
        groups.anti_required = names(&avoided.required_during_scheduling_ignored_during_execution);
        groups.anti_preferred = names(&avoided.preferred_during_scheduling_ignored_during_execution);
    }
    groups
}

impl From<&PriorityClass> for PriorityClassFacts {
    fn from(class: &PriorityClass) -> Self {
        PriorityClassFacts {
            name: text(class.metadata.name.as_ref()),
            uid: text(class.metadata.uid.as_ref()),
            value: class.value.unwrap_or(0),
            global_default: class.global_default.unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests;
