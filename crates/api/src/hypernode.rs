//! HyperNode: a level of the network above nodes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::wire::unset;

/// Nodes, or smaller HyperNodes, that are close to each other.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["tier"]))]
#[kube(
    group = "topology.volcano.sh",
    version = "v1alpha1",
    kind = "HyperNode",
    doc = "Nodes, or smaller HyperNodes, that are close to each other.",
    status = "HyperNodeStatus",
    shortname = "hn",
    category = "volcano",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Tier", type_ = "integer", json_path = ".spec.tier"),
    printcolumn(name = "TierName", type_ = "string", json_path = ".spec.tierName"),
    printcolumn(name = "NodeCount", type_ = "integer", json_path = ".status.nodeCount"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct HyperNodeSpec {
    /// Level; lower is closer.
    #[schemars(range(min = 0))]
    pub tier: i64,
    /// Name of the level.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "unset")]
    pub tier_name: String,
    /// What it is made of.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "unset")]
    pub members: Vec<Member>,
}

/// Nodes or HyperNodes, chosen by name, pattern or label.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct Member {
    /// What is chosen.
    #[serde(rename = "type")]
    pub member_type: MemberType,
    /// How it is chosen.
    #[serde(skip_serializing_if = "unset")]
    pub selector: MemberSelector,
}

/// What a member is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
pub enum MemberType {
    /// A node.
    #[default]
    Node,
    /// A HyperNode of a lower tier.
    HyperNode,
}

/// Exactly one of the three.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0) + (has(self.labelMatch) ? 1 : 0) <= 1",
        "message": "at most one of exactMatch, regexMatch and labelMatch may be set"
    },
    {
        "rule": "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)",
        "message": "one of exactMatch, regexMatch and labelMatch must be set"
    }
]))]
pub struct MemberSelector {
    /// By name.
    #[serde(skip_serializing_if = "unset")]
    pub exact_match: Option<ExactMatch>,
    /// By pattern.
    #[serde(skip_serializing_if = "unset")]
    pub regex_match: Option<RegexMatch>,
    /// By label; nodes only.
    #[schemars(schema_with = "schema::k8s::<LabelSelector>")]
    #[serde(skip_serializing_if = "unset")]
    pub label_match: Option<LabelSelector>,
}

/// By name.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct ExactMatch {
    /// The name.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::DNS_SUBDOMAIN))]
    pub name: String,
}

/// By pattern.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["pattern"]))]
pub struct RegexMatch {
    /// A regular expression.
    #[schemars(length(min = 1))]
    pub pattern: String,
}

/// What is known of a HyperNode.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct HyperNodeStatus {
    /// Its conditions.
    #[schemars(
        schema_with = "schema::k8s_list::<Condition>",
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"])
    )]
    #[serde(skip_serializing_if = "unset")]
    pub conditions: Vec<Condition>,
    /// Nodes below it.
    #[schemars(range(min = 0))]
    pub node_count: i64,
}
