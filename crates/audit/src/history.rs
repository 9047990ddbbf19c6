//! I5 over time: evictions that go round in circles.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Decision, Finding, Invariant};

/// Who had whom evicted since something last happened from outside.
///
/// Without an outside event (new work, work that ends, a node that comes or goes, an edit) nobody who was evicted for
/// another may have that other evicted, directly or around a corner.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By pod group that got room: the groups that lost pods for it.
    victims: BTreeMap<String, BTreeSet<String>>,
}

impl History {
    /// Something happened from outside: what was right before need not be right now.
    pub fn outside_event(&mut self) {
        self.victims.clear();
    }

    /// Takes in a decision. `group_of` names the pod group of a pod (`namespace/name` both).
    pub fn observe(&mut self, decision: &Decision, group_of: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for eviction in decision
            .evictions
            .iter()
            .filter(|eviction| !eviction.beneficiary.is_empty())
        {
            let Some(victim) = group_of(&eviction.pod).filter(|victim| *victim != eviction.beneficiary) else {
                continue;
            };
            if self.reaches(&victim, &eviction.beneficiary) {
                let message = format!(
                    "is evicted for {}, whose pods were evicted for it (or for one whom it made room for) before; \
                     nothing happened from outside",
                    eviction.beneficiary
                );
                findings.push(Finding::on(
                    Invariant::PermittedEvictions,
                    format!("Pod {}", eviction.pod),
                    message,
                ));
            }
            let victims = self.victims.entry(eviction.beneficiary.clone()).or_default();
            victims.insert(victim);
        }
        findings
    }

    /// Whether `from` had `to` evicted, or one who had it evicted, and so on.
    fn reaches(&self, from: &str, to: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(group) = next.pop() {
            for victim in self.victims.get(group).into_iter().flatten() {
                if victim == to {
                    return true;
                }
                if seen.insert(victim) {
                    next.push(victim);
                }
            }
        }
        false
    }
}
