//! A small cluster for tests: one queue, the node `n`, the PodGroup `a/g` and its pods `a/p-0`, `a/p-1` and so on.

use basalt_engine::facts::{Event, NodeFacts, Phase, PodFacts, PodGroupFacts, QueueFacts};
use basalt_engine::{Conf, Engine, Options};

/// A configuration that only places pods.
pub(crate) fn conf() -> Conf {
    Conf::parse("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: node_reservation}]}]")
        .expect("a configuration")
}

/// The node `n` with this many millicores.
pub(crate) fn node(cpu: i64) -> NodeFacts {
    NodeFacts {
        name: "n".into(),
        uid: "n".into(),
        allocatable: [("cpu".into(), cpu), ("pods".into(), 10)].into(),
        ..NodeFacts::default()
    }
}

/// The PodGroup `a/g` with this minimum, in phase Inqueue.
pub(crate) fn group(min_member: u32) -> PodGroupFacts {
    PodGroupFacts {
        key: "a/g".into(),
        uid: "g".into(),
        min_member,
        spec_hash: u64::from(min_member),
        phase: Phase::Inqueue,
        ..PodGroupFacts::default()
    }
}

/// A pod of one core, on a node or without one.
pub(crate) fn pod(index: u32, node: Option<&str>) -> PodFacts {
    PodFacts {
        key: format!("a/p-{index}").into(),
        uid: format!("u{index}").into(),
        scheduler: "volcano".into(),
        group: Some("a/g".into()),
        requests: [("cpu".into(), 1000)].into(),
        node: node.map(Into::into),
        ..PodFacts::default()
    }
}

/// An engine that knows a node of four cores, the PodGroup with this minimum, and these pods.
pub(crate) fn engine(min_member: u32, pods: &[PodFacts]) -> Engine {
    let mut engine = Engine::new(conf(), Options::default());
    let queue = QueueFacts {
        name: "default".into(),
        ..QueueFacts::default()
    };
    engine.apply(&Event::Queue(queue));
    engine.apply(&Event::Node(node(4000)));
    engine.apply(&Event::PodGroup(group(min_member)));
    for pod in pods {
        engine.apply(&Event::Pod(pod.clone()));
    }
    engine
}
