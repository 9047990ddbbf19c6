//! Small things that all controllers do with objects.

use basalt_api::ObjectRef;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde::Serialize;
use serde_json::Value;

use crate::change::Change;

/// Our types are plain data with text keys, which always serialise.
pub(crate) fn value<T: Serialize>(plain: &T) -> Value {
    serde_json::to_value(plain).expect("plain data serialises")
}

/// The uid of an object; nothing for one that was never stored.
pub(crate) fn uid<K: Resource>(object: &K) -> Option<&str> {
    object.meta().uid.as_deref()
}

/// The owner that controls an object.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
}

/// Whether an owner is of kind `K`.
pub(crate) fn is_a<K: Resource<DynamicType = ()>>(owner: &OwnerReference) -> bool {
    owner.kind == K::kind(&()) && owner.api_version == K::api_version(&())
}

/// The reference by which `owner` controls an object: the garbage collector removes the one after the other.
pub(crate) fn owned_by<K: Resource<DynamicType = ()>>(owner: &K) -> Option<Vec<OwnerReference>> {
    let mut reference = owner.controller_owner_ref(&())?;
    reference.block_owner_deletion = Some(true);
    Some(vec![reference])
}

/// Creates an object.
pub(crate) fn create<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Option<Change> {
    Some(Change::Create {
        target: ObjectRef::of(object)?,
        object: value(object),
    })
}

/// Deletes this very object, unless its deletion has begun.
pub(crate) fn delete<K: Resource<DynamicType = ()>>(object: &K) -> Option<Change> {
    if object.meta().deletion_timestamp.is_some() {
        return None;
    }
    Some(Change::Delete {
        target: ObjectRef::of(object)?,
        uid: uid(object)?.to_owned(),
        resource_version: None,
    })
}

/// Deletes this very object, unless its deletion has begun, and only as it was seen.
pub(crate) fn delete_as_seen<K: Resource<DynamicType = ()>>(object: &K) -> Option<Change> {
    let mut change = delete(object)?;
    if let Change::Delete { resource_version, .. } = &mut change {
        resource_version.clone_from(&object.meta().resource_version);
    }
    Some(change)
}
