//! Locked nodes: a good decision is good; each planted bug in one is found, and nothing else.

use basalt_audit::{Decision, Eviction, Placement, Purpose, Rules, World, judge};
use serde_json::{Value, json};

use crate::{find, group, node, place, pod, queue, set};

fn rules(plugins: &[&str]) -> Rules {
    let plugins: Vec<Value> = plugins.iter().map(|name| json!({"name": name})).collect();
    Rules::read(&json!({"actions": "allocate", "tiers": [{"plugins": plugins}]}))
}

/// Three nodes of four cpus. `team` is guaranteed two of them, n1 and n2, and `kid` below it holds n1. In their way are `solo` on n2
/// and one of `gang` on n1; the other one of that gang is on n3. Pods of everybody wait.
fn objects() -> Vec<Value> {
    let holder = |name: &str, parent: &str, nodes: &[&str], cpu: u32| {
        let mut queue = queue(name, parent, 4);
        queue["spec"]["guarantee"] = json!({"policy": "Guaranteed", "resource": {"cpu": cpu}});
        queue["status"] = json!({"reservation": {"nodes": nodes, "target": {"cpu": cpu}}});
        queue
    };
    let mut objects = vec![
        node("n1", 4),
        node("n2", 4),
        node("n3", 4),
        queue("root", "", 12),
        holder("team", "root", &["n1", "n2"], 8),
        holder("kid", "team", &["n1"], 2),
        queue("twin", "team", 4),
        queue("other", "root", 4),
        group("mine", "kid", 1, ""),
        group("sister", "twin", 1, ""),
        group("gang", "other", 2, ""),
        group("solo", "other", 1, ""),
        group("more", "other", 1, ""),
    ];
    for (name, group, node) in [
        ("mine-0", "mine", ""),
        ("mine-1", "mine", "n1"),
        ("sister-0", "sister", ""),
        ("more-0", "more", ""),
        ("gang-0", "gang", "n1"),
        ("gang-1", "gang", "n3"),
        ("solo-0", "solo", "n2"),
        ("solo-1", "solo", "n3"),
    ] {
        objects.push(pod(name, group, node));
    }
    objects
}

fn clear(pod: &str) -> Eviction {
    Eviction {
        pod: format!("d/{pod}"),
        uid: format!("uid-{pod}"),
        purpose: Purpose::Reservation,
        beneficiary: "team".to_owned(),
    }
}

/// Everybody gets a place where they may, and who is in the way goes.
fn decision() -> Decision {
    Decision {
        binds: vec![place("mine-0", "n1"), place("sister-0", "n2"), place("more-0", "n3")],
        evictions: vec![clear("gang-0"), clear("gang-1"), clear("solo-0")],
        ..Decision::default()
    }
}

const USUAL: [&str; 4] = ["gang", "predicates", "conformance", "node_reservation"];

#[track_caller]
fn check(world: &[(&str, &str, Value)], change: impl FnOnce(&mut Decision), expected: &[&str]) {
    check_under(&USUAL, world, change, expected);
}

#[track_caller]
fn check_under(plugins: &[&str], world: &[(&str, &str, Value)], change: impl FnOnce(&mut Decision), expected: &[&str]) {
    let mut objects = objects();
    for (name, pointer, value) in world {
        set(find(&mut objects, name), pointer, value);
    }
    let mut decision = decision();
    change(&mut decision);
    let findings = judge(&World::read(&objects), &rules(plugins), &decision);
    let found: Vec<&str> = findings.iter().map(|finding| finding.invariant.id()).collect();
    assert_eq!(found, expected, "{findings:#?}");
}

fn nothing(_: &mut Decision) {}

fn goes(pod: &'static str, node: &'static str) -> impl FnOnce(&mut Decision) {
    move |decision| {
        decision.binds.retain(|bind| bind.pod != format!("d/{pod}"));
        decision.binds.push(place(pod, node));
    }
}

