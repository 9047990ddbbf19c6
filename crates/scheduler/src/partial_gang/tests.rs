use basalt_engine::facts::{Event, NodeFacts, PodFacts, PodGroupFacts, PodPhase};

use super::*;
use crate::test_cluster;

const GRACE: Duration = Duration::from_secs(10);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a small time")
}

fn pod(index: u32, node: Option<&str>) -> Event {
    Event::Pod(test_cluster::pod(index, node))
}

/// A gang of two of which the first pod is bound.
fn engine() -> Engine {
    test_cluster::engine(2, &[test_cluster::pod(0, Some("n")), test_cluster::pod(1, None)])
}

fn surveyed(engine: &Engine) -> PartialGangs {
    let mut gangs = PartialGangs::new(GRACE, &test_cluster::conf());
    gangs.examine_groups(engine, |_| false, at(0));
    gangs
}

/// Tells that something happened to the first pod, and examines its group.
fn examine(gangs: &mut PartialGangs, engine: &Engine, second: i64) {
    gangs.suspects.insert("a/g".into());
    gangs.has_surveyed = true;
    gangs.examine_groups(engine, |_| false, at(second));
    gangs.clear_suspects();
}

fn released(gangs: &mut PartialGangs, engine: &Engine, second: i64) -> Vec<String> {
    let released = gangs.release_due(engine, at(second));
    let members = released.into_iter().flat_map(|gang| gang.members);
    members.map(|(pod, _)| pod.to_string()).collect()
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_partial_gang_is_completed_or_released() {
    let mut engine = engine();
    let mut gangs = surveyed(&engine);
    assert_eq!(gangs.next_due(), Some(at(10)));
    assert_eq!(released(&mut gangs, &engine, 9), NOTHING);
    assert_eq!(released(&mut gangs, &engine, 10), ["a/p-0"]);
    assert_eq!(gangs.next_due(), Some(at(20)), "a deletion may fail");
    assert_eq!(released(&mut gangs, &engine, 19), NOTHING);
    assert_eq!(released(&mut gangs, &engine, 20), ["a/p-0"], "it is tried again");

    engine.apply(&pod(1, Some("n")));
    examine(&mut gangs, &engine, 21);
    assert!(gangs.gangs.is_empty(), "the gang is whole");
}

#[test]
fn time_does_not_run_while_binds_are_in_flight() {
    let engine = engine();
    let mut gangs = PartialGangs::new(GRACE, &test_cluster::conf());
    gangs.binds_started(&"a/g".into());
    examine(&mut gangs, &engine, 0);
    assert_eq!(gangs.next_due(), None);
    gangs.binds_answered(&"a/g".into(), &"g".into(), true);
    assert_eq!(gangs.next_due(), Some(Timestamp::MIN), "the group is examined at once");
    examine(&mut gangs, &engine, 30);
    assert_eq!(gangs.next_due(), Some(at(40)));
    assert!(gangs.in_flight.is_empty());
}

#[test]
fn only_a_gang_with_failed_binds_counts_as_completed() {
    for have_failed in [false, true] {
        let mut engine = test_cluster::engine(2, &[test_cluster::pod(0, None), test_cluster::pod(1, None)]);
        let mut gangs = surveyed(&engine);
        assert_eq!(engine.cycle(1, 0).binds().count(), 2);
        gangs.binds_answered(&"a/g".into(), &"g".into(), have_failed);
        examine(&mut gangs, &engine, 0);
        engine.apply(&pod(0, Some("n")));
        examine(&mut gangs, &engine, 0);
        engine.apply(&pod(1, Some("n")));
        examine(&mut gangs, &engine, 1);
        assert_eq!(gangs.take_completed(), usize::from(have_failed));
        assert_eq!(gangs.take_completed(), 0);
    }
}

#[test]
fn a_gang_is_whole_when_its_roles_are() {
    let mut engine = engine();
    engine.apply(&Event::PodGroup(PodGroupFacts {
        min_member: 1,
        min_task_member: [("w".into(), 1)].into(),
        ..test_cluster::group(2)
    }));
    let mut gangs = surveyed(&engine);
    assert_eq!(released(&mut gangs, &engine, 10), ["a/p-0"]);
}

#[test]
fn a_gang_that_is_gone_or_waits_is_forgotten() {
    let mut engine = engine();
    let mut gangs = surveyed(&engine);
    engine.apply(&pod(0, None));
    examine(&mut gangs, &engine, 1);
    assert!(gangs.gangs.is_empty(), "nothing of it is bound");

    engine.apply(&pod(0, Some("n")));
    examine(&mut gangs, &engine, 2);
    assert_eq!(gangs.next_due(), Some(at(12)));
    engine.apply(&Event::PodGroupGone {
        key: "a/g".into(),
        uid: None,
    });
    gangs.pod_group_changed("a/g");
    gangs.examine_groups(&engine, |_| false, at(3));
    assert!(gangs.gangs.is_empty(), "the group is gone");
}

/// A gang of which one pod is bound has this phase, and was scheduled at some time or not: is it released?
fn check_phase(phase: Phase, was_scheduled: bool, expected: bool) {
    let mut engine = engine();
    engine.apply(&Event::PodGroup(PodGroupFacts {
        phase,
        ..test_cluster::group(2)
    }));
    let mut gangs = PartialGangs::new(GRACE, &test_cluster::conf());
    gangs.examine_groups(&engine, |_| was_scheduled, at(0));
    assert_eq!(gangs.next_due().is_some(), expected, "{phase:?} {was_scheduled}");
}

#[test]
fn a_gang_that_has_started_is_left_alone() {
    for was_scheduled in [false, true] {
        check_phase(Phase::Pending, was_scheduled, true);
        check_phase(Phase::Inqueue, was_scheduled, true);
        check_phase(Phase::Unknown, was_scheduled, !was_scheduled);
        check_phase(Phase::Running, was_scheduled, false);
    }
}

#[test]
fn without_the_gang_plugin_parts_of_gangs_may_be_bound() {
    let conf = Conf::parse("actions: allocate\ntiers: [{plugins: [{name: predicates}]}]").expect("a configuration");
    let engine = engine();
    let mut gangs = surveyed(&engine);
    gangs.configure(&conf);
    assert_eq!(gangs.next_due(), None);
    gangs.examine_groups(&engine, |_| false, at(0));
    assert_eq!(gangs.next_due(), None);
}

#[test]
fn a_bind_of_unknown_outcome_does_not_postpone_the_release_for_ever() {
    let mut engine = engine();
    let transactions = engine.cycle(1, 0).transactions;
    assert!(transactions.iter().any(|decided| !decided.binds.is_empty()));
    let mut gangs = surveyed(&engine);
    gangs.binds_answered(&"a/g".into(), &"g".into(), true);
    examine(&mut gangs, &engine, 0);
    for second in [10, 19] {
        assert_eq!(released(&mut gangs, &engine, second), NOTHING, "the bind may turn up");
    }
    assert_eq!(released(&mut gangs, &engine, 20), ["a/p-0", "a/p-1"]);
}

#[test]
fn a_gang_whose_binds_were_all_answered_well_is_not_released_because_the_watch_is_late() {
    let mut engine = test_cluster::engine(2, &[test_cluster::pod(0, None), test_cluster::pod(1, None)]);
    let mut gangs = surveyed(&engine);
    assert_eq!(engine.cycle(1, 0).binds().count(), 2);
    gangs.binds_started(&"a/g".into());
    gangs.binds_answered(&"a/g".into(), &"g".into(), false);
    engine.apply(&pod(0, Some("n")));
    examine(&mut gangs, &engine, 0);
    for second in [10, 20, 29] {
        assert_eq!(released(&mut gangs, &engine, second), NOTHING, "at {second}");
    }
    engine.apply(&pod(1, Some("n")));
    examine(&mut gangs, &engine, 30);
    assert!(gangs.gangs.is_empty());
}

/// A gang of two runs; then its second pod is lost.
fn broken_gang() -> Engine {
    let mut engine = engine();
    for index in 0..2 {
        let mut running = test_cluster::pod(index, Some("n"));
        running.phase = PodPhase::Running;
        engine.apply(&Event::Pod(running));
    }
    engine.cycle(1, 0);
    engine.apply(&Event::PodGone {
        key: "a/p-1".into(),
        uid: None,
    });
    engine.cycle(2, 0);
    engine
}

#[test]
fn a_running_gang_is_left_alone_while_the_successor_of_a_lost_pod_is_placed() {
    let mut engine = broken_gang();
    let mut gangs = PartialGangs::new(GRACE, &test_cluster::conf());
    gangs.has_surveyed = true;
    engine.apply(&pod(1, None));
    let plan = engine.cycle(3, 0);
    assert_eq!(plan.binds().count(), 1, "the successor gets a node");
    gangs.observe_plan(&plan);
    gangs.examine_groups(&engine, |_| true, at(0));
    gangs.clear_suspects();
    engine.bind_failed("a/p-1", "u1");
    gangs.binds_answered(&"a/g".into(), &"g".into(), true);
    gangs.examine_groups(&engine, |_| true, at(1));
    let plan = engine.cycle(4, 0);
    gangs.observe_plan(&plan);
    gangs.examine_groups(&engine, |_| true, at(1));
    gangs.clear_suspects();
    assert_eq!(released(&mut gangs, &engine, 60), NOTHING);
}

#[test]
fn a_running_pod_whose_eviction_was_refused_is_left_alone() {
    let mut engine = broken_gang();
    engine.apply(&Event::PodGroup(PodGroupFacts {
        phase: Phase::Pending,
        ..test_cluster::group(2)
    }));
    let mut gangs = PartialGangs::new(GRACE, &test_cluster::conf());
    gangs.suspects.insert("a/g".into());
    gangs.has_surveyed = true;
    gangs.examine_groups(&engine, |_| true, at(0));
    assert!(gangs.gangs.is_empty(), "it runs, whatever its group says");
}

#[test]
fn a_pod_that_leaves_postpones_the_release() {
    let mut engine = engine();
    let leaving = PodFacts {
        terminating: true,
        ..test_cluster::pod(1, Some("n"))
    };
    engine.apply(&Event::Pod(leaving));
    let mut gangs = surveyed(&engine);
    for second in [10, 39] {
        assert_eq!(released(&mut gangs, &engine, second), NOTHING, "its successor may come");
    }
    assert_eq!(released(&mut gangs, &engine, 40), ["a/p-0"]);
}

#[test]
fn pods_that_came_with_a_node_are_not_deleted() {
    let mut engine = test_cluster::engine(3, &[test_cluster::pod(1, None)]);
    let mut gangs = surveyed(&engine);
    engine.apply(&pod(0, Some("n")));
    gangs.pod_came_bound(engine.pod("a/p-0").expect("a pod"));
    examine(&mut gangs, &engine, 0);
    assert!(gangs.gangs.is_empty(), "there is nothing to release");
    engine.apply(&pod(1, Some("n")));
    examine(&mut gangs, &engine, 0);
    assert_eq!(released(&mut gangs, &engine, 10), ["a/p-1"]);
    gangs.pod_deleted("u0");
    assert!(gangs.bound_by_others.is_empty());
}

#[test]
fn a_pod_on_a_node_that_is_gone_does_not_make_a_gang_whole() {
    let mut engine = engine();
    engine.apply(&Event::Node(NodeFacts {
        name: "m".into(),
        uid: "m".into(),
        ..test_cluster::node(4000)
    }));
    engine.apply(&Event::NodeGone {
        name: "m".into(),
        uid: None,
    });
    engine.apply(&pod(1, Some("m")));
    let mut gangs = surveyed(&engine);
    // By the counts alone the engine reports that the group runs.
    engine.cycle(1, 0);
    assert_eq!(
        engine.group("a/g").map(PodGroupView::announced_phase),
        Some(Phase::Running)
    );
    examine(&mut gangs, &engine, 1);
    assert_eq!(released(&mut gangs, &engine, 10), ["a/p-0", "a/p-1"]);
}

#[test]
fn a_bound_gang_that_loses_a_pod_before_anything_runs_is_released() {
    let mut engine = engine();
    engine.apply(&pod(1, Some("n")));
    engine.cycle(1, 0);
    let mut gangs = surveyed(&engine);
    assert_eq!(gangs.next_due(), None, "the gang is whole");
    engine.apply(&Event::PodGone {
        key: "a/p-1".into(),
        uid: None,
    });
    let plan = engine.cycle(2, 0);
    gangs.observe_plan(&plan);
    gangs.examine_groups(&engine, |_| true, at(0));
    gangs.clear_suspects();
    assert_eq!(released(&mut gangs, &engine, 10), ["a/p-0"]);
}

#[test]
fn a_gang_that_loses_a_pod_while_another_runs_is_left_alone() {
    let mut engine = broken_gang();
    let mut gangs = PartialGangs::new(GRACE, &test_cluster::conf());
    let plan = engine.cycle(3, 0);
    gangs.observe_plan(&plan);
    gangs.examine_groups(&engine, |_| true, at(0));
    gangs.clear_suspects();
    assert_eq!(gangs.next_due(), None);
}
