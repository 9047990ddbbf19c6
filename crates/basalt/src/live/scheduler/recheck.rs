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
    use basalt_engine::facts::{Event, NodeFacts, PodFacts, PodGroupFacts, PodPhase, QueueFacts, Taint, TaintEffect};
    use basalt_engine::{Conf, Options};

    use super::*;

    fn node(cpu: i64) -> Event {
        Event::Node(NodeFacts {
            name: "n".into(),
            uid: "n1".into(),
            allocatable: [("cpu".into(), cpu), ("pods".into(), 10)].into(),
            ..NodeFacts::default()
        })
    }

    fn pod(uid: &str) -> PodFacts {
        PodFacts {
            key: "a/p".into(),
            uid: uid.into(),
            scheduler: "volcano".into(),
            group: Some("a/g".into()),
            requests: [("cpu".into(), 1000)].into(),
            ..PodFacts::default()
        }
    }

    fn group(min_member: u32) -> Event {
        Event::PodGroup(PodGroupFacts {
            key: "a/g".into(),
            uid: "g".into(),
            queue: "default".into(),
            min_member,
            spec_hash: u64::from(min_member),
            phase: basalt_engine::facts::Phase::Inqueue,
            ..PodGroupFacts::default()
        })
    }

    /// A bind is decided; then `news` comes in; does the decision stand?
    fn check(news: Event, expected: bool) {
        let conf = Conf::parse("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]");
        let mut engine = Engine::new(conf.expect("a configuration"), Options::default());
        let queue = QueueFacts {
            name: "default".into(),
            ..QueueFacts::default()
        };
        for event in [Event::Queue(queue), node(4000), group(1), Event::Pod(pod("p"))] {
            engine.apply(&event);
        }
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
        check(Event::Pod(pod("p")), true);
        check(Event::Pod(pod("another")), false);
        let gone = |uid: &str| Event::PodGone {
            key: "a/p".into(),
            uid: Some(uid.into()),
        };
        check(gone("earlier"), true);
        check(gone("p"), false);
        let leaving = PodFacts {
            terminating: true,
            ..pod("p")
        };
        check(Event::Pod(leaving), false);
        let bound = PodFacts {
            node: Some("n".into()),
            phase: PodPhase::Pending,
            ..pod("p")
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
        let Event::Node(plain) = node(4000) else {
            panic!("a node")
        };
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
}
