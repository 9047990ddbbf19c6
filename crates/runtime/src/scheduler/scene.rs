//! A small cluster for tests: one queue, the node `n`, the group `a/g`, and its pods `a/p-0`, `a/p-1`, ….

#[cfg(test)]
use basalt_engine::facts::{Event, QueueFacts};
use basalt_engine::facts::{NodeFacts, Phase, PodFacts, PodGroupFacts};
#[cfg(test)]
use basalt_engine::{Conf, Engine, Options};

/// Places pods, and nothing else.
#[cfg(test)]
pub(super) fn conf() -> Conf {
    Conf::parse("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: node_reservation}]}]")
        .expect("a configuration")
}

/// The node, with so many thousandths of a core.
pub(super) fn node(cpu: i64) -> NodeFacts {
    NodeFacts {
        name: "n".into(),
        uid: "n".into(),
        allocatable: [("cpu".into(), cpu), ("pods".into(), 10)].into(),
        ..NodeFacts::default()
    }
}

/// The group, let in, with that minimum.
pub(super) fn group(min_member: u32) -> PodGroupFacts {
    PodGroupFacts {
        key: "a/g".into(),
        uid: "g".into(),
        min_member,
        spec_hash: u64::from(min_member),
        phase: Phase::Inqueue,
        ..PodGroupFacts::default()
    }
}

/// A pod of one core, on a node or not.
pub(super) fn pod(index: u32, node: Option<&str>) -> PodFacts {
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

/// The cluster with a node of four cores, a group with that minimum, and these pods.
#[cfg(test)]
pub(super) fn engine(min_member: u32, pods: &[PodFacts]) -> Engine {
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
