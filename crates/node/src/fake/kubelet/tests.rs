//! Table tests: what happens, and what the kubelet asks for.

use std::collections::BTreeMap;

use super::super::facts::{Container, Untainted};
use super::*;

fn rules() -> Rules {
    Rules {
        defaults: Size::default(),
        orphan_grace: Some(5_000),
    }
}

fn node(name: &str) -> NodeFacts {
    let resources = BTreeMap::from([("cpu".to_owned(), "4".to_owned())]);
    NodeFacts {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        fake: true,
        ready: true,
        lost: None,
        info: true,
        labels: true,
        address: Some(Ipv4Addr::new(172, 16, 0, 1)),
        capacity: resources.clone(),
        allocatable: resources,
    }
}

fn pod(name: &str, annotations: &[(&str, &str)]) -> PodFacts {
    let annotations = annotations
        .iter()
        .map(|(k, v)| (format!("basalt.sh/{k}"), (*v).to_owned()))
        .collect();
    let containers = vec![Container {
        name: "main".into(),
        image: "busybox".into(),
        sidecar: false,
    }];
    PodFacts {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        node: "n".into(),
        shape: Shape::new(containers, Vec::new(), AtExit::End, None, &annotations),
        phase: Phase::Pending,
        started: None,
        run_started: None,
        scheduled: None,
        restarts: 0,
        address: None,
        deleted: None,
    }
}

fn applied(facts: &PodFacts) -> Event {
    Event::PodApplied(Box::new(facts.clone()))
}

/// A kubelet that has seen node `n` and no pods.
fn serving() -> FakeKubelet {
    let mut kubelet = FakeKubelet::new(rules());
    for event in [
        Event::NodesRelisting,
        Event::NodeApplied(node("n")),
        Event::NodesListed,
        Event::PodsRelisting,
        Event::PodsListed,
    ] {
        kubelet.apply(0, event);
    }
    kubelet
}

/// An action in a word.
fn word(action: &Action) -> String {
    match action {
        Action::DeletePod(pod) => format!("delete {}", pod.name),
        Action::PatchNode { name, .. } => format!("node {name}"),
        Action::PatchPod { pod, patch, .. } => {
            let status = &patch["status"];
            let restarts = &status["containerStatuses"][0]["restartCount"];
            let code = &status["containerStatuses"][0]["state"]["terminated"]["exitCode"];
            let extra = match (restarts.as_u64(), code.as_u64()) {
                (_, Some(code)) => format!(" {code}"),
                (Some(n), None) if n > 0 => format!(" restart {n}"),
                _ => String::new(),
            };
            format!("{} {}{extra}", status["phase"].as_str().unwrap_or("?"), pod.name)
        }
    }
}

/// Takes and acknowledges everything that is to do now.
fn drain(kubelet: &mut FakeKubelet, now: Millis) -> Vec<String> {
    let mut words = Vec::new();
    while let Some(action) = kubelet.take(now) {
        words.push(word(&action));
        kubelet.apply(now, Event::Done(action.target(), Outcome::Done));
        assert!(words.len() < 1_000, "endless: {words:?}");
    }
    words
}

/// One pod on a served node: its facts, and at which times what must be asked for.
fn check(name: &str, facts: PodFacts, expected: &[(Millis, &[&str])]) {
    let mut kubelet = serving();
    kubelet.apply(0, applied(&facts));
    for (now, words) in expected {
        assert_eq!(drain(&mut kubelet, *now), *words, "{name} at {now}");
    }
}

#[test]
fn a_pod_lives_as_its_annotations_say() {
    check(
        "until deleted",
        pod("p", &[]),
        &[(0, &["Running p"]), (1_000_000_000, &[])],
    );
    check(
        "run time",
        pod("p", &[("run-time", "30s")]),
        &[(0, &["Running p"]), (29_999, &[]), (30_000, &["Succeeded p 0"])],
    );
    let failing = pod("p", &[("run-time", "1s"), ("exit-code", "3")]);
    check(
        "exit code",
        failing,
        &[(0, &["Running p"]), (1_000, &["Failed p 3"]), (9_000, &[])],
    );
    check(
        "no run time",
        pod("p", &[("exit-code", "1")]),
        &[(0, &["Running p"]), (9_000_000, &[])],
    );
    check(
        "at once",
        pod("p", &[("run-time", "0s")]),
        &[(0, &["Running p", "Succeeded p 0"])],
    );
    check(
        "bad run time",
        pod("p", &[("run-time", "soon")]),
        &[(0, &["Running p"]), (9_000_000, &[])],
    );
}

