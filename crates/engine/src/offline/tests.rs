use super::OfflineCluster;
use crate::conf::Conf;
use crate::facts::{Event, NodeFacts, Phase, PodFacts, PodGroupFacts, PodPhase, QueueFacts, Resources};
use crate::plan::{Eviction, Purpose};
use crate::{Engine, Options};

/// A node of two cores and a gang of two pods of one core each.
fn cluster() -> OfflineCluster {
    let cores = |count: i64| Resources::from([("cpu".into(), count * 1_000)]);
    let mut cluster = OfflineCluster::new(Engine::new(Conf::embedded(), Options::default())).with_history();
    let mut allocatable = cores(2);
    allocatable.insert("pods".into(), 10);
    cluster.apply(Event::Node(NodeFacts {
        name: "n".into(),
        allocatable,
        ..NodeFacts::default()
    }));
    cluster.apply(Event::Queue(QueueFacts {
        name: "q".into(),
        ..QueueFacts::default()
    }));
    cluster.apply(Event::PodGroup(PodGroupFacts {
        key: "a/gang".into(),
        uid: "gang".into(),
        queue: "q".into(),
        min_member: 2,
        ..PodGroupFacts::default()
    }));
    for index in 0..2 {
        cluster.apply(Event::Pod(PodFacts {
            key: format!("a/gang-w-{index}").into(),
            uid: format!("uid-{index}").into(),
            scheduler: "volcano".into(),
            group: Some("a/gang".into()),
            requests: cores(1),
            ..PodFacts::default()
        }));
    }
    cluster
}

#[test]
fn a_plan_that_is_carried_out_leaves_nothing_to_decide() {
    let mut cluster = cluster();
    let mut phases = Vec::new();
    for now_ms in [0, 1_000, 2_000] {
        let plan = cluster.engine_mut().cycle(now_ms, 0);
        cluster.carry_out(&plan);
        phases.push(cluster.groups()["a/gang"].phase);
        let runs = |pod: &PodFacts| pod.phase == PodPhase::Running && pod.node.as_deref() == Some("n");
        assert!(cluster.pods().values().all(runs), "{:?}", cluster.pods());
    }
    assert_eq!(phases, [Phase::Inqueue, Phase::Running, Phase::Running]);
    assert!(cluster.engine_mut().cycle(3_000, 0).is_idle());
}

#[test]
fn only_the_pod_that_was_meant_is_evicted() {
    let mut cluster = cluster();
    let eviction = |uid: &str| Eviction {
        pod: "a/gang-w-0".into(),
        uid: uid.into(),
        node: "n".into(),
        purpose: Purpose::Shuffle,
    };
    cluster.evict_pod(&eviction("of an earlier pod"));
    assert!(cluster.pods().contains_key("a/gang-w-0") && cluster.engine().pod("a/gang-w-0").is_some());
    cluster.evict_pod(&eviction("uid-0"));
    assert!(!cluster.pods().contains_key("a/gang-w-0") && cluster.engine().pod("a/gang-w-0").is_none());
}

#[test]
fn history_has_every_change_in_order() {
    let mut cluster = cluster();
    assert_eq!(cluster.take_history().len(), 5);
    let plan = cluster.engine_mut().cycle(0, 0);
    cluster.carry_out(&plan);
    let changed: Vec<&str> = cluster
        .history()
        .iter()
        .map(|event| match event {
            Event::Pod(pod) => &*pod.key,
            Event::PodGroup(group) => &*group.key,
            other => panic!("nothing else changes: {other:?}"),
        })
        .collect();
    assert_eq!(changed, ["a/gang-w-0", "a/gang-w-1", "a/gang"]);
}
