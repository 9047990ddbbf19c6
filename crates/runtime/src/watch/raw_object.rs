//! Objects as they came over a watch: what names them, and their text.
//!
//! One type for all kinds keeps the client and the watcher from being compiled once for every kind; and an object that
//! came around admission and cannot be read does not stop the list that it stands in.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object of any kind that was not read yet.
#[derive(Debug, Clone)]
pub struct RawObject {
    /// Name, namespace, uid and resourceVersion; nothing else.
    metadata: ObjectMeta,
    text: Box<RawValue>,
}

impl RawObject {
    /// Reads the object.
    pub fn read<K: DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(self.text.get())
    }
}

/// The part of an object that is always read.
#[derive(Deserialize)]
struct NamedObject {
    metadata: ObjectIdentity,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectIdentity {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let NamedObject { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            namespace: metadata.namespace,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, text })
    }
}

impl Resource for RawObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;
    use kube::core::{ObjectList, WatchEvent};

    const GOOD: &str = r#"{"metadata":{"name":"good"},"data":{"a":"b"}}"#;
    const BAD: &str = r#"{"metadata":{"name":"bad"},"data":{"a":7}}"#;

    #[test]
    fn one_bad_object_spoils_neither_a_list_nor_a_watch() {
        let list =
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMapList","metadata":{{}},"items":[{GOOD},{BAD},{GOOD}]}}"#);
        let list: ObjectList<RawObject> = serde_json::from_str(&list).expect("the list reads");
        let names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["good", "bad", "good"]);
        assert!(list.items[0].read::<ConfigMap>().is_ok());
        let error = list.items[1].read::<ConfigMap>().expect_err("a number is no text");
        assert!(error.to_string().contains("invalid type"), "{error}");

        let event = format!(r#"{{"type":"MODIFIED","object":{BAD}}}"#);
        let event: WatchEvent<RawObject> = serde_json::from_str(&event).expect("the event reads");
        assert!(matches!(event, WatchEvent::Modified(object) if object.read::<ConfigMap>().is_err()));
    }
}
