use super::PodView;
use crate::conf::Conf;
use crate::facts::{Event, NodeFacts, Phase, PodFacts, PodGroupFacts, PodPhase, QueueFacts, Resources};
use crate::{Engine, Options};

fn cpu(milli: i64) -> Resources {
    [("cpu".into(), milli)].into()
}

fn pod(name: &str, node: Option<&str>) -> PodFacts {
    PodFacts {
        key: format!("a/{name}").into(),
        uid: name.into(),
        scheduler: "volcano".into(),
        group: Some("a/gang".into()),
        role: "worker".into(),
        phase: node.map_or(PodPhase::Pending, |_| PodPhase::Running),
        node: node.map(Into::into),
        requests: cpu(1_000),
        ..PodFacts::default()
    }
}

/// One node of four cores, one queue, and a gang of two that has one pod more than it needs.
fn engine(pods: impl IntoIterator<Item = PodFacts>) -> Engine {
    let mut engine = Engine::new(Conf::embedded(), Options::default());
    engine.apply(&Event::Node(NodeFacts {
        name: "n".into(),
        uid: "node-uid".into(),
        allocatable: [("cpu".into(), 4_000), ("pods".into(), 10)].into(),
        ..NodeFacts::default()
    }));
    engine.apply(&Event::Queue(QueueFacts {
        name: "q".into(),
        weight: 3,
        capability: cpu(8_000),
        ..QueueFacts::default()
    }));
    engine.apply(&Event::PodGroup(PodGroupFacts {
        key: "a/gang".into(),
        uid: "gang-uid".into(),
        created_ms: 7,
        queue: "q".into(),
        min_member: 2,
        min_task_member: [("worker".into(), 2)].into(),
        phase: Phase::Inqueue,
        ..PodGroupFacts::default()
    }));
    for facts in pods {
        engine.apply(&Event::Pod(facts));
    }
    engine
}

#[test]
fn views_find_what_the_engine_was_told() {
    let engine = engine([pod("p0", Some("n")), pod("p1", None)]);
    let group = engine.group("a/gang").expect("the group is known");
    assert_eq!((&**group.key(), &**group.uid()), ("a/gang", "gang-uid"));
    assert_eq!((group.created_ms(), group.min_member()), (7, 2));
    assert!(group.is_declared());
    assert_eq!(
        group.queue().map(|queue| queue.name().to_string()).as_deref(),
        Some("q")
    );
    assert_eq!(
        (group.observed_phase(), group.announced_phase()),
        (Phase::Inqueue, Phase::Inqueue)
    );
    let node = engine.node("n").expect("the node is known");
    assert!(node.is_declared() && &**node.uid() == "node-uid");
    assert_eq!(
        node.pods().map(|pod| pod.key().to_string()).collect::<Vec<_>>(),
        ["a/p0"]
    );
    let queue = engine.queue("q").expect("the queue is known");
    assert_eq!((queue.weight(), queue.capability()), (3, cpu(8_000)));
    assert!(engine.group("a/other").is_none() && engine.pod("a/other").is_none() && engine.node("m").is_none());
}

#[test]
fn objects_that_others_only_name_are_not_declared() {
    let mut elsewhere = pod("p0", Some("m"));
    elsewhere.group = Some("a/unknown".into());
    let engine = engine([elsewhere]);
    assert!(engine.group("a/unknown").is_some_and(|group| !group.is_declared()));
    assert!(engine.node("m").is_some_and(|node| !node.is_declared()));
}

#[test]
fn a_group_counts_observed_and_assumed_pods() {
    let mut gated = pod("p2", None);
    gated.gated = true;
    let mut engine = engine([pod("p0", Some("n")), pod("p1", None), gated]);
    let group = engine.group("a/gang").expect("the group is known");
    assert_eq!((group.pod_count(), group.pending_pods().count()), (3, 1));
    assert_eq!((group.pending_pod_count(), group.unschedulable_pod_count()), (2, 1));
    assert!(!group.is_minimum_ready() && !group.is_minimum_scheduled() && !group.is_gang_scheduled());

    let plan = engine.cycle(1_000, 0);
    assert_eq!(plan.binds().map(|bind| &*bind.pod).collect::<Vec<_>>(), ["a/p1"]);
    let group = engine.group("a/gang").expect("the group is known");
    assert_eq!((group.assumed_pods().count(), group.placed_pods().count()), (1, 1));
    assert_eq!((group.ready_pod_count(), group.scheduled_pod_count()), (2, 1));
    assert!(group.is_minimum_ready() && !group.is_minimum_scheduled());
    assert!((group.dominant_share() - 0.5).abs() < 1e-9);
    assert_eq!(engine.node("n").expect("the node is known").assumed_pods().count(), 1);

    engine.apply(&Event::Pod(pod("p1", Some("n"))));
    let group = engine.group("a/gang").expect("the group is known");
    assert!(group.is_minimum_scheduled() && group.is_gang_scheduled());
    assert_eq!(group.assumed_pod_count(), 0);
}

#[test]
fn a_gang_is_scheduled_only_with_the_minimum_of_every_task() {
    let mut other = pod("p1", Some("n"));
    other.role = "driver".into();
    let engine = engine([pod("p0", Some("n")), other]);
    let group = engine.group("a/gang").expect("the group is known");
    assert!(group.is_minimum_scheduled() && !group.is_gang_scheduled());
}

#[test]
fn an_assumed_pod_sees_when_its_node_no_longer_suits_it() {
    let mut engine = engine([pod("p0", None), pod("p1", None)]);
    engine.cycle(1_000, 0);
    let is_suitable = |engine: &Engine| engine.pod("a/p0").is_some_and(PodView::is_node_still_suitable);
    let decided = engine.pod("a/p0").expect("the pod is known");
    assert!(decided.is_assumed() && !decided.is_node_observed() && !decided.is_placed());
    assert_eq!(decided.node().map(|node| node.name().to_string()).as_deref(), Some("n"));
    assert!(is_suitable(&engine));
    engine.apply(&Event::Node(NodeFacts {
        name: "n".into(),
        uid: "node-uid".into(),
        allocatable: [("cpu".into(), 1_000), ("pods".into(), 10)].into(),
        ..NodeFacts::default()
    }));
    assert!(!is_suitable(&engine), "the node shrank below what was decided for it");
}

#[test]
fn a_queue_requests_what_its_unfinished_pods_request() {
    let engine = engine([pod("p0", Some("n")), pod("p1", None)]);
    for name in ["q", "root"] {
        let queue = engine.queue(name).expect("the queue is known");
        assert_eq!(queue.requested().get("cpu"), Some(&2_000), "{name}");
        assert_eq!(queue.allocated().get("cpu"), Some(&1_000), "{name}");
    }
}