#[test]
fn restart_policy_always_restarts_and_is_held_back() {
    let mut facts = pod("p", &[("run-time", "1s"), ("exit-code", "1")]);
    facts.shape.at_exit = AtExit::Restart;
    let expected: &[(Millis, &[&str])] = &[
        (0, &["Running p"]),
        (9_999, &[]),
        (10_000, &["Running p restart 1"]),
        (20_000, &["Running p restart 2"]),
    ];
    check("short", facts.clone(), expected);
    facts.shape.run_time = Some(60_000);
    check(
        "long",
        facts.clone(),
        &[(0, &["Running p"]), (59_999, &[]), (60_000, &["Running p restart 1"])],
    );
    facts.shape.active_deadline = Some(5_000);
    check(
        "deadline",
        facts,
        &[(0, &["Running p"]), (5_000, &["Failed p 137"]), (99_000, &[])],
    );
}

#[test]
fn what_was_running_goes_on_after_a_restart() {
    let mut facts = pod("p", &[("run-time", "30s")]);
    facts.phase = Phase::Running;
    facts.started = Some(-10_000);
    facts.run_started = Some(-10_000);
    check(
        "goes on",
        facts.clone(),
        &[(0, &[]), (19_999, &[]), (20_000, &["Succeeded p 0"])],
    );
    facts.run_started = Some(-50_000);
    check("ended meanwhile", facts.clone(), &[(0, &["Succeeded p 0"])]);
    facts.phase = Phase::Finished;
    check("finished", facts, &[(0, &[]), (99_000, &[])]);
}

#[test]
fn a_deleted_pod_ends_at_once_or_after_its_stop_time() {
    for (annotations, phase, due) in [
        (&[][..], Phase::Running, 100),
        (&[("stop-time", "5s")][..], Phase::Running, 5_100),
        (&[("stop-time", "5s")][..], Phase::Pending, 100),
        (&[("stop-time", "5s")][..], Phase::Finished, 100),
        (&[("stop-time", "5s"), ("run-time", "2s")][..], Phase::Running, 2_000),
    ] {
        let mut kubelet = serving();
        let mut facts = pod("p", annotations);
        facts.phase = phase;
        facts.started = (phase != Phase::Pending).then_some(0);
        facts.deleted = Some(100);
        kubelet.apply(100, applied(&facts));
        if due > 100 {
            assert_eq!(
                drain(&mut kubelet, due - 1),
                Vec::<String>::new(),
                "{annotations:?} {phase:?}"
            );
        }
        assert_eq!(drain(&mut kubelet, due), ["delete p"], "{annotations:?} {phase:?}");
        // A finalizer keeps the object: not our business any more.
        kubelet.apply(due, applied(&facts));
        assert_eq!(drain(&mut kubelet, due + 60_000), Vec::<String>::new());
        kubelet.apply(due, Event::PodDeleted(facts.uid.clone()));
        assert_eq!(kubelet.counts(), (0, 1));
    }
}

#[test]
fn a_stale_watch_starts_nothing_twice() {
    let mut kubelet = serving();
    let facts = pod("p", &[("run-time", "30s")]);
    kubelet.apply(0, applied(&facts));
    assert_eq!(drain(&mut kubelet, 0), ["Running p"]);
    for _ in 0..3 {
        kubelet.apply(10, applied(&facts));
        assert_eq!(drain(&mut kubelet, 10), Vec::<String>::new());
    }
    assert_eq!(drain(&mut kubelet, 30_000), ["Succeeded p 0"]);
    kubelet.apply(30_001, applied(&facts));
    assert_eq!(drain(&mut kubelet, 90_000), Vec::<String>::new());
}

