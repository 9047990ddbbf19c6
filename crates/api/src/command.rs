//! Command: an order to a job or a queue, consumed once.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::Action;
use crate::schema;
use crate::wire::unset;

/// The order. On the wire these fields stand at the top of the object: there is no `spec`.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[kube(
    group = "bus.volcano.sh",
    version = "v1alpha1",
    kind = "Command",
    doc = "An order to a job or a queue, consumed once.",
    namespaced,
    no_spec,
    category = "volcano",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Action", type_ = "string", json_path = ".action"),
    printcolumn(name = "Kind", type_ = "string", json_path = ".target.kind"),
    printcolumn(name = "Target", type_ = "string", json_path = ".target.name"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct CommandSpec {
    /// What to do.
    #[serde(skip_serializing_if = "unset")]
    pub action: Action,
    /// To whom: kind, name and uid.
    #[schemars(schema_with = "schema::k8s::<OwnerReference>")]
    #[serde(skip_serializing_if = "unset", rename = "target")]
    pub target: Option<OwnerReference>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "unset")]
    pub reason: String,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "unset")]
    pub message: String,
}
