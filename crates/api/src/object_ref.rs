//! References to objects: one with the kind, for whoever writes, and one without, for indexes of objects of one kind.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use kube::{Resource, ResourceExt};
use serde::{Deserialize, Serialize};

use crate::resource_kind::{self, ResourceKind};

/// A reference to one object: what a request path is made of. Clones share the text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Group and version as on the wire: `v1`, `batch.volcano.sh/v1alpha1`.
    pub api_version: Cow<'static, str>,
    /// Kind as on the wire: `Pod`.
    pub kind: Cow<'static, str>,
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub namespace: Arc<str>,
    /// Object name.
    pub name: Arc<str>,
}

impl ObjectRef {
    /// A reference to `namespace/name` of a kind; the namespace of a cluster-scoped object is empty.
    pub fn new(kind: ResourceKind, namespace: &str, name: &str) -> Self {
        Self {
            api_version: Cow::Borrowed(kind.api_version),
            kind: Cow::Borrowed(kind.kind),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// A reference to an object of a kind that is known only by its words on the wire.
    pub fn of_kind(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        if let Some(known) = ResourceKind::find(api_version, kind) {
            return Self::new(known, namespace, name);
        }
        Self {
            api_version: Cow::Owned(api_version.to_owned()),
            kind: Cow::Owned(kind.to_owned()),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Returns the reference of `object`; nothing for one without a name.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Option<Self> {
        let meta = object.meta();
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        Some(Self::of_kind(
            &K::api_version(&()),
            &K::kind(&()),
            namespace,
            meta.name.as_deref()?,
        ))
    }

    /// The path of the collection that the object is created in.
    pub fn collection_path(&self) -> String {
        match ResourceKind::find(&self.api_version, &self.kind) {
            Some(known) => known.collection_path(&self.namespace),
            None => resource_kind::collection_path(&self.api_version, &plural_of(&self.kind), &self.namespace),
        }
    }

    /// The path of the object, or of one of its subresources.
    pub fn path(&self, subresource: Option<&str>) -> String {
        let object = format!("{}/{}", self.collection_path(), self.name);
        match subresource {
            Some(subresource) => format!("{object}/{subresource}"),
            None => object,
        }
    }
}

/// The plural of a kind that the table does not list, by Kubernetes' rule.
fn plural_of(kind: &str) -> String {
    kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("", "", kind)).plural
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.namespace, &self.name)
    }
}

/// Namespace and name of an object: the key of indexes that hold objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl NamespacedName {
    /// The key of `namespace/name`; the namespace of a cluster-scoped object is empty.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Returns the key of `object`.
    pub fn of(object: &impl ResourceExt) -> Self {
        let meta = object.meta();
        let name = meta.name.as_deref().or(meta.generate_name.as_deref());
        Self::new(meta.namespace.as_deref().unwrap_or_default(), name.unwrap_or_default())
    }

    /// Returns the key of another object in the same namespace.
    #[must_use]
    pub fn in_same_namespace(&self, name: &str) -> Self {
        Self {
            namespace: Arc::clone(&self.namespace),
            name: name.into(),
        }
    }

    /// The key of a cluster-scoped object.
    pub fn of_cluster(name: &str) -> Self {
        Self::new("", name)
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.namespace, &self.name)
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, namespace: &str, name: &str) -> fmt::Result {
    if namespace.is_empty() {
        f.write_str(name)
    } else {
        write!(f, "{namespace}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_written_as_kubernetes_writes_it() {
        let check = |reference: ObjectRef, expected: &str| {
            let text = serde_json::to_string(&reference).expect("plain data");
            assert_eq!(text, expected);
            let read: ObjectRef = serde_json::from_str(&text).expect("our own text");
            assert_eq!(read, reference);
        };
        check(
            ObjectRef::new(resource_kind::JOB, "a", "b"),
            r#"{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","namespace":"a","name":"b"}"#,
        );
        check(
            ObjectRef::new(resource_kind::QUEUE, "", "q"),
            r#"{"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","name":"q"}"#,
        );
    }

    #[test]
    fn the_path_follows_from_the_reference() {
        let check = |reference: ObjectRef, subresource: Option<&str>, expected: &str, display: &str| {
            assert_eq!(reference.path(subresource), expected);
            assert_eq!(reference.to_string(), display);
        };
        check(
            ObjectRef::new(resource_kind::POD, "a", "b"),
            None,
            "/api/v1/namespaces/a/pods/b",
            "a/b",
        );
        check(
            ObjectRef::new(resource_kind::QUEUE, "", "q"),
            Some("status"),
            "/apis/scheduling.volcano.sh/v1beta1/queues/q/status",
            "q",
        );
        check(
            ObjectRef::of_kind("kubeflow.org/v1", "TFPolicy", "a", "b"),
            None,
            "/apis/kubeflow.org/v1/namespaces/a/tfpolicies/b",
            "a/b",
        );
    }

    #[test]
    fn an_object_is_referred_to_by_its_type_and_metadata() {
        let mut pod = crate::slim::Pod::default();
        assert_eq!(ObjectRef::of(&pod), None);
        pod.metadata.name = Some("b".to_owned());
        pod.metadata.namespace = Some("a".to_owned());
        assert_eq!(ObjectRef::of(&pod), Some(ObjectRef::new(resource_kind::POD, "a", "b")));
        assert_eq!(NamespacedName::of(&pod), NamespacedName::new("a", "b"));
    }
}