#[test]
fn locked_nodes_take_their_queues_pods_only() {
    let daemon = json!([{"kind": "DaemonSet", "name": "d", "controller": true}]);
    let daemon = ("more-0", "/metadata/ownerReferences", daemon);
    let all = |toleration: Value| ("more-0", "/spec/tolerations", json!([toleration]));
    let everything = all(json!({"operator": "Exists"}));
    check(&[], nothing, &[]);
    check(&[], goes("more-0", "n1"), &["R1"]);
    check(&[], goes("more-0", "n2"), &["R1"]);
    check(&[], goes("sister-0", "n1"), &["R1"]);
    check(&[], goes("sister-0", "n3"), &[]);
    check(&[], goes("mine-0", "n2"), &[]);
    check(&[daemon.clone(), everything.clone()], goes("more-0", "n1"), &[]);
    check(&[everything], goes("more-0", "n1"), &["R1"]);
    check(std::slice::from_ref(&daemon), goes("more-0", "n1"), &["R1"]);
    let one = all(json!({"operator": "Exists", "effect": "NoSchedule"}));
    check(&[daemon, one], goes("more-0", "n1"), &["R1"]);
    let wait = |decision: &mut Decision| {
        let Placement { pod, uid, node } = place("more-0", "n2");
        decision.binds.retain(|bind| bind.pod != pod);
        decision.pipelined.push(Placement { pod, uid, node });
    };
    check(&[], wait, &["R1"]);
    // A queue that is being deleted holds nothing.
    let leaving = |name: &'static str| (name, "/metadata/deletionTimestamp", json!("now"));
    check(&[leaving("kid")], goes("sister-0", "n1"), &[]);
    check(&[leaving("kid")], goes("more-0", "n1"), &["R1"]);
    // Nothing is locked where the plugin is not.
    let unlocked = |decision: &mut Decision| {
        goes("more-0", "n1")(decision);
        decision.evictions.clear();
    };
    check_under(&["gang", "predicates"], &[], unlocked, &[]);
}

#[test]
fn what_goes_for_a_reservation_is_in_its_way() {
    check(
        &[("team", "/spec/guarantee/policy", json!("Best-Effort"))],
        nothing,
        &["R2", "R2"],
    );
    check(
        &[("team", "/spec/guarantee/policy", Value::Null)],
        nothing,
        &["R2", "R2"],
    );
    check_under(&["gang", "predicates"], &[], nothing, &["R2"]);
    // One of both would do, or none.
    check(
        &[("team", "/status/reservation/target", json!({"cpu": 7}))],
        nothing,
        &["R2", "R2"],
    );
    check(
        &[("team", "/status/reservation/target", json!({"cpu": 7}))],
        |decision| decision.evictions.truncate(2),
        &[],
    );
    check(
        &[("team", "/status/reservation/target", json!({"memory": "1Gi"}))],
        nothing,
        &["R2", "R2"],
    );
    // Who leaves already need not be replaced by another one who leaves.
    check(
        &[
            ("solo-0", "/metadata/deletionTimestamp", json!("now")),
            ("team", "/status/reservation/target", json!({"cpu": 7})),
        ],
        |decision| decision.evictions.truncate(2),
        &["R2"],
    );
    check(&[], |decision| decision.evictions.push(clear("mine-1")), &["R2"]);
    check(&[], |decision| decision.evictions.push(clear("solo-1")), &["R2"]);
    let for_kid = |decision: &mut Decision| {
        decision.evictions.truncate(2);
        decision
            .evictions
            .iter_mut()
            .for_each(|one| one.beneficiary = "kid".to_owned());
    };
    check(
        &[("kid", "/status/reservation/target", json!({"cpu": 4}))],
        for_kid,
        &[],
    );
    check(&[], for_kid, &["R2"]);
    // Nobody is named: any queue that it serves will do.
    let for_somebody = |decision: &mut Decision| decision.evictions.iter_mut().for_each(|one| one.beneficiary.clear());
    check(&[], for_somebody, &[]);
    check(
        &[("team", "/spec/guarantee/policy", Value::Null)],
        for_somebody,
        &["R2", "R2"],
    );
}

