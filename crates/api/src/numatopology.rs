//! Numatopology: the NUMA layout of a node.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::unset;

/// The NUMA layout of the node of the same name.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[kube(
    group = "nodeinfo.volcano.sh",
    version = "v1alpha1",
    kind = "Numatopology",
    plural = "numatopologies",
    doc = "The NUMA layout of the node of the same name.",
    shortname = "numatopo",
    category = "volcano",
    derive = "Default",
    derive = "PartialEq"
)]
pub struct NumatopologySpec {
    /// `CPUManagerPolicy` and `TopologyManagerPolicy`.
    #[serde(skip_serializing_if = "unset")]
    pub policies: BTreeMap<String, String>,
    /// Reserved amounts by resource.
    #[serde(skip_serializing_if = "unset")]
    pub res_reserved: BTreeMap<String, String>,
    /// Resources that have a NUMA layout.
    #[serde(skip_serializing_if = "unset")]
    pub numares: BTreeMap<String, ResourceInfo>,
    /// Where each cpu is.
    #[serde(skip_serializing_if = "unset")]
    pub cpu_detail: BTreeMap<String, CpuInfo>,
}

/// One resource with a NUMA layout.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceInfo {
    /// Ids that can be given out, as `0-3,8`.
    #[serde(skip_serializing_if = "unset")]
    pub allocatable: String,
    /// How many there are.
    #[serde(skip_serializing_if = "unset")]
    pub capacity: i64,
}

/// Where a cpu is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct CpuInfo {
    /// Its NUMA node.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub numa: i64,
    /// Its socket.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub socket: i64,
    /// Its core.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub core: i64,
}
