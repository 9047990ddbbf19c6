//! Reservations at rest: a true story is clean, and each planted bug in it is found, and nothing else.

use basalt_audit::{Auditor, Finding, Objects, Rules};
use serde_json::{Value, json};

fn node(name: &str) -> Value {
    json!({"kind": "Node", "metadata": {"name": name}, "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": 10}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod(name: &str, queue: &str, node: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "d", "uid": name,
            "annotations": {"scheduling.volcano.sh/queue-name": queue}},
        "spec": {"nodeName": node, "schedulerName": "volcano",
            "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
        "status": {"phase": "Running"}})
}

fn queue(name: &str, parent: &str, status: Value) -> Value {
    let mut queue =
        json!({"kind": "Queue", "metadata": {"name": name, "uid": name}, "spec": {"parent": parent}, "status": status});
    queue["status"]["state"] = json!("Open");
    queue
}

fn held(nodes: &[&str], idle: [u32; 3], used: u32, target: Value) -> Value {
    let [cpu, memory, pods] = idle;
    json!({
        "reservation": {"nodes": nodes, "resource": {"cpu": cpu, "memory": format!("{memory}Gi"), "pods": pods},
            "used": {"cpu": used, "memory": format!("{used}Gi"), "pods": used}, "target": target, "waitingFor": 0},
        "conditions": [{"type": "ReservationMet", "status": "True", "reason": "Met"}],
    })
}

/// `team` holds n1 and n2 for six cpus, `kid` below it n1 for two, and `tenth` half of what nodes there are: n3 and n4. On n1 is a pod of
/// `kid`, on n2 one of `other`.
fn objects() -> Objects {
    let mut objects = Objects::default();
    let mut team = queue("team", "root", held(&["n1", "n2"], [6, 14, 18], 1, json!({"cpu": 6})));
    team["spec"]["guarantee"] = json!({"policy": "Guaranteed", "resource": {"cpu": 6}});
    let mut kid = queue("kid", "team", held(&["n1"], [3, 7, 9], 1, json!({"cpu": 2})));
    kid["spec"]["guarantee"] = json!({"resource": {"cpu": 2}});
    let mut half = queue(
        "half",
        "root",
        held(&["n3", "n4"], [8, 16, 20], 0, json!({"cpu": 8, "memory": "16Gi"})),
    );
    half["spec"]["guarantee"] = json!({"percentage": {"dimensions": ["cpu", "memory"], "value": 0.5}});
    let (root, other) = (queue("root", "", json!({})), queue("other", "root", json!({})));
    let nodes = ["n1", "n2", "n3", "n4"].map(node);
    let pods = [pod("mine", "kid", "n1"), pod("theirs", "other", "n2")];
    for object in nodes.into_iter().chain(pods).chain([root, team, kid, half, other]) {
        assert!(objects.insert(object));
    }
    objects
}

fn named<'a>(objects: &'a mut Objects, name: &str) -> &'a mut Value {
    let all = objects
        .nodes
        .iter_mut()
        .chain(&mut objects.pods)
        .chain(&mut objects.queues);
    let mut all = all.filter(|object| object["metadata"]["name"] == name);
    all.next().expect("an object of this name")
}

fn settled(objects: &Objects, on: Option<bool>) -> Vec<Finding> {
    let mut auditor = match on {
        None => Auditor::default(),
        Some(true) => Auditor::under(&Rules::read(
            &json!({"tiers": [{"plugins": [{"name": "node_reservation"}]}]}),
        )),
        Some(false) => Auditor::under(&Rules::default()),
    };
    auditor.settled(objects)
}

#[track_caller]
fn check(expected: &[&str], change: impl FnOnce(&mut Objects)) {
    let mut objects = objects();
    change(&mut objects);
    let findings = settled(&objects, Some(true));
    let found: Vec<&str> = findings.iter().map(|finding| finding.invariant.id()).collect();
    assert_eq!(found, expected, "{findings:#?}");
    assert_eq!(settled(&objects, None), findings);
}

fn reservation<'a>(objects: &'a mut Objects, queue: &str) -> &'a mut Value {
    &mut named(objects, queue)["status"]["reservation"]
}

fn unmet(objects: &mut Objects, queue: &str, reason: &str, waiting: u32) {
    let queue = named(objects, queue);
    queue["status"]["conditions"][0] = json!({"type": "ReservationMet", "status": "False", "reason": reason});
    queue["status"]["reservation"]["waitingFor"] = json!(waiting);
}

/// A change of what is idle, used and aimed at that goes with a change of what is there.
fn say(objects: &mut Objects, queue: &str, idle: [u32; 3], used: u32) {
    let target = reservation(objects, queue)["target"].clone();
    let nodes = reservation(objects, queue)["nodes"].clone();
    let mut said = held(&[], idle, used, target)["reservation"].take();
    said["nodes"] = nodes;
    *reservation(objects, queue) = said;
}

#[test]
fn a_true_story_is_clean() {
    check(&[], |_| {});
    // Not met, and saying so.
    check(&[], |objects| {
        named(objects, "team")["spec"]["guarantee"]["resource"] = json!({"cpu": 8});
        reservation(objects, "team")["target"] = json!({"cpu": 8});
        unmet(objects, "team", "Evicting", 1);
    });
    // A daemon is nothing to wait for.
    check(&[], |objects| {
        named(objects, "theirs")["metadata"]["ownerReferences"] = json!([{"kind": "DaemonSet", "controller": true}]);
        named(objects, "team")["spec"]["guarantee"]["resource"] = json!({"cpu": 8});
        reservation(objects, "team")["target"] = json!({"cpu": 8});
        unmet(objects, "team", "Evicting", 0);
    });
}

