//! A pod.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use super::node::{Taint, pairs};
use super::{Selector, World, key};
use crate::amounts::{Dim, ONE, PODS, step};
use crate::quantity::Nano;
use crate::read::{at, leaving, list, meta, node_of, number, text};
use crate::request::of_pod;

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It has no node.
    Waits,
    /// It is on its node, or on the way there.
    Placed,
    /// It is being deleted.
    Leaving,
    /// Nobody knows how it is.
    Lost,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
}

/// What pods of one kind ask for and need; kept once for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    /// What it takes, in steps of the scheduler's arithmetic; itself included.
    pub request: Vec<(Dim, Nano)>,
    /// Protocol, address, port.
    pub ports: Vec<(String, String, i64)>,
    pub selector: Vec<(String, String)>,
    /// One of these must hold.
    pub node_terms: Option<Vec<Vec<Requirement>>>,
    pub tolerations: Vec<Toleration>,
    pub together: Vec<PodTerm>,
    pub apart: Vec<PodTerm>,
}

/// A requirement on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Requirement {
    pub key: String,
    pub on_name: bool,
    pub operator: String,
    pub values: Vec<String>,
}

/// A toleration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Toleration {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

impl Toleration {
    fn covers_all(&self) -> bool {
        self.operator == "Exists" && self.key.is_empty() && self.effect.is_empty()
    }

    pub(crate) fn covers(&self, taint: &Taint) -> bool {
        let exists = self.operator == "Exists";
        let any_key = self.key.is_empty() && exists;
        let same_value = exists || (matches!(self.operator.as_str(), "" | "Equal") && self.value == taint.value);
        (any_key || self.key == taint.key) && same_value && (self.effect.is_empty() || self.effect == taint.effect)
    }
}

/// Other pods that must, or must not, be near.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodTerm {
    pub topology: String,
    pub selector: Selector,
    /// Empty: the pod's own.
    pub namespaces: Vec<String>,
    /// It has a selector of namespaces: not judged.
    pub unjudged: bool,
}

/// A pod.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub key: String,
    pub uid: String,
    pub namespace: String,
    pub group: Option<String>,
    pub role: String,
    pub node: Option<String>,
    pub stand: Stand,
    /// The node that is being cleared for it.
    pub nominated: Option<String>,
    pub gated: bool,
    /// May be evicted for others.
    pub preemptable: bool,
    /// One of the cluster's own.
    pub critical: bool,
    /// A daemon or a static pod: it stays where it is.
    pub fixed: bool,
    /// A daemon that tolerates everything: locks do not keep it away.
    pub everywhere: bool,
    /// Which scheduler it names.
    pub scheduler: String,
    /// The queue that it names itself.
    pub queue: Option<String>,
    pub priority: i64,
    pub labels: BTreeMap<String, String>,
    pub shape: Rc<Shape>,
}

impl Pod {
    pub(super) fn read(world: &mut World, object: &Value) -> Self {
        let namespace = meta(object, "namespace");
        let annotation = |name: &str| at(object, &["metadata", "annotations", name]).as_str();
        let either = |name: &str| annotation(name).or_else(|| at(object, &["metadata", "labels", name]).as_str());
        let group =
            annotation("scheduling.k8s.io/group-name").or_else(|| annotation("scheduling.volcano.sh/group-name"));
        let node = node_of(object);
        let own = at(object, &["spec", "priority"]).as_i64();
        let class = text(object, &["spec", "priorityClassName"]);
        let shape = Shape::read(world, object);
        Self {
            key: key(object),
            uid: meta(object, "uid").to_owned(),
            namespace: namespace.to_owned(),
            group: group.map(|group| format!("{namespace}/{group}")),
            role: either("volcano.sh/task-spec").unwrap_or_default().to_owned(),
            node: (!node.is_empty()).then(|| node.to_owned()),
            stand: stand(object),
            nominated: Some(text(object, &["status", "nominatedNodeName"]))
                .filter(|node| !node.is_empty())
                .map(str::to_owned),
            gated: !list(object, &["spec", "schedulingGates"]).is_empty(),
            preemptable: either("volcano.sh/preemptable")
                .is_none_or(|word| matches!(word, "1" | "t" | "T" | "true" | "TRUE" | "True")),
            critical: namespace == "kube-system" || matches!(class, "system-cluster-critical" | "system-node-critical"),
            fixed: is_daemon(object) || annotation("kubernetes.io/config.mirror").is_some(),
            everywhere: is_daemon(object) && shape.tolerations.iter().any(Toleration::covers_all),
            scheduler: text(object, &["spec", "schedulerName"]).to_owned(),
            queue: annotation("scheduling.volcano.sh/queue-name").map(str::to_owned),
            priority: annotation("volcano.sh/task-priority")
                .and_then(|word| word.parse().ok())
                .or(own)
                .unwrap_or(1),
            labels: pairs(object, &["metadata", "labels"]),
            shape: world.shape(shape),
        }
    }

