//! A decision, looked at once more in the newest view before it is carried out.

use basalt_engine::Engine;
use basalt_engine::ledger::Status;
use basalt_engine::model::Id;
use basalt_engine::plan::{Bind, Transaction};

/// Whether all binds of a transaction still hold: what has come in since the decision is in the engine's state, and the
/// decided places are still taken there.
pub(super) fn stands(engine: &Engine, transaction: &Transaction) -> bool {
    let state = engine.state();
    let Some(job) = state.model.jobs.find(&transaction.pod_group) else {
        return false;
    };
    let record = &state.model.jobs[job];
    // Another spec is another question, unless what is placed answers that one too.
    let enough = record.spec_hash == transaction.spec_hash || state.ledger.counts(job).ready() >= record.min_member;
    record.present
        && record.uid == transaction.uid
        && enough
        && transaction.binds.iter().all(|bind| bind_stands(engine, bind))
}

fn bind_stands(engine: &Engine, bind: &Bind) -> bool {
    let state = engine.state();
    let Some(task) = state.model.tasks.find(&bind.pod) else {
        return false;
    };
    let (record, node) = (&state.model.tasks[task], state.ledger.node(task));
    if record.uid != bind.uid || record.shown || state.ledger.status(task) != Status::Allocated || !node.is_some() {
        return false;
    }
    let open = state.model.nodes[node].present && engine.objection(task).is_none();
    // A node that shrank has less than nothing left; ours is the pod that has not come yet.
    let mut dims = state.model.classes.request(record.class).iter();
    open && **state.model.nodes.name(node) == *bind.node
        && dims.all(|(dim, _)| state.ledger.idle().get(node.index(), dim) >= 0)
}

#[cfg(test)]
mod tests {
    use basalt_engine::facts::{Constraints, Event, NodeFacts, PodFacts, QueueFacts, Taint, TaintEffect, Toleration};

    use super::super::scene;
    use super::*;

    fn node(cpu: i64) -> Event {
        Event::Node(scene::node(cpu))
    }

    fn group(min_member: u32) -> Event {
        Event::PodGroup(scene::group(min_member))
    }

    fn pod(uid: &str) -> PodFacts {
        PodFacts {
            uid: uid.into(),
            ..scene::pod(0, None)
        }
    }

    /// A bind is decided; then `news` comes in; does the decision stand?
    fn check(news: Event, expected: bool) {
        check_pod(scene::pod(0, None), news, expected);
    }

    /// The same of this pod.
    fn check_pod(pod: PodFacts, news: Event, expected: bool) {
        let mut engine = scene::engine(1, &[pod]);
        let plan = engine.cycle(1, 0);
        let transaction = plan
            .transactions
            .iter()
            .find(|transaction| !transaction.binds.is_empty());
        let transaction = transaction.expect("the pod is placed");
        assert!(stands(&engine, transaction));
        engine.apply(&news);
        assert_eq!(stands(&engine, transaction), expected, "{news:?}");
    }

    #[test]
    fn only_what_still_holds_is_carried_out() {
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
        let plain = scene::node(4000);
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
            ..scene::pod(0, None)
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
                ..scene::node(4000)
            };
            check_pod(tolerant.clone(), Event::Node(closed), expected);
        }
    }
}
