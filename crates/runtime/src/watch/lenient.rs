//! Objects that may not be readable: one that came around admission must not stop the list it stands in.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::watch::resource_alias::{OnlyMetadata, stands_in_for};

/// An object of type `K`, or what can be said of it if it is none.
#[derive(Debug, Clone)]
pub enum Lenient<K> {
    /// As it should be.
    Readable(K),
    /// Only its metadata could be read.
    Unreadable {
        /// Enough to name it.
        metadata: Box<ObjectMeta>,
        /// What is wrong.
        why: String,
    },
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(raw.get()) {
            Ok(object) => Ok(Self::Readable(object)),
            Err(error) => {
                let rest: OnlyMetadata = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
                Ok(Self::Unreadable {
                    metadata: Box::new(rest.metadata),
                    why: error.to_string(),
                })
            }
        }
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Lenient<K> {
    stands_in_for!(K);

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Readable(object) => object.meta(),
            Self::Unreadable { metadata, .. } => metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Readable(object) => object.meta_mut(),
            Self::Unreadable { metadata, .. } => metadata,
        }
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
        let list: ObjectList<Lenient<ConfigMap>> = serde_json::from_str(&list).expect("the list reads");
        let names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["good", "bad", "good"]);
        assert!(matches!(&list.items[1], Lenient::Unreadable { why, .. } if why.contains("invalid type")));

        let event = format!(r#"{{"type":"MODIFIED","object":{BAD}}}"#);
        let event: WatchEvent<Lenient<ConfigMap>> = serde_json::from_str(&event).expect("the event reads");
        assert!(matches!(event, WatchEvent::Modified(Lenient::Unreadable { .. })));
    }
}
