//! NodeShard: the nodes of one scheduler among several.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::wire::unset;

/// The nodes that a scheduler should have.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["nodesDesired"]))]
#[kube(
    group = "shard.volcano.sh",
    version = "v1alpha1",
    kind = "NodeShard",
    doc = "The nodes of one scheduler among several.",
    status = "NodeShardStatus",
    shortname = "nsh",
    category = "volcano",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct NodeShardSpec {
    /// Names of the nodes.
    pub nodes_desired: Vec<String>,
}

/// The nodes that a scheduler has.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeShardStatus {
    /// When this was written.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub last_update_time: Option<Time>,
    /// Nodes in use.
    #[serde(skip_serializing_if = "unset")]
    pub nodes_in_use: Vec<String>,
    /// Nodes to let go.
    #[serde(skip_serializing_if = "unset")]
    pub nodes_to_remove: Vec<String>,
    /// Nodes to take.
    #[serde(skip_serializing_if = "unset")]
    pub nodes_to_add: Vec<String>,
}
