//! What ties a pod to other pods and to volumes; and the objects that this is about: namespaces, claims, volumes,
//! storage classes.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{NodeRequirement, NodeTerm};

/// Labels of an object.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// Pods of some namespaces with some labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodSelector {
    /// Namespaces by name.
    #[serde(default)]
    pub namespaces: Vec<Arc<str>>,
    /// And those whose labels meet all of these; an empty list takes every namespace.
    #[serde(default)]
    pub namespace_labels: Option<Vec<NodeRequirement>>,
    /// Labels of the pods, all of which must hold; none: no pod at all.
    #[serde(default)]
    pub labels: Option<Vec<NodeRequirement>>,
}

/// Pods, and how near is near: nodes with the same value of this label are one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodTerm {
    /// Which pods.
    pub pods: PodSelector,
    /// The label that says where a node is.
    pub topology: Arc<str>,
}

/// How evenly pods are spread over places.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Spread {
    /// Which pods, over which places.
    pub term: PodTerm,
    /// How many more a place may have than the emptiest one.
    pub max_skew: u32,
    /// With fewer places than this, the emptiest one counts as empty.
    #[serde(default)]
    pub min_domains: u32,
    /// Must hold; otherwise it only counts in the score.
    #[serde(default)]
    pub hard: bool,
    /// Nodes that the pod's selector and affinity leave out do not count.
    #[serde(default)]
    pub honors_affinity: bool,
    /// Nodes with taints that the pod does not tolerate do not count.
    #[serde(default)]
    pub honors_taints: bool,
}

/// What cannot be judged by looking at one node alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ties {
    /// It must be near such pods.
    #[serde(default)]
    pub near: Vec<PodTerm>,
    /// It must not be near such pods.
    #[serde(default)]
    pub apart: Vec<PodTerm>,
    /// It would rather be near such pods or, with a negative weight, rather not.
    #[serde(default)]
    pub wishes: Vec<(i32, PodTerm)>,
    /// How evenly it is to be spread.
    #[serde(default)]
    pub spread: Vec<Spread>,
    /// The claims that it mounts, `namespace/name`.
    #[serde(default)]
    pub claims: Vec<Arc<str>>,
}

/// A namespace, for its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    #[serde(default)]
    pub uid: Arc<str>,
    /// Its labels.
    #[serde(default)]
    pub labels: Labels,
}

/// A claim on a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimFacts {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Its uid.
    #[serde(default)]
    pub uid: Arc<str>,
    /// The volume that it is bound to.
    #[serde(default)]
    pub volume: Option<Arc<str>>,
    /// Its storage class; empty: none.
    #[serde(default)]
    pub class: Arc<str>,
    /// How much it needs, in bytes.
    #[serde(default)]
    pub bytes: i64,
    /// How it is to be used, sorted.
    #[serde(default)]
    pub modes: Vec<Arc<str>>,
    /// A raw device is wanted.
    #[serde(default)]
    pub block: bool,
    /// Labels that its volume must have.
    #[serde(default)]
    pub selector: Vec<NodeRequirement>,
    /// A volume is being made for it on this node.
    #[serde(default)]
    pub node: Option<Arc<str>>,
    /// Being deleted, or lost its volume.
    #[serde(default)]
    pub ending: bool,
}

/// A volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    #[serde(default)]
    pub uid: Arc<str>,
    /// Its storage class; empty: none.
    #[serde(default)]
    pub class: Arc<str>,
    /// Its size, in bytes.
    #[serde(default)]
    pub bytes: i64,
    /// How it can be used, sorted.
    #[serde(default)]
    pub modes: Vec<Arc<str>>,
    /// It is a raw device.
    #[serde(default)]
    pub block: bool,
    /// Its labels; those that name a zone or region bind it to them.
    #[serde(default)]
    pub labels: Labels,
    /// Nodes that reach it: one of these terms must hold. None: all nodes.
    #[serde(default)]
    pub nodes: Option<Vec<NodeTerm>>,
    /// The claim that has it, or for which it is kept.
    #[serde(default)]
    pub claim: Option<Arc<str>>,
    /// Nobody has it yet.
    #[serde(default)]
    pub available: bool,
}

/// A storage class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageFacts {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    #[serde(default)]
    pub uid: Arc<str>,
    /// Volumes are bound only when a pod that needs them is placed.
    #[serde(default)]
    pub waits: bool,
    /// Volumes are made when they are needed.
    #[serde(default)]
    pub provisions: bool,
    /// Where volumes can be made: one of these terms must hold. Empty: everywhere.
    #[serde(default)]
    pub topologies: Vec<NodeTerm>,
}

/// Node groups that a queue wants or avoids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeGroups {
    /// Its pods go to these.
    #[serde(default)]
    pub required: Vec<Arc<str>>,
    /// Better to these, the first the best.
    #[serde(default)]
    pub preferred: Vec<Arc<str>>,
    /// Its pods do not go to these.
    #[serde(default)]
    pub anti_required: Vec<Arc<str>>,
    /// Better not to these.
    #[serde(default)]
    pub anti_preferred: Vec<Arc<str>>,
}

/// How a pod's own annotations change the `resource-strategy-fit` plugin for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Strategy {
    /// True: fuller nodes first; false: emptier ones; none: as configured.
    #[serde(default)]
    pub most: Option<bool>,
    /// Weights of resources, in place of the configured ones.
    #[serde(default)]
    pub weights: BTreeMap<Arc<str>, i64>,
}

/// A port of the node that a pod takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostPort {
    /// The port.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// The node's address; empty: all of them.
    #[serde(default)]
    pub address: Arc<str>,
}

impl HostPort {
    /// Whether both cannot be on one node.
    pub fn clashes(&self, other: &HostPort) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || self.address.is_empty() || other.address.is_empty())
    }
}
