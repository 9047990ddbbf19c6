//! Facts from manifests: objects as they are written in files.

use basalt_api::{PodGroup, Queue, slim};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Event;

/// Why a manifest cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// Not an object of the API.
    #[error("{field} is missing")]
    Missing {
        /// Which field.
        field: &'static str,
    },
    /// A field has the wrong shape.
    #[error("{kind} {name:?}, field {field}: {message}")]
    Field {
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
        /// Where, from the object's top.
        field: String,
        /// What is wrong with it.
        message: String,
    },
}

impl Event {
    /// Reads a manifest. None: the kind is none that the engine decides by.
    pub fn from_manifest(object: &Value) -> Result<Option<Event>, ManifestError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let (kind, group) = (text("/kind"), text("/apiVersion"));
        if kind.is_empty() || group.is_empty() {
            let field = if kind.is_empty() { "kind" } else { "apiVersion" };
            return Err(ManifestError::Missing { field });
        }
        let group = group.rsplit_once('/').map_or("", |(group, _)| group);
        let event = match (group, kind) {
            ("", "Node") => Event::Node((&parse::<slim::Node>(object)?).into()),
            ("", "Pod") => Event::Pod((&parse::<slim::Pod>(object)?).into()),
            ("scheduling.volcano.sh", "PodGroup") => Event::PodGroup((&parse::<PodGroup>(object)?).into()),
            ("scheduling.volcano.sh", "Queue") => Event::Queue((&parse::<Queue>(object)?).into()),
            ("scheduling.k8s.io", "PriorityClass") => Event::PriorityClass((&parse::<PriorityClass>(object)?).into()),
            ("", "ResourceQuota") => Event::Quota((&parse::<core::ResourceQuota>(object)?).into()),
            ("policy", "PodDisruptionBudget") => Event::Budget((&parse::<PodDisruptionBudget>(object)?).into()),
            ("", "Namespace") => Event::Namespace((&parse::<core::Namespace>(object)?).into()),
            ("", "PersistentVolumeClaim") => Event::Claim((&parse::<core::PersistentVolumeClaim>(object)?).into()),
            ("", "PersistentVolume") => Event::Volume((&parse::<core::PersistentVolume>(object)?).into()),
            ("storage.k8s.io", "StorageClass") => Event::Storage((&parse::<StorageClass>(object)?).into()),
            _ => return Ok(None),
        };
        if text("/metadata/name").is_empty() {
            return Err(ManifestError::Missing { field: "metadata.name" });
        }
        Ok(Some(event))
    }
}

fn parse<T: DeserializeOwned>(object: &Value) -> Result<T, ManifestError> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
        ManifestError::Field {
            kind: text("/kind"),
            name: text("/metadata/name"),
            field: error.path().to_string(),
            message: error.inner().to_string(),
        }
    })
}
