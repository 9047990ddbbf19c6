//! What a pod asks of its node, and what a node holds against pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{HostPort, Strategy};

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: Arc<str>,
    /// The value; may be empty.
    #[serde(default)]
    pub value: Arc<str>,
    /// What it does.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// No new pods.
    NoSchedule,
    /// Better no new pods.
    PreferNoSchedule,
    /// No new pods, and running ones have to go.
    NoExecute,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration {
    /// The key; empty tolerates every key (with `exists`).
    #[serde(default)]
    pub key: Arc<str>,
    /// True: the value does not matter (operator Exists).
    #[serde(default)]
    pub exists: bool,
    /// The value, for operator Equal.
    #[serde(default)]
    pub value: Arc<str>,
    /// Only this effect, or all.
    #[serde(default)]
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Whether this toleration covers the taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key == taint.key || (self.key.is_empty() && self.exists))
            && (self.exists || self.value == taint.value)
    }
}

/// One requirement on a node's labels (or its name).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeRequirement {
    /// The label's key; ignored where `on_name` is set.
    pub key: Arc<str>,
    /// True: the node's name is looked at instead of a label (a match on fields).
    #[serde(default)]
    pub on_name: bool,
    /// How to compare.
    pub operator: NodeOperator,
    /// What to compare with.
    #[serde(default)]
    pub values: Vec<Arc<str>>,
}

impl NodeRequirement {
    /// Whether a label's value (or that there is none) meets the requirement.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let is_listed = |value: &str| self.values.iter().any(|listed| **listed == *value);
        let number = |text: &str| text.parse::<i64>().ok();
        let numbers = || Some((number(value?)?, number(self.values.first()?)?));
        match self.operator {
            NodeOperator::In => value.is_some_and(is_listed),
            NodeOperator::NotIn => !value.is_some_and(is_listed),
            NodeOperator::Exists => value.is_some(),
            NodeOperator::DoesNotExist => value.is_none(),
            NodeOperator::Gt => numbers().is_some_and(|(x, y)| x > y),
            NodeOperator::Lt => numbers().is_some_and(|(x, y)| x < y),
        }
    }
}

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum NodeOperator {
    /// The value is one of these.
    In,
    /// The value is none of these, or there is no such label.
    NotIn,
    /// There is such a label.
    Exists,
    /// There is no such label.
    DoesNotExist,
    /// The value is a number larger than this.
    Gt,
    /// The value is a number smaller than this.
    Lt,
}

/// All requirements of a term must hold; of several terms one.
pub type NodeTerm = Vec<NodeRequirement>;

/// What a pod asks of the node that it goes to. Pods with equal constraints and equal requests are one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Constraints {
    /// Labels that the node must have.
    #[serde(default)]
    pub node_selector: BTreeMap<Arc<str>, Arc<str>>,
    /// Required node affinity: one of these terms must hold. None: no requirement; an empty list matches nothing.
    #[serde(default)]
    pub node_affinity: Option<Vec<NodeTerm>>,
    /// Preferred node affinity: terms with their weights.
    #[serde(default)]
    pub node_wishes: Vec<(i32, NodeTerm)>,
    /// Taints that do not matter.
    #[serde(default)]
    pub tolerations: Vec<Toleration>,
    /// Ports of the node that it takes, sorted.
    #[serde(default)]
    pub ports: Vec<HostPort>,
    /// The images of its containers, one for each.
    #[serde(default)]
    pub images: Vec<Arc<str>>,
    /// How nodes are scored for it.
    #[serde(default)]
    pub strategy: Option<Strategy>,
    /// Of every node, whoever that is locked for: a daemon that tolerates everything.
    #[serde(default)]
    pub everywhere: bool,
    /// Hard constraints that the engine does not know (by name). A pod with one waits instead of having it ignored.
    #[serde(default)]
    pub unsupported: Vec<Arc<str>>,
}
