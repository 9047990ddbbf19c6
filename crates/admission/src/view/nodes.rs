//! What the cluster offers.

use std::collections::BTreeMap;

use basalt_api::json::{list_at, string_at, value_or_null};
use serde_json::Value;

use crate::quantities::amounts;

/// Nodes that can be counted on, and the sum of what they offer.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    offers: BTreeMap<String, BTreeMap<String, i128>>,
    total: BTreeMap<String, i128>,
}

impl Nodes {
    pub(super) fn put(&mut self, node: &Value) {
        let name = string_at(node, "/metadata/name");
        self.remove(name);
        let conditions = list_at(node, "/status/conditions");
        let lost =
            |condition: &Value| string_at(condition, "/type") == "Ready" && string_at(condition, "/status") != "True";
        if conditions.iter().any(lost) {
            return;
        }
        let offer: BTreeMap<String, i128> = amounts(value_or_null(node, "/status/allocatable"))
            .map(|(dimension, amount)| (dimension.to_owned(), amount.nano()))
            .collect();
        self.add(&offer, 1);
        self.offers.insert(name.to_owned(), offer);
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(offer) = self.offers.remove(name) {
            self.add(&offer, -1);
        }
    }

    fn add(&mut self, offer: &BTreeMap<String, i128>, sign: i128) {
        for (dimension, amount) in offer {
            let total = self.total.entry(dimension.clone()).or_default();
            // Amounts are bounded when they are read, so that no sum of them leaves the type.
            *total = total.saturating_add(amount.saturating_mul(sign));
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.offers.keys().map(String::as_str)
    }

    pub(super) fn total(&self, dimension: &str) -> Option<i128> {
        (!self.offers.is_empty()).then(|| self.total.get(dimension).copied().unwrap_or_default())
    }
}
