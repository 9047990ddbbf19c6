//! Quotas of namespaces, for the vote on letting a group in.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use serde::{Deserialize, Serialize};

use super::{Resources, amount};

/// A namespace's quota. Names are those of resources (`requests.cpu` is `cpu`, `count/pods` is `pods`); what limits
/// something else (`limits.cpu`) keeps its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaFacts {
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Its uid.
    #[serde(default)]
    pub uid: Arc<str>,
    /// What the namespace may use.
    #[serde(default)]
    pub hard: Resources,
    /// What its objects use already.
    #[serde(default)]
    pub used: Resources,
}

/// The resource that a quota's name is about.
pub(crate) fn quota_name(name: &str) -> &str {
    match name {
        "count/pods" => "pods",
        name => name.strip_prefix("requests.").unwrap_or(name),
    }
}

/// Whether a name is one of a quota's alone: no pod asks for it, and no node offers it.
pub(crate) fn is_quota_name(name: &str) -> bool {
    ["requests.", "limits.", "count/"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn text(text: Option<&String>) -> &str {
    text.map_or("", String::as_str)
}

fn amounts(list: Option<&std::collections::BTreeMap<String, Written>>) -> Resources {
    let read = |(name, quantity): (&String, &Written)| {
        let name = quota_name(name);
        let quantity = basalt_api::quantity::Quantity::parse(&quantity.0).ok()?;
        Some((Arc::from(name), amount(name, quantity)))
    };
    list.into_iter().flatten().filter_map(read).collect()
}

impl From<&ResourceQuota> for QuotaFacts {
    fn from(quota: &ResourceQuota) -> Self {
        let metadata = &quota.metadata;
        let status = quota.status.as_ref();
        let hard = status.and_then(|status| status.hard.as_ref());
        let wanted = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
        QuotaFacts {
            key: format!("{}/{}", text(metadata.namespace.as_ref()), text(metadata.name.as_ref())).into(),
            uid: text(metadata.uid.as_ref()).into(),
            hard: amounts(hard.or(wanted)),
            used: amounts(status.and_then(|status| status.used.as_ref())),
        }
    }
}