#[test]
fn who_must_stay_stays() {
    let daemon = json!([{"kind": "DaemonSet", "name": "d", "controller": true}]);
    check(&[("solo-0", "/metadata/ownerReferences", daemon)], nothing, &["R2"]);
    let mirror = "/metadata/annotations/kubernetes.io~1config.mirror";
    check(&[("solo-0", mirror, json!("x"))], nothing, &["R2"]);
    let class = ("solo-0", "/spec/priorityClassName", json!("system-node-critical"));
    check(std::slice::from_ref(&class), nothing, &["I5", "R2"]);
    check_under(&["gang", "predicates", "node_reservation"], &[class], nothing, &["R2"]);
    let flag = "/metadata/annotations/volcano.sh~1preemptable";
    check(&[("solo-0", flag, json!("false"))], nothing, &["I5"]);
    check(&[("solo", flag, json!("false"))], nothing, &["I5"]);
    // A part of a gang.
    check(&[], |decision| drop(decision.evictions.remove(1)), &["I5"]);
    check(&[], |decision| drop(decision.evictions.remove(0)), &["I5", "R2"]);
    check(
        &[("gang", "/spec/minMember", json!(1))],
        |decision| drop(decision.evictions.remove(1)),
        &[],
    );
}

#[test]
fn budgets_hold_for_reservations() {
    let mut objects = objects();
    objects.push(
        json!({"kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "d"},
        "spec": {"selector": {"matchLabels": {"app": "gang"}}}, "status": {"disruptionsAllowed": 1}}),
    );
    let findings = judge(&World::read(&objects), &rules(&USUAL), &decision());
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].object.starts_with("PodDisruptionBudget"), "{findings:#?}");
}

/// What is locked is not there for others, also where less is guaranteed.
#[test]
fn locked_nodes_are_kept_from_others_limits() {
    let judged = |guarantee: u32, locked: bool, tree: bool, waiting: usize| {
        let mut objects = vec![
            node("n1", 4),
            node("n2", 4),
            queue("root", "", 8),
            queue("team", "root", 2),
            queue("kid", "team", 2),
            queue("other", "root", 6),
            group("more", "other", 1, ""),
        ];
        objects.extend((0..waiting).map(|at| pod(&format!("more-{at}"), "more", "")));
        let nodes: &[&str] = if locked { &["n1"] } else { &[] };
        let team = find(&mut objects, "team");
        team["spec"]["guarantee"] = json!({"resource": {"cpu": guarantee}});
        let kid = find(&mut objects, "kid");
        kid["status"] = json!({"reservation": {"nodes": nodes}});
        let rules = Rules::read(&json!({"tiers": [{"plugins": [
            {"name": "capacity", "enableHierarchy": tree}, {"name": "node_reservation"}]}]}));
        let binds = (0..waiting).map(|at| place(&format!("more-{at}"), "n2"));
        let decision = Decision {
            binds: binds.collect(),
            ..Decision::default()
        };
        let findings = judge(&World::read(&objects), &rules, &decision);
        let found = findings
            .into_iter()
            .filter(|one| one.invariant.id() == "I4" && one.message.contains("cpu"));
        found.count()
    };
    for tree in [false, true] {
        assert_eq!(judged(2, false, tree, 6), 0);
        assert_eq!(judged(2, false, tree, 7), 1);
        // In a flat world both are kept, for they are two queues' own.
        assert_eq!(judged(2, true, tree, 5), 1);
        assert_eq!(judged(0, true, tree, 4), 0);
        assert_eq!(judged(0, true, tree, 5), 1);
    }
    assert_eq!(judged(2, true, true, 4), 0);
    assert_eq!(judged(2, true, false, 3), 1);
    assert_eq!(judged(2, true, false, 2), 0);
}
