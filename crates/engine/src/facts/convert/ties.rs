//! What ties pods to each other and to volumes, from the API's objects.

use std::sync::Arc;

use basalt_api::quantity::Quantity;
use basalt_api::slim;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use super::{key, pairs, term, text};
use crate::facts::{
    ClaimFacts, Labels, NamespaceFacts, NodeOperator, NodeRequirement, PodSelector, PodTerm, Spread, StorageFacts,
    Ties, VolumeFacts,
};

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

fn requirement(key: &str, operator: NodeOperator, values: &[String]) -> NodeRequirement {
    let mut values: Vec<Arc<str>> = values.iter().map(|value| Arc::from(value.as_str())).collect();
    values.sort();
    NodeRequirement {
        key: Arc::from(key),
        on_name: false,
        operator,
        values,
    }
}

/// The requirements of a selector, sorted. An operator that we do not know holds for nothing.
pub(in crate::facts) fn requirements(selector: &LabelSelector) -> Vec<NodeRequirement> {
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| requirement(key, NodeOperator::In, std::slice::from_ref(value)));
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let values = expression.values.as_deref().unwrap_or_default();
        match expression.operator.as_str() {
            "In" => requirement(&expression.key, NodeOperator::In, values),
            "NotIn" => requirement(&expression.key, NodeOperator::NotIn, values),
            "Exists" => requirement(&expression.key, NodeOperator::Exists, &[]),
            "DoesNotExist" => requirement(&expression.key, NodeOperator::DoesNotExist, &[]),
            _ => requirement(&expression.key, NodeOperator::In, &[]),
        }
    });
    let mut all: Vec<NodeRequirement> = labels.chain(expressions).collect();
    all.sort();
    all.dedup();
    all
}

/// A selector narrowed by the pod's own values of some labels.
fn narrowed(
    selector: Option<&LabelSelector>,
    own: &Labels,
    same: Option<&Vec<String>>,
    other: Option<&Vec<String>>,
) -> Option<Vec<NodeRequirement>> {
    let mut all = requirements(selector?);
    let keys = |list: Option<&Vec<String>>| list.cloned().unwrap_or_default();
    for (keys, operator) in [(keys(same), NodeOperator::In), (keys(other), NodeOperator::NotIn)] {
        for key in keys {
            if let Some(value) = own.get(key.as_str()) {
                all.push(requirement(&key, operator, &[value.to_string()]));
            }
        }
    }
    all.sort();
    all.dedup();
    Some(all)
}

fn pod_term(term: &core::PodAffinityTerm, namespace: &str, own: &Labels) -> PodTerm {
    let mut namespaces: Vec<Arc<str>> = term
        .namespaces
        .iter()
        .flatten()
        .map(|name| Arc::from(name.as_str()))
        .collect();
    if namespaces.is_empty() && term.namespace_selector.is_none() {
        namespaces.push(Arc::from(namespace));
    }
    namespaces.sort();
    namespaces.dedup();
    let (same, other) = (term.match_label_keys.as_ref(), term.mismatch_label_keys.as_ref());
    PodTerm {
        pods: PodSelector {
            namespaces,
            namespace_labels: term.namespace_selector.as_ref().map(requirements),
            labels: narrowed(term.label_selector.as_ref(), own, same, other),
        },
        topology: Arc::from(term.topology_key.as_str()),
    }
}

fn spread(constraint: &core::TopologySpreadConstraint, namespace: &str, own: &Labels) -> Spread {
    let count = |number: i32| u32::try_from(number).unwrap_or(0).max(1);
    Spread {
        term: PodTerm {
            pods: PodSelector {
                namespaces: vec![Arc::from(namespace)],
                namespace_labels: None,
                labels: narrowed(
                    constraint.label_selector.as_ref(),
                    own,
                    constraint.match_label_keys.as_ref(),
                    None,
                ),
            },
            topology: Arc::from(constraint.topology_key.as_str()),
        },
        max_skew: count(constraint.max_skew),
        min_domains: constraint.min_domains.map_or(1, count),
        hard: constraint.when_unsatisfiable != "ScheduleAnyway",
        honors_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
        honors_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
    }
}

