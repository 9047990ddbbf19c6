//! What the cluster offers, kept as a sum.

use std::collections::BTreeMap;

use basalt_api::slim::Node;

use super::amounts::{Amounts, amounts, subtract, sum_up};

/// What the nodes that can be counted on offer.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    offers: BTreeMap<String, Amounts>,
    total: Amounts,
}

impl Nodes {
    /// Takes in a node, or forgets it; says whether the total changed.
    pub(super) fn set(&mut self, name: &str, node: Option<&Node>) -> bool {
        // A node that says nothing of being ready counts as ready, as it does for the scheduler.
        let lost = |node: &&Node| {
            let conditions = &node.status.conditions;
            conditions
                .iter()
                .any(|condition| condition.condition_type == "Ready" && condition.status != "True")
        };
        let offer = node.filter(|node| !lost(node)).map(|node| amounts(node.offers()));
        if self.offers.get(name) == offer.as_ref() {
            return false;
        }
        if let Some(before) = self.offers.remove(name) {
            subtract(&mut self.total, &before);
        }
        if let Some(offer) = offer {
            sum_up(&mut self.total, &offer);
            self.offers.insert(name.to_owned(), offer);
        }
        true
    }

    /// The sum; nothing while there are no nodes.
    pub(super) fn total(&self) -> Option<&Amounts> {
        (!self.offers.is_empty()).then_some(&self.total)
    }
}
