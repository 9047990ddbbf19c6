//! I13, between pods: required affinity and anti-affinity, both ways.

use std::collections::BTreeMap;

use super::books::{Books, Evicted, Placed};
use crate::world::{Pod, PodTerm, Stand};
use crate::{Finding, Invariant, Rules};

/// A pod on a node, before or after the decision.
#[derive(Clone, Copy)]
struct Here {
    pod: usize,
    node: usize,
    how: How,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// It is there and stays.
    Stays,
    /// It was on its way out before.
    Leaves,
    /// The decision tells it to go, when it is the turn of this action.
    Told(Option<usize>),
    /// The decision binds it there.
    Bound,
    /// The decision holds the place for it, and others go for that.
    Cleared(Option<usize>),
    /// The decision holds the place for it, for this cycle.
    Held,
}

impl How {
    fn is_new(self) -> bool {
        matches!(self, How::Bound | How::Cleared(_) | How::Held)
    }

    /// It will be gone by the time that a place is cleared.
    fn goes(self) -> bool {
        matches!(self, How::Leaves | How::Told(_))
    }

    /// Whether a pod that came like this can have found the other there as one that stays. Who is bound need not keep
    /// its company; but nobody has others go for a place that is of no use in the end.
    fn could_join(self, rules: &Rules, other: How) -> bool {
        match (self, other) {
            (_, How::Leaves) | (How::Cleared(_), How::Told(_)) => false,
            (_, How::Told(turn)) => turn > rules.first_binds(),
            _ => true,
        }
    }

    /// Whether a pod that came like this can have found the other gone, or told to go, or not there yet.
    fn could_precede(self, rules: &Rules, other: How) -> bool {
        match (self, other) {
            (_, How::Stays) => false,
            (How::Cleared(own), How::Told(turn)) => turn <= own,
            (_, How::Told(turn)) => turn < rules.last_binds(),
            _ => true,
        }
    }
}

pub(super) fn check(books: &Books<'_>, rules: &Rules, findings: &mut Vec<Finding>) {
    let world = books.world;
    let terms = |pod: &Pod| !pod.shape.apart.is_empty() || !pod.shape.together.is_empty();
    if !rules.looks_at("predicate.PodAffinityEnable") || books.placed.is_empty() || !world.pods.iter().any(terms) {
        return;
    }
    let turn = |evicted: &Evicted<'_>| evicted.entry.purpose.action().and_then(|action| rules.turn(action));
    let told: BTreeMap<usize, Option<usize>> = books.evicted.iter().map(|one| (one.pod, turn(one))).collect();
    let cleared: BTreeMap<usize, Option<usize>> = books
        .evicted
        .iter()
        .filter_map(|one| Some((one.beneficiary?, turn(one))))
        .collect();
    let mut here: Vec<Here> = Vec::new();
    for (pod, record) in world.pods.iter().enumerate() {
        let node = record.node.as_ref().and_then(|node| world.node_ids.get(node));
        if let Some(&node) = node.filter(|_| record.takes_room()) {
            let how = match told.get(&pod) {
                _ if record.stand == Stand::Leaving => How::Leaves,
                Some(&turn) => How::Told(turn),
                None => How::Stays,
            };
            here.push(Here { pod, node, how });
        }
    }
    for &Placed { pod, node, now } in &books.placed {
        let how = match books.group[pod].and_then(|group| cleared.get(&group)) {
            _ if now => How::Bound,
            Some(&turn) => How::Cleared(turn),
            None => How::Held,
        };
        here.push(Here { pod, node, how });
    }
    apart(books, &here, findings);
    together(books, rules, &here, findings);
}

/// The name of the place that a node is in.
fn domain<'a>(books: &'a Books<'_>, node: usize, topology: &str) -> Option<&'a String> {
    books.world.nodes[node].labels.get(topology)
}

fn matches(term: &PodTerm, owner: &Pod, other: &Pod) -> bool {
    let own = term.namespaces.is_empty() && other.namespace == owner.namespace;
    (own || term.namespaces.contains(&other.namespace)) && term.selector.selects(&other.labels)
}

fn apart(books: &Books<'_>, here: &[Here], findings: &mut Vec<Finding>) {
    let pods = &books.world.pods;
    for owner in here.iter().filter(|owner| !pods[owner.pod].shape.apart.is_empty()) {
        let record = &pods[owner.pod];
        for term in record.shape.apart.iter().filter(|term| !term.unjudged) {
            let Some(place) = domain(books, owner.node, &term.topology) else {
                continue;
            };
            let clash = here.iter().find(|other| {
                // Who is bound now meets those who still have to leave.
                let bound = owner.how == How::Bound || other.how == How::Bound;
                other.pod != owner.pod
                    && (owner.how.is_new() || other.how.is_new())
                    && (bound || !(owner.how.goes() || other.how.goes()))
                    && domain(books, other.node, &term.topology) == Some(place)
                    && matches(term, record, &pods[other.pod])
            });
            if let Some(other) = clash {
                let message = format!(
                    "must be apart from {} and shares {}={place} with it",
                    pods[other.pod].key, term.topology
                );
                findings.push(Finding::on(
                    Invariant::PlacementRules,
                    format!("Pod {}", record.key),
                    message,
                ));
            }
        }
    }
}

fn together(books: &Books<'_>, rules: &Rules, here: &[Here], findings: &mut Vec<Finding>) {
    let pods = &books.world.pods;
    // Where the pods that match a term are: counted once for each term of a kind of pod.
    let mut cache: BTreeMap<(&str, &PodTerm), Vec<&Here>> = BTreeMap::new();
    for owner in here.iter().filter(|owner| owner.how.is_new()) {
        let record = &pods[owner.pod];
        for term in record.shape.together.iter().filter(|term| !term.unjudged) {
            let matching = cache.entry((record.namespace.as_str(), term)).or_insert_with(|| {
                here.iter()
                    .filter(|other| matches(term, record, &pods[other.pod]))
                    .collect()
            });
            let place = domain(books, owner.node, &term.topology);
            let near = |other: &&&Here| {
                other.pod != owner.pod
                    && owner.how.could_join(rules, other.how)
                    && domain(books, other.node, &term.topology) == place
            };
            // The first of a set that wants to be together has nobody to join.
            let first =
                matches(term, record, record) && matching.iter().all(|other| owner.how.could_precede(rules, other.how));
            if place.is_none() || (!first && !matching.iter().any(|other| near(&other))) {
                let node = &books.world.nodes[owner.node].name;
                let message = format!("gets the node {node} and has nobody there to be together with");
                findings.push(Finding::on(
                    Invariant::PlacementRules,
                    format!("Pod {}", record.key),
                    message,
                ));
            }
        }
    }
}