    /// It counts as its queue's.
    pub(crate) fn is_placed(&self) -> bool {
        self.stand == Stand::Placed
    }

    /// It takes room on its node.
    pub(crate) fn takes_room(&self) -> bool {
        matches!(self.stand, Stand::Placed | Stand::Leaving | Stand::Lost)
    }

    /// It asks for nothing but a place.
    pub(crate) fn is_modest(&self) -> bool {
        self.shape.request.iter().all(|&(dim, _)| dim == PODS)
    }
}

fn is_daemon(object: &Value) -> bool {
    let controller = |owner: &Value| at(owner, &["controller"]).as_bool() == Some(true);
    let owners = list(object, &["metadata", "ownerReferences"]);
    owners
        .iter()
        .any(|owner| controller(owner) && text(owner, &["kind"]) == "DaemonSet")
}

fn stand(object: &Value) -> Stand {
    match text(object, &["status", "phase"]) {
        "Succeeded" => Stand::Succeeded,
        "Failed" => Stand::Failed,
        _ if leaving(object) => Stand::Leaving,
        "Running" => Stand::Placed,
        "Unknown" => Stand::Lost,
        _ if node_of(object).is_empty() => Stand::Waits,
        _ => Stand::Placed,
    }
}

fn owned(value: &Value, key: &str) -> String {
    text(value, &[key]).to_owned()
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    list(value, &[key])
        .iter()
        .map(|value| value.as_str().unwrap_or_default().to_owned())
        .collect()
}

impl Shape {
    fn read(world: &mut World, object: &Value) -> Self {
        let mut request: Vec<(Dim, Nano)> = of_pod(object, &mut Vec::new())
            .into_iter()
            .filter(|(name, amount)| *amount > 0 && *name != "pods")
            .map(|(name, amount)| {
                let dim = world.dim(name);
                let step = step(dim);
                // Counted in whole steps, rounded up.
                (dim, amount.saturating_add(step - 1) / step * step)
            })
            .collect();
        request.push((PODS, ONE));
        request.sort_unstable();
        let affinity = at(object, &["spec", "affinity"]);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let terms = at(affinity, &["nodeAffinity", required]);
        Self {
            request,
            ports: host_ports(object),
            selector: pairs(object, &["spec", "nodeSelector"]).into_iter().collect(),
            node_terms: terms
                .is_object()
                .then(|| list(terms, &["nodeSelectorTerms"]).iter().map(node_term).collect()),
            tolerations: list(object, &["spec", "tolerations"])
                .iter()
                .map(|one| Toleration {
                    key: owned(one, "key"),
                    operator: owned(one, "operator"),
                    value: owned(one, "value"),
                    effect: owned(one, "effect"),
                })
                .collect(),
            together: list(affinity, &["podAffinity", required])
                .iter()
                .map(pod_term)
                .collect(),
            apart: list(affinity, &["podAntiAffinity", required])
                .iter()
                .map(pod_term)
                .collect(),
        }
    }
}

fn node_term(term: &Value) -> Vec<Requirement> {
    let read = |one: &Value, on_name: bool| Requirement {
        key: owned(one, "key"),
        on_name,
        operator: owned(one, "operator"),
        values: texts(one, "values"),
    };
    let labels = list(term, &["matchExpressions"]).iter().map(|one| read(one, false));
    let fields = list(term, &["matchFields"]).iter().map(|one| read(one, true));
    labels.chain(fields).collect()
}

fn pod_term(term: &Value) -> PodTerm {
    PodTerm {
        topology: owned(term, "topologyKey"),
        selector: Selector::read(at(term, &["labelSelector"])),
        namespaces: texts(term, "namespaces"),
        unjudged: !at(term, &["namespaceSelector"]).is_null(),
    }
}

fn host_ports(object: &Value) -> Vec<(String, String, i64)> {
    let containers = list(object, &["spec", "containers"]).iter();
    let mut ports = Vec::new();
    for port in containers.flat_map(|container| list(container, &["ports"])) {
        let number = number(port, &["hostPort"]);
        if number > 0 {
            let protocol = Some(text(port, &["protocol"])).filter(|word| !word.is_empty());
            let address = Some(text(port, &["hostIP"])).filter(|word| !word.is_empty());
            ports.push((
                protocol.unwrap_or("TCP").to_owned(),
                address.unwrap_or("0.0.0.0").to_owned(),
                number,
            ));
        }
    }
    ports.sort();
    ports
}
