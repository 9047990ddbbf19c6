//! A node, slim.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::quantity::ResourceList;
use crate::wire::{or_default, unset};

/// A node.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(default)]
pub struct Node {
    /// Name, labels, annotations.
    #[serde(deserialize_with = "super::metadata")]
    pub metadata: ObjectMeta,
    /// What keeps pods away.
    #[serde(deserialize_with = "or_default")]
    pub spec: NodeSpec,
    /// What it offers.
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

/// What keeps pods away from a node.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Takes no new pods.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub unschedulable: bool,
    /// Taints that a pod must bear.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// What a node offers.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// What pods can have.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub allocatable: ResourceList,
    /// What there is in all.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub capacity: ResourceList,
    /// Its conditions.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub conditions: Vec<NodeCondition>,
    /// Images that it has.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub images: Vec<NodeImage>,
}

/// An image on a node.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeImage {
    /// Its names.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub names: Vec<String>,
    /// Its size.
    #[serde(skip_serializing_if = "unset", deserialize_with = "or_default")]
    pub size_bytes: i64,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct NodeCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub condition_type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

impl Node {
    /// Whether its kubelet says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.status
            .conditions
            .iter()
            .any(|condition| condition.condition_type == "Ready" && condition.status == "True")
    }

    /// Ready, and not cordoned.
    pub fn is_schedulable(&self) -> bool {
        self.is_ready() && !self.spec.unschedulable
    }

    /// A label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// What pods can have: allocatable, or capacity where a node says no more.
    pub fn offers(&self) -> &ResourceList {
        if self.status.allocatable.is_empty() {
            &self.status.capacity
        } else {
            &self.status.allocatable
        }
    }
}
