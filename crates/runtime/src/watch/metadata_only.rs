//! Objects of which only the metadata counts: nothing else is asked for, sent or kept.

use std::fmt;
use std::marker::PhantomData;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

use crate::watch::resource_alias::{OnlyMetadata, stands_in_for};

/// What asks for metadata alone, and for everything of servers that cannot do that.
pub(crate) const ACCEPT: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The metadata of an object of type `K`.
pub struct Bare<K> {
    metadata: ObjectMeta,
    kind: PhantomData<fn() -> K>,
}

impl<K> Clone for Bare<K> {
    fn clone(&self) -> Self {
        Self {
            metadata: self.metadata.clone(),
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Bare<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.metadata.fmt(f)
    }
}

impl<'de, K> Deserialize<'de> for Bare<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OnlyMetadata { metadata } = OnlyMetadata::deserialize(deserializer)?;
        let kind = PhantomData;
        Ok(Self { metadata, kind })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Bare<K> {
    stands_in_for!(K);

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