/// The ties of a pod. `own`: its labels.
pub(super) fn ties(pod: &slim::Pod, namespace: &str, own: &Labels) -> Ties {
    let mut ties = Ties::default();
    if let Some(affinity) = pod.spec.affinity.as_deref() {
        let required = |list: Option<&Vec<core::PodAffinityTerm>>| -> Vec<PodTerm> {
            list.into_iter()
                .flatten()
                .map(|term| pod_term(term, namespace, own))
                .collect()
        };
        let wishes = |list: Option<&Vec<core::WeightedPodAffinityTerm>>, sign: i32| -> Vec<(i32, PodTerm)> {
            let wish = |wish: &core::WeightedPodAffinityTerm| {
                (
                    wish.weight.saturating_mul(sign),
                    pod_term(&wish.pod_affinity_term, namespace, own),
                )
            };
            list.into_iter().flatten().map(wish).collect()
        };
        if let Some(near) = &affinity.pod_affinity {
            ties.near = required(near.required_during_scheduling_ignored_during_execution.as_ref());
            ties.wishes = wishes(near.preferred_during_scheduling_ignored_during_execution.as_ref(), 1);
        }
        if let Some(apart) = &affinity.pod_anti_affinity {
            ties.apart = required(apart.required_during_scheduling_ignored_during_execution.as_ref());
            let preferred = apart.preferred_during_scheduling_ignored_during_execution.as_ref();
            ties.wishes.extend(wishes(preferred, -1));
        }
    }
    let spreads = pod.spec.topology_spread_constraints.iter();
    ties.spread = spreads.map(|constraint| spread(constraint, namespace, own)).collect();
    let claims = pod.claims().into_iter();
    ties.claims = claims.map(|claim| Arc::from(format!("{namespace}/{claim}"))).collect();
    ties.claims.sort();
    ties.claims.dedup();
    ties
}

/// A size in bytes; what cannot be read is the largest.
fn bytes(size: Option<&Text>) -> i64 {
    size.map_or(0, |size| {
        size.0
            .parse::<Quantity>()
            .ok()
            .and_then(|size| size.units().ok())
            .unwrap_or(i64::MAX)
    })
}

fn sorted(modes: Option<&Vec<String>>) -> Vec<Arc<str>> {
    let mut modes: Vec<Arc<str>> = modes
        .into_iter()
        .flatten()
        .map(|mode| Arc::from(mode.as_str()))
        .collect();
    modes.sort();
    modes
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a String> {
    metadata.annotations.as_ref()?.get(key)
}

impl From<&core::Namespace> for NamespaceFacts {
    fn from(namespace: &core::Namespace) -> Self {
        NamespaceFacts {
            name: text(namespace.metadata.name.as_ref()),
            uid: text(namespace.metadata.uid.as_ref()),
            labels: pairs(namespace.metadata.labels.iter().flatten()),
        }
    }
}

impl From<&core::PersistentVolumeClaim> for ClaimFacts {
    fn from(claim: &core::PersistentVolumeClaim) -> Self {
        let metadata = &claim.metadata;
        let spec = claim.spec.clone().unwrap_or_default();
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        let named = spec.volume_name.as_ref().filter(|name| !name.is_empty());
        let complete = annotation(metadata, BIND_COMPLETED).is_some() || phase == Some("Bound");
        let requests = spec
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref());
        ClaimFacts {
            key: key(metadata),
            uid: text(metadata.uid.as_ref()),
            volume: named.filter(|_| complete).map(|name| Arc::from(name.as_str())),
            class: text(annotation(metadata, OLD_CLASS).or(spec.storage_class_name.as_ref())),
            bytes: bytes(requests.and_then(|requests| requests.get("storage"))),
            modes: sorted(spec.access_modes.as_ref()),
            block: spec.volume_mode.as_deref() == Some("Block"),
            selector: spec.selector.as_ref().map(requirements).unwrap_or_default(),
            node: annotation(metadata, SELECTED_NODE).map(|node| Arc::from(node.as_str())),
            ending: metadata.deletion_timestamp.is_some() || phase == Some("Lost"),
        }
    }
}

impl From<&core::PersistentVolume> for VolumeFacts {
    fn from(volume: &core::PersistentVolume) -> Self {
        let metadata = &volume.metadata;
        let spec = volume.spec.clone().unwrap_or_default();
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let required = spec
            .node_affinity
            .as_ref()
            .and_then(|affinity| affinity.required.as_ref());
        let claim = spec.claim_ref.as_ref().map(|claim| {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            Arc::from(format!("{}/{}", part(&claim.namespace), part(&claim.name)))
        });
        VolumeFacts {
            name: text(metadata.name.as_ref()),
            uid: text(metadata.uid.as_ref()),
            class: text(annotation(metadata, OLD_CLASS).or(spec.storage_class_name.as_ref())),
            bytes: bytes(spec.capacity.as_ref().and_then(|capacity| capacity.get("storage"))),
            modes: sorted(spec.access_modes.as_ref()),
            block: spec.volume_mode.as_deref() == Some("Block"),
            labels: pairs(metadata.labels.iter().flatten()),
            nodes: required.map(|required| required.node_selector_terms.iter().map(term).collect()),
            claim,
            available: phase == Some("Available") && metadata.deletion_timestamp.is_none(),
        }
    }
}

impl From<&StorageClass> for StorageFacts {
    fn from(class: &StorageClass) -> Self {
        let term = |term: &core::TopologySelectorTerm| {
            let labels = term.match_label_expressions.iter().flatten();
            labels
                .map(|label| requirement(&label.key, NodeOperator::In, &label.values))
                .collect()
        };
        StorageFacts {
            name: text(class.metadata.name.as_ref()),
            uid: text(class.metadata.uid.as_ref()),
            waits: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            provisions: class.provisioner != NO_PROVISIONER,
            topologies: class.allowed_topologies.iter().flatten().map(term).collect(),
        }
    }
}
