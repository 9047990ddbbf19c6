//! I13: a pod goes only where it may: selectors, affinity, taints, cordons, gates.

use super::books::Books;
use crate::world::{Node, Pod, Requirement, Taint};
use crate::{Finding, Invariant, Rules};

pub(super) fn check(books: &Books<'_>, rules: &Rules, findings: &mut Vec<Finding>) {
    let world = books.world;
    for placed in &books.placed {
        let (pod, node) = (&world.pods[placed.pod], &world.nodes[placed.node]);
        let mut found = |why: String| {
            let message = format!("gets the node {}: {why}", node.name);
            findings.push(Finding::on(
                Invariant::PlacementRules,
                format!("Pod {}", pod.key),
                message,
            ));
        };
        if pod.gated {
            found("it is held back by scheduling gates".to_owned());
        }
        if books.group[placed.pod].is_none() {
            found("it has no pod group".to_owned());
        }
        for why in objections(pod, node, rules) {
            found(why);
        }
    }
}

fn objections(pod: &Pod, node: &Node, rules: &Rules) -> Vec<String> {
    let mut reasons = Vec::new();
    let tolerates = |taint: &Taint| pod.shape.tolerations.iter().any(|one| one.covers(taint));
    if rules.looks_at("predicate.NodeUnschedulableEnable") {
        let cordon = Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            value: String::new(),
            effect: "NoSchedule".to_owned(),
        };
        if node.cordoned && !tolerates(&cordon) {
            reasons.push("it is cordoned".to_owned());
        }
    }
    if rules.has("predicates", "enablePredicate") && node.not_ready {
        reasons.push("it is not ready".to_owned());
    }
    if rules.looks_at("predicate.NodeAffinityEnable") {
        if let Some((key, value)) = pod
            .shape
            .selector
            .iter()
            .find(|(key, value)| node.labels.get(key) != Some(value))
        {
            reasons.push(format!("the pod selects {key}={value}"));
        }
        if let Some(terms) = &pod.shape.node_terms
            && !terms
                .iter()
                .any(|term| !term.is_empty() && term.iter().all(|one| holds(one, node)))
        {
            reasons.push("none of the pod's node affinity terms holds".to_owned());
        }
    }
    if rules.looks_at("predicate.TaintTolerationEnable") {
        let taint = node
            .taints
            .iter()
            .find(|taint| taint.effect != "PreferNoSchedule" && !tolerates(taint));
        if let Some(taint) = taint {
            reasons.push(format!(
                "the pod does not tolerate {}={}:{}",
                taint.key, taint.value, taint.effect
            ));
        }
    }
    reasons
}

fn holds(one: &Requirement, node: &Node) -> bool {
    let value = if one.on_name {
        Some(&node.name)
    } else {
        node.labels.get(&one.key)
    };
    let listed = value.is_some_and(|value| one.values.contains(value));
    let numbers = || {
        let have: i64 = value?.parse().ok()?;
        let bound: i64 = one.values.first()?.parse().ok()?;
        Some((have, bound))
    };
    match one.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(have, bound)| have > bound),
        "Lt" => numbers().is_some_and(|(have, bound)| have < bound),
        _ => false,
    }
}