#[test]
fn a_pod_deleted_before_its_turn_is_never_started() {
    let mut kubelet = serving();
    let mut facts = pod("p", &[]);
    kubelet.apply(0, applied(&facts));
    facts.deleted = Some(0);
    kubelet.apply(0, applied(&facts));
    assert_eq!(drain(&mut kubelet, 0), ["delete p"]);
}

#[test]
fn one_request_a_pod_at_a_time() {
    let mut kubelet = serving();
    let mut facts = pod("p", &[]);
    kubelet.apply(0, applied(&facts));
    let start = kubelet.take(0).unwrap();
    facts.deleted = Some(1);
    kubelet.apply(1, applied(&facts));
    assert_eq!(kubelet.take(1), None);
    kubelet.apply(2, Event::Done(start.target(), Outcome::Done));
    assert_eq!(drain(&mut kubelet, 2), ["delete p"]);
}

#[test]
fn failures_are_tried_again_later_and_the_missing_forgotten() {
    let mut kubelet = serving();
    kubelet.apply(0, applied(&pod("p", &[("run-time", "10s")])));
    let mut now = 0;
    let mut waits = Vec::new();
    for _ in 0..12 {
        let action = kubelet.take(now).unwrap();
        kubelet.apply(now, Event::Done(action.target(), Outcome::Failed));
        assert_eq!(kubelet.take(now), None);
        let due = kubelet.next_due().unwrap();
        waits.push(due - now);
        now = due;
    }
    assert_eq!(waits[..3], [100, 200, 400]);
    assert_eq!(waits[11], 30_000);
    // The start is still the first one: it was asked for at 0 and may have happened then.
    let Some(Action::PatchPod { pod, patch, .. }) = kubelet.take(now) else {
        panic!("no start")
    };
    assert_eq!(patch["status"]["startTime"], "1970-01-01T00:00:00Z");
    kubelet.apply(now, Event::Done(Target::Pod(pod.uid), Outcome::Gone));
    assert_eq!((kubelet.counts(), kubelet.take(now)), ((0, 1), None));
}

#[test]
fn pods_of_a_deleted_node_go() {
    let mut kubelet = serving();
    kubelet.apply(0, applied(&pod("p", &[])));
    assert_eq!(drain(&mut kubelet, 0), ["Running p"]);
    kubelet.apply(1, Event::NodeDeleted("n".into()));
    assert_eq!(drain(&mut kubelet, 1), ["delete p"]);
    kubelet.apply(2, Event::PodDeleted("uid-p".into()));
    assert_eq!((kubelet.counts(), kubelet.nodes.iter().count()), ((0, 0), 0));
}

#[test]
fn a_pod_on_an_unknown_node_waits_for_it_and_then_goes() {
    let mut facts = pod("p", &[]);
    facts.node = "later".into();
    let mut kubelet = serving();
    kubelet.apply(0, applied(&facts));
    assert_eq!(drain(&mut kubelet, 4_999), Vec::<String>::new());
    kubelet.apply(4_999, Event::NodeApplied(node("later")));
    assert_eq!(drain(&mut kubelet, 5_000), ["Running p"]);

    let mut kubelet = serving();
    kubelet.apply(0, applied(&facts));
    assert_eq!(drain(&mut kubelet, 5_000), ["delete p"]);
}

#[test]
fn somebody_elses_node_is_left_alone() {
    let mut kubelet = serving();
    let mut facts = pod("p", &[]);
    facts.node = "real".into();
    kubelet.apply(
        0,
        Event::NodeApplied(NodeFacts {
            name: "real".into(),
            ..NodeFacts::default()
        }),
    );
    kubelet.apply(0, applied(&facts));
    assert_eq!(drain(&mut kubelet, 99_000), Vec::<String>::new());
    // Its label makes it ours.
    kubelet.apply(99_000, Event::NodeApplied(node("real")));
    assert_eq!(drain(&mut kubelet, 99_000), ["Running p"]);
}