#[test]
fn nodes_have_one_holder_and_those_above() {
    let n2 = |objects: &mut Objects| {
        reservation(objects, "half")["nodes"] = json!(["n2", "n3", "n4"]);
        say(objects, "half", [11, 23, 29], 0);
        // What others have there is worth something too.
        reservation(objects, "half")["target"] = json!({"cpu": 12, "memory": "24Gi"});
        unmet(objects, "half", "WaitingForPods", 1);
    };
    check(&["R3", "R3"], n2);
    check(&["R3"], |objects| {
        reservation(objects, "team")["nodes"] = json!(["n2"]);
        say(objects, "team", [3, 7, 9], 0);
        named(objects, "team")["spec"]["guarantee"]["resource"] = json!({"cpu": 3});
        reservation(objects, "team")["target"] = json!({"cpu": 3});
    });
    // While things move, it is the one who takes the node who is wrong.
    let mut auditor = Auditor::default();
    let mut objects = objects();
    assert_eq!(auditor.observe(&objects), Vec::new());
    n2(&mut objects);
    let findings = auditor.locks(&objects);
    assert!(
        findings.len() == 1 && findings[0].object == "Queue half",
        "{findings:#?}"
    );
    assert_eq!(auditor.locks(&objects), Vec::new());
    // A queue that is moved away from its parent takes nothing.
    let mut moved = self::objects();
    assert_eq!(auditor.locks(&moved), Vec::new());
    named(&mut moved, "kid")["spec"]["parent"] = json!("other");
    assert_eq!(auditor.locks(&moved), Vec::new());
}

#[test]
fn nothing_is_locked_for_nobody() {
    for nothing in [
        json!({}),
        json!({"resource": {"cpu": 0}}),
        json!({"percentage": {"dimensions": ["cpu"], "value": 0}}),
    ] {
        check(&["R4"], |objects| named(objects, "kid")["spec"]["guarantee"] = nothing);
    }
    check(&["R4"], |objects| {
        let kid = named(objects, "kid");
        kid["spec"]["guarantee"] = json!(null);
        kid["status"]["reservation"] = json!(null);
    });
    check(&[], |objects| {
        let kid = named(objects, "kid");
        kid["spec"]["guarantee"] = json!(null);
        kid["status"] = json!({"state": "Open"});
    });
    check(&["R4"], |objects| {
        let half = named(objects, "half");
        half["spec"]["state"] = json!("Closed");
        half["status"]["state"] = json!("Closed");
    });
    check(&["R4"], |objects| {
        objects.nodes.retain(|node| node["metadata"]["name"] != "n3");
        say(objects, "half", [4, 8, 10], 0);
        reservation(objects, "half")["target"] = json!({"cpu": 4, "memory": "8Gi"});
    });
    let off = settled(&objects(), Some(false));
    assert_eq!(off.iter().map(|one| one.invariant.id()).collect::<Vec<_>>(), ["R4"; 3]);
}

#[test]
fn what_is_said_is_so() {
    check(&["R5"], |objects| {
        reservation(objects, "team")["resource"]["cpu"] = json!("6500m");
    });
    check(&["R5"], |objects| {
        drop(
            reservation(objects, "team")["resource"]
                .as_object_mut()
                .map(|list| list.remove("memory")),
        );
    });
    check(&["R5"], |objects| reservation(objects, "kid")["used"]["cpu"] = json!(0));
    check(&["R5"], |objects| {
        reservation(objects, "team")["target"] = json!({"cpu": 5});
    });
    check(&["R5"], |objects| {
        reservation(objects, "half")["target"] = json!({"cpu": 4, "memory": "8Gi"});
    });
    check(&["R5"], |objects| reservation(objects, "team")["waitingFor"] = json!(1));
    check(&["R5"], |objects| unmet(objects, "team", "Evicting", 1));
    check(&["R5"], |objects| unmet(objects, "team", "NoSetReachesTarget", 1));
    check(&["R5"], |objects| unmet(objects, "half", "WaitingForPods", 0));
    check(&["R5"], |objects| {
        named(objects, "team")["spec"]["guarantee"]["resource"] = json!({"cpu": 8});
        reservation(objects, "team")["target"] = json!({"cpu": 8});
    });
    // One node is not half of four.
    check(&["R5"], |objects| {
        reservation(objects, "half")["nodes"] = json!(["n3"]);
        say(objects, "half", [4, 8, 10], 0);
        reservation(objects, "half")["target"] = json!({"cpu": 4, "memory": "8Gi"});
    });
    check(&["R5"], |objects| {
        named(objects, "team")["spec"]["guarantee"]["resource"] = json!({"cpu": 8});
        reservation(objects, "team")["target"] = json!({"cpu": 8});
        unmet(objects, "team", "Evicting", 2);
    });
    let mut silent = objects();
    named(&mut silent, "half")["status"] = json!({"state": "Open"});
    let findings = settled(&silent, Some(true));
    assert!(
        findings.len() == 1 && findings[0].invariant.id() == "R5",
        "{findings:#?}"
    );
    assert_eq!(settled(&silent, None), Vec::new());
}
