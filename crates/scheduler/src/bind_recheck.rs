//! The check of a decision right before it is carried out.

use basalt_engine::Engine;
use basalt_engine::plan::{Bind, Transaction};

/// Returns whether all binds of a transaction still hold: the engine knows everything that came in since the decision,
/// and the decided places are still taken there.
pub(crate) fn is_still_valid(engine: &Engine, transaction: &Transaction) -> bool {
    let Some(group) = engine.group(&transaction.pod_group) else {
        return false;
    };
    // Another spec is another question, unless what is placed answers that one too.
    let is_enough = group.spec_hash() == transaction.spec_hash || group.ready_pod_count() >= group.min_member();
    group.is_declared()
        && *group.uid() == transaction.uid
        && is_enough
        && transaction.binds.iter().all(|bind| is_bind_valid(engine, bind))
}

fn is_bind_valid(engine: &Engine, bind: &Bind) -> bool {
    let Some(pod) = engine.pod(&bind.pod) else {
        return false;
    };
    let is_same_node = pod.node().is_some_and(|node| *node.name() == bind.node);
    *pod.uid() == bind.uid
        && !pod.is_node_observed()
        && pod.is_assumed()
        && is_same_node
        && pod.is_node_still_suitable()
}

#[cfg(test)]
mod tests {
    use basalt_engine::facts::{Constraints, Event, NodeFacts, PodFacts, QueueFacts, Taint, TaintEffect, Toleration};

    use super::*;
    use crate::test_cluster;

    fn node(cpu: i64) -> Event {
        Event::Node(test_cluster::node(cpu))
    }

    fn group(min_member: u32) -> Event {
        Event::PodGroup(test_cluster::group(min_member))
    }

    fn pod(uid: &str) -> PodFacts {
        PodFacts {
            uid: uid.into(),
            ..test_cluster::pod(0, None)
        }
    }

    /// A bind is decided, then `event` comes in: is the decision still valid?
    fn check(event: Event, expected: bool) {
        check_pod(test_cluster::pod(0, None), event, expected);
    }

    /// The same for a particular pod.
    fn check_pod(pod: PodFacts, event: Event, expected: bool) {
        let mut engine = test_cluster::engine(1, &[pod]);
        let plan = engine.cycle(1, 0);
        let transaction = plan
            .transactions
            .iter()
            .find(|transaction| !transaction.binds.is_empty());
        let transaction = transaction.expect("the pod is placed");
        assert!(is_still_valid(&engine, transaction));
        engine.apply(&event);
        assert_eq!(is_still_valid(&engine, transaction), expected, "{event:?}");
    }

    #[test]
    fn only_valid_decisions_are_carried_out() {
        check(node(3000), true);
        check(node(500), false);
        check(group(1), true);
        check(group(2), false);
        check(Event::Pod(pod("u0")), true);
        check(Event::Pod(pod("another")), false);
        let gone = |uid: &str| Event::PodGone {
            key: "a/p-0".into(),
            uid: Some(uid.into()),
        };
        check(gone("earlier"), true);
        check(gone("u0"), false);
        let leaving = PodFacts {
            terminating: true,
            ..pod("u0")
        };
        check(Event::Pod(leaving), false);
        let bound = PodFacts {
            node: Some("n".into()),
            ..pod("u0")
        };
        check(Event::Pod(bound), false);
        let node_gone = Event::NodeGone {
            name: "n".into(),
            uid: None,
        };
        check(node_gone, false);
    }

    #[test]
    fn a_node_that_closed_meanwhile_is_not_used() {
        let plain = test_cluster::node(4000);
        let check_node = |change: fn(&mut NodeFacts), expected| {
            let mut changed = plain.clone();
            change(&mut changed);
            check(Event::Node(changed), expected);
        };
        let taint = |effect| Taint {
            key: "k".into(),
            value: "".into(),
            effect,
        };
        check_node(|node| node.unschedulable = true, false);
        check_node(|node| node.not_ready = true, false);
        check_node(|node| node.labels = [("other".into(), "label".into())].into(), true);
        for (effect, expected) in [
            (TaintEffect::NoSchedule, false),
            (TaintEffect::NoExecute, false),
            (TaintEffect::PreferNoSchedule, true),
        ] {
            let changed = NodeFacts {
                taints: vec![taint(effect)],
                ..plain.clone()
            };
            check(Event::Node(changed), expected);
        }
    }

    #[test]
    fn a_node_that_was_locked_meanwhile_is_not_used() {
        let locked = |queue: &str, nodes: &[&str]| {
            Event::Queue(QueueFacts {
                name: queue.into(),
                locks: nodes.iter().map(|&name| name.into()).collect(),
                ..QueueFacts::default()
            })
        };
        check(locked("other", &["n"]), false);
        check(locked("other", &["m"]), true);
        check(locked("default", &["n"]), true);
        check(locked("root", &["n"]), true);
    }

    #[test]
    fn what_a_pod_tolerates_is_no_obstacle() {
        let everything = Toleration {
            exists: true,
            ..Toleration::default()
        };
        let constraints = Constraints {
            tolerations: vec![everything],
            ..Constraints::default()
        };
        let tolerant = PodFacts {
            constraints: constraints.into(),
            ..test_cluster::pod(0, None)
        };
        let taint = Taint {
            key: "k".into(),
            value: "".into(),
            effect: TaintEffect::NoSchedule,
        };
        for (unschedulable, not_ready, expected) in [(true, false, true), (false, true, false)] {
            let closed = NodeFacts {
                unschedulable,
                not_ready,
                taints: vec![taint.clone()],
                ..test_cluster::node(4000)
            };
            check_pod(tolerant.clone(), Event::Node(closed), expected);
        }
    }
}