#[test]
fn nothing_is_done_before_both_lists_are_there() {
    let mut kubelet = FakeKubelet::new(rules());
    let mut orphan = pod("o", &[]);
    orphan.node = "gone".into();
    kubelet.apply(0, Event::PodsRelisting);
    kubelet.apply(0, applied(&pod("p", &[])));
    kubelet.apply(0, applied(&orphan));
    kubelet.apply(0, Event::PodsListed);
    assert_eq!(drain(&mut kubelet, 60_000), Vec::<String>::new());
    kubelet.apply(60_000, Event::NodesRelisting);
    kubelet.apply(60_000, Event::NodeApplied(node("n")));
    assert_eq!(drain(&mut kubelet, 60_000), Vec::<String>::new());
    kubelet.apply(60_000, Event::NodesListed);
    let mut words = drain(&mut kubelet, 60_000);
    words.sort();
    assert_eq!(words, ["Running p", "delete o"]);
}

#[test]
fn a_relist_drops_what_it_does_not_name() {
    let mut kubelet = serving();
    let (stays, goes) = (pod("stays", &[]), pod("goes", &[]));
    kubelet.apply(0, applied(&stays));
    kubelet.apply(0, applied(&goes));
    drain(&mut kubelet, 0);
    for event in [Event::PodsRelisting, applied(&stays), Event::PodsListed] {
        kubelet.apply(1, event);
    }
    assert_eq!(kubelet.counts(), (1, 1));
    for event in [Event::NodesRelisting, Event::NodesListed] {
        kubelet.apply(2, event);
    }
    assert_eq!(drain(&mut kubelet, 2), ["delete stays"]);
}

#[test]
fn a_node_is_reported_when_it_lacks_something_and_not_too_often() {
    let mut kubelet = serving();
    kubelet.apply(0, Event::NodeApplied(node("n")));
    assert_eq!(drain(&mut kubelet, 0), Vec::<String>::new());
    let bare = NodeFacts {
        name: "n".into(),
        fake: true,
        ..NodeFacts::default()
    };
    kubelet.apply(0, Event::NodeApplied(bare.clone()));
    let Some(Action::PatchNode {
        registration, status, ..
    }) = kubelet.take(0)
    else {
        panic!("no report")
    };
    let registration = registration.unwrap();
    assert_eq!(registration["metadata"]["labels"]["kubernetes.io/hostname"], "n");
    assert_eq!(registration["spec"], Value::Null);
    assert_eq!(status.unwrap()["status"]["allocatable"]["cpu"], "16");
    kubelet.apply(0, Event::Done(Target::Node("n".into()), Outcome::Done));
    let lost = NodeFacts {
        ready: false,
        ..node("n")
    };
    kubelet.apply(10, Event::NodeApplied(lost));
    assert_eq!(drain(&mut kubelet, 999), Vec::<String>::new());
    assert_eq!(drain(&mut kubelet, 1_000), ["node n"]);
}

#[test]
fn a_taint_of_lost_nodes_is_taken_away_and_nothing_else_is_written() {
    let mut kubelet = serving();
    let lost = NodeFacts {
        lost: Some(Untainted {
            taints: vec![json!({"key": "gpu"})],
            resource_version: "7".to_owned(),
        }),
        ..node("n")
    };
    kubelet.apply(0, Event::NodeApplied(lost));
    let Some(Action::PatchNode {
        registration, status, ..
    }) = kubelet.take(0)
    else {
        panic!("no report")
    };
    assert_eq!(status, None);
    let registration = registration.unwrap();
    assert_eq!(registration["spec"]["taints"], json!([{"key": "gpu"}]));
    assert_eq!(registration["metadata"]["resourceVersion"], "7");
    let served: Vec<(String, String)> = kubelet
        .served()
        .iter()
        .map(|(name, uid)| (name.to_string(), uid.to_string()))
        .collect();
    assert_eq!(served, [("n".to_owned(), "uid-n".to_owned())]);
}

