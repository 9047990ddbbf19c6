//! I13, between pods: required affinity and anti-affinity, both ways.

use std::collections::BTreeMap;

use super::books::Books;
use crate::world::{Pod, PodTerm, Stand};
use crate::{Finding, Rules};

/// A pod on a node after the decision.
#[derive(Clone, Copy)]
struct Here {
    pod: usize,
    node: usize,
    new: bool,
    /// It is on its way out, or told to go: it may still have been company when others came.
    goes: bool,
}

pub(super) fn check(books: &Books<'_>, rules: &Rules, findings: &mut Vec<Finding>) {
    let world = books.world;
    let terms = |pod: &Pod| !pod.shape.apart.is_empty() || !pod.shape.together.is_empty();
    if !rules.looks_at("predicate.PodAffinityEnable") || books.placed.is_empty() || !world.pods.iter().any(terms) {
        return;
    }
    let mut here: Vec<Here> = Vec::new();
    for (pod, record) in world.pods.iter().enumerate() {
        let node = record.node.as_ref().and_then(|node| world.node_ids.get(node));
        if let Some(&node) = node.filter(|_| record.takes_room()) {
            let goes = record.stand == Stand::Leaving || books.goes[pod];
            here.push(Here {
                pod,
                node,
                new: false,
                goes,
            });
        }
    }
    here.extend(books.placed.iter().map(|placed| Here {
        pod: placed.pod,
        node: placed.node,
        new: true,
        goes: false,
    }));
    let stay: Vec<Here> = here.iter().copied().filter(|pod| !pod.goes).collect();
    apart(books, &stay, findings);
    together(books, &here, findings);
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
                other.pod != owner.pod
                    && (owner.new || other.new)
                    && domain(books, other.node, &term.topology) == Some(place)
                    && matches(term, record, &pods[other.pod])
            });
            if let Some(other) = clash {
                let message = format!(
                    "must be apart from {} and shares {}={place} with it",
                    pods[other.pod].key, term.topology
                );
                findings.push(Finding::on("I13", format!("Pod {}", record.key), message));
            }
        }
    }
}

fn together(books: &Books<'_>, here: &[Here], findings: &mut Vec<Finding>) {
    let pods = &books.world.pods;
    // Where the pods that match a term are: counted once for each term of a kind of pod.
    let mut cache: BTreeMap<(&str, &PodTerm), Vec<&Here>> = BTreeMap::new();
    for owner in here.iter().filter(|owner| owner.new) {
        let record = &pods[owner.pod];
        for term in record.shape.together.iter().filter(|term| !term.unjudged) {
            let matching = cache.entry((record.namespace.as_str(), term)).or_insert_with(|| {
                here.iter()
                    .filter(|other| matches(term, record, &pods[other.pod]))
                    .collect()
            });
            let place = domain(books, owner.node, &term.topology);
            let near = |other: &&&Here| other.pod != owner.pod && domain(books, other.node, &term.topology) == place;
            // The first of a set that wants to be together has nobody to join.
            let first = matches(term, record, record) && matching.iter().all(|other| other.new || other.goes);
            if place.is_none() || (!first && !matching.iter().any(|other| near(&other))) {
                let node = &books.world.nodes[owner.node].name;
                let message = format!("gets the node {node} and has nobody there to be together with");
                findings.push(Finding::on("I13", format!("Pod {}", record.key), message));
            }
        }
    }
}
