//! `predicates`: which nodes admit a class of pods at all. (Whether there is room is the ledger's business.)

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Blocker, Hook, Plugin};
use crate::facts::{NodeOperator, NodeRequirement, Taint, TaintEffect, Toleration};
use crate::model::{ClassId, NodeId};
use crate::mutants::mutant;
use crate::session::State;

/// The plugin; it has no state of its own.
pub(super) struct Predicates;

impl Plugin for Predicates {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Predicate]
    }

    fn blocker(&self, state: &State, class: ClassId, node: NodeId) -> Option<Blocker> {
        let constraints = &state.model.classes[class].key.constraints;
        let record = &state.model.nodes[node];
        if record.not_ready {
            return Some(Blocker::NotReady);
        }
        if record.unschedulable && !mutant!(IgnoreCordon) && !tolerated(&cordon(), &constraints.tolerations) {
            return Some(Blocker::Unschedulable);
        }
        let selected = constraints
            .node_selector
            .iter()
            .all(|(key, value)| record.labels.get(key) == Some(value));
        let name = state.model.nodes.name(node);
        let affine = constraints.node_affinity.as_ref().is_none_or(|terms| {
            let holds = |requirement: &NodeRequirement| holds(requirement, &record.labels, name);
            terms.iter().any(|term| !term.is_empty() && term.iter().all(holds))
        });
        if (!selected || !affine) && !mutant!(IgnoreAffinity) {
            return Some(Blocker::Affinity);
        }
        let repels = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
        let all_tolerated = record
            .taints
            .iter()
            .filter(repels)
            .all(|taint| tolerated(taint, &constraints.tolerations));
        (!all_tolerated && !mutant!(IgnoreTaints)).then_some(Blocker::Taint)
    }
}

/// A cordoned node counts as having this taint, which a pod may tolerate.
fn cordon() -> Taint {
    Taint {
        key: Arc::from("node.kubernetes.io/unschedulable"),
        value: Arc::from(""),
        effect: TaintEffect::NoSchedule,
    }
}

fn tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

fn holds(requirement: &NodeRequirement, labels: &BTreeMap<Arc<str>, Arc<str>>, name: &Arc<str>) -> bool {
    let value = if requirement.on_name {
        Some(name)
    } else {
        labels.get(&requirement.key)
    };
    let number = |text: &str| text.parse::<i64>().ok();
    let bound = || requirement.values.first().and_then(|text| number(text));
    match requirement.operator {
        NodeOperator::In => value.is_some_and(|value| requirement.values.contains(value)),
        NodeOperator::NotIn => value.is_none_or(|value| !requirement.values.contains(value)),
        NodeOperator::Exists => value.is_some(),
        NodeOperator::DoesNotExist => value.is_none(),
        NodeOperator::Gt => value
            .and_then(|value| number(value))
            .zip(bound())
            .is_some_and(|(x, y)| x > y),
        NodeOperator::Lt => value
            .and_then(|value| number(value))
            .zip(bound())
            .is_some_and(|(x, y)| x < y),
    }
}