#[test]
fn a_node_made_anew_while_its_report_is_on_its_way_is_reported_again() {
    let mut kubelet = serving();
    let bare = NodeFacts {
        name: "b".into(),
        fake: true,
        ..NodeFacts::default()
    };
    kubelet.apply(0, Event::NodeApplied(bare.clone()));
    let report = kubelet.take(0).unwrap();
    // Still bare: either the watch is behind our own write, or this is another node of the same name.
    kubelet.apply(1, Event::NodeApplied(bare));
    kubelet.apply(2, Event::Done(report.target(), Outcome::Done));
    assert_eq!(drain(&mut kubelet, 1_001), Vec::<String>::new());
    assert_eq!(drain(&mut kubelet, 1_002), ["node b"]);
    // The watch has caught up: nothing is left to report.
    kubelet.apply(1_003, Event::NodeApplied(node("b")));
    assert_eq!(drain(&mut kubelet, 9_000), Vec::<String>::new());
}

#[test]
fn a_restart_seen_first_in_the_watch_counts_once() {
    let mut kubelet = serving();
    let mut facts = pod("p", &[("run-time", "20s")]);
    facts.shape.at_exit = AtExit::Restart;
    kubelet.apply(0, applied(&facts));
    drain(&mut kubelet, 0);
    let restart = kubelet.take(20_000).unwrap();
    facts.phase = Phase::Running;
    facts.restarts = 1;
    facts.run_started = Some(20_000);
    kubelet.apply(20_001, applied(&facts));
    kubelet.apply(20_002, Event::Done(restart.target(), Outcome::Done));
    assert_eq!(drain(&mut kubelet, 39_999), Vec::<String>::new());
    assert_eq!(drain(&mut kubelet, 40_000), ["Running p restart 2"]);
}

#[test]
fn warnings_reach_the_owner_with_the_start() {
    let mut kubelet = serving();
    kubelet.apply(0, applied(&pod("p", &[("run-time", "30")])));
    let Some(Action::PatchPod { warnings, .. }) = kubelet.take(0) else {
        panic!("no start")
    };
    assert_eq!(warnings.len(), 1);
}

#[test]
fn equal_shapes_are_kept_once_and_freed() {
    let mut kubelet = serving();
    for i in 0..100 {
        kubelet.apply(0, applied(&pod(&format!("p{i}"), &[])));
    }
    assert_eq!((kubelet.shapes.len(), kubelet.namespaces.len()), (1, 1));
    assert_eq!(drain(&mut kubelet, 0).len(), 100);
    for i in 0..100 {
        kubelet.apply(0, Event::PodDeleted(format!("uid-p{i}")));
    }
    assert_eq!(
        (kubelet.shapes.len(), kubelet.namespaces.len(), kubelet.counts()),
        (0, 0, (0, 1))
    );
}

#[test]
fn a_pod_is_small() {
    // With name, uid, indexes and timer that makes about 340 bytes a pod: 34 MB for 100,000.
    assert!(size_of::<Pod>() <= 144, "{}", size_of::<Pod>());
}

proptest::proptest! {
    /// Whatever the order of run times: every pod ends once, none early, and the kubelet always wakes in time.
    #[test]
    fn pods_end_once_and_on_time(times in proptest::collection::vec(0_i64..5_000, 1..40), steps in proptest::collection::vec(1_i64..700, 1..40)) {
        let mut kubelet = serving();
        for (i, time) in times.iter().enumerate() {
            kubelet.apply(0, applied(&pod(&format!("p{i}"), &[("run-time", &format!("{time}ms"))])));
        }
        let mut ended: BTreeMap<String, Millis> = BTreeMap::new();
        let mut now = 0;
        for step in steps.into_iter().chain([10_000]) {
            for word in drain(&mut kubelet, now) {
                if let Some(name) = word.strip_prefix("Succeeded ") {
                    proptest::prop_assert!(ended.insert(name.to_owned(), now).is_none());
                }
            }
            proptest::prop_assert!(kubelet.next_due().is_none_or(|due| due > now));
            now += step;
        }
        drain(&mut kubelet, now).into_iter().filter_map(|w| Some(w.strip_prefix("Succeeded ")?.to_owned())).for_each(|name| {
            ended.insert(name, now);
        });
        for (i, time) in times.iter().enumerate() {
            let end = ended[&format!("p{i} 0")];
            proptest::prop_assert!(end >= *time);
        }
        proptest::prop_assert_eq!(ended.len(), times.len());
    }
}
