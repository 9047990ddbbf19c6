//! A node.

use std::collections::BTreeMap;

use serde_json::Value;

use super::World;
use crate::amounts::Amounts;
use crate::read::{at, entries, list, meta, text};

/// A node, and what it offers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub name: String,
    pub offers: Amounts,
    /// It says how many pods it takes.
    pub limits_pods: bool,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub cordoned: bool,
    pub not_ready: bool,
}

/// A taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

impl Node {
    pub(super) fn read(world: &mut World, object: &Value) -> Self {
        let mut offers = Amounts::default();
        let written = world.written(at(object, &["status", "allocatable"]));
        for (&dim, &amount) in &written {
            offers.set(dim, amount);
        }
        let not_ready =
            |condition: &Value| text(condition, &["type"]) == "Ready" && text(condition, &["status"]) != "True";
        let owned = |value: &Value, key: &str| text(value, &[key]).to_owned();
        Self {
            name: meta(object, "name").to_owned(),
            limits_pods: written.contains_key(&crate::amounts::PODS),
            offers,
            labels: pairs(object, &["metadata", "labels"]),
            taints: list(object, &["spec", "taints"])
                .iter()
                .map(|taint| Taint {
                    key: owned(taint, "key"),
                    value: owned(taint, "value"),
                    effect: owned(taint, "effect"),
                })
                .collect(),
            cordoned: at(object, &["spec", "unschedulable"]).as_bool().unwrap_or(false),
            not_ready: list(object, &["status", "conditions"]).iter().any(not_ready),
        }
    }
}

/// A map of texts.
pub(super) fn pairs(object: &Value, path: &[&str]) -> BTreeMap<String, String> {
    entries(object, path)
        .map(|(key, value)| (key.to_owned(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}
