//! Types that stand in for a kind of Kubernetes: the same name and address, another content.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

/// An object of which only the metadata is read.
#[derive(Deserialize)]
pub(crate) struct OnlyMetadata {
    pub(crate) metadata: ObjectMeta,
}

/// What a `Resource` that stands in for another says of its type.
macro_rules! stands_in_for {
    ($kind:ident) => {
        type DynamicType = ();
        type Scope = $kind::Scope;

        fn kind((): &()) -> std::borrow::Cow<'_, str> {
            $kind::kind(&())
        }

        fn group((): &()) -> std::borrow::Cow<'_, str> {
            $kind::group(&())
        }

        fn version((): &()) -> std::borrow::Cow<'_, str> {
            $kind::version(&())
        }

        fn plural((): &()) -> std::borrow::Cow<'_, str> {
            $kind::plural(&())
        }
    };
}

pub(crate) use stands_in_for;
