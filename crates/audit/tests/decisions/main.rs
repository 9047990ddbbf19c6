//! A good decision is good; each planted bug in one is found, and nothing else.

mod locks;
mod plants;

use std::collections::BTreeMap;

use basalt_audit::{Decision, Eviction, Finding, History, Placement, Purpose, QueueReport, Rules, World, judge};
use serde_json::{Value, json};

fn rules() -> Rules {
    Rules::read(
        &json!({"actions": "enqueue, allocate, reclaim, preempt, gangreclaim, gangpreempt", "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}, {"name": "pdb"}]},
            {"plugins": [{"name": "predicates"}, {"name": "capacity", "enableHierarchy": true}]},
        ]}),
    )
}

fn node(name: &str, cpu: u32) -> Value {
    let labels = json!({"zone": if name == "n1" { "a" } else { "b" }, "kubernetes.io/hostname": name});
    json!({"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": 10}}})
}

fn queue(name: &str, parent: &str, deserved: u32) -> Value {
    json!({"kind": "Queue", "metadata": {"name": name},
        "spec": {"parent": parent, "weight": 1, "deserved": {"cpu": deserved, "memory": "8Gi"}}})
}

fn group(name: &str, queue: &str, min: u32, class: &str) -> Value {
    json!({"kind": "PodGroup", "metadata": {"name": name, "namespace": "d", "annotations": {}},
        "spec": {"minMember": min, "queue": queue, "priorityClassName": class}, "status": {"phase": "Inqueue"}})
}

/// A pod of one cpu; on a node it runs.
fn pod(name: &str, group: &str, node: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "d", "uid": format!("uid-{name}"), "labels": {"app": group},
            "annotations": {"scheduling.k8s.io/group-name": group, "volcano.sh/task-spec": "w"}},
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
        "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}})
}

/// Two nodes of four cpus. Queue `b` borrows: `old` has six pods, two on n1 and four on n2, and deserves four cpus. Of `a`, the
/// gang `new` of two waits; it fits on n1. In `b` waits `top`, which is more important than `old`.
fn objects() -> Vec<Value> {
    let mut objects = vec![
        node("n1", 4),
        node("n2", 4),
        queue("root", "", 8),
        queue("dept", "", 8),
        queue("a", "dept", 4),
        queue("b", "dept", 4),
        json!({"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}),
        group("new", "a", 2, ""),
        group("old", "b", 1, ""),
        group("top", "b", 1, "high"),
        pod("top-w-0", "top", ""),
        json!({"kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "d"},
            "spec": {"selector": {"matchLabels": {"app": "old"}}}, "status": {"disruptionsAllowed": 6}}),
    ];
    objects.extend((0..4).map(|index| pod(&format!("new-w-{index}"), "new", "")));
    let on = |index: usize| if index < 2 { "n1" } else { "n2" };
    objects.extend((0..6).map(|index| pod(&format!("old-w-{index}"), "old", on(index))));
    objects
}

fn place(pod: &str, node: &str) -> Placement {
    Placement {
        pod: format!("d/{pod}"),
        uid: format!("uid-{pod}"),
        node: node.to_owned(),
    }
}

fn evict(pod: &str, purpose: Purpose, beneficiary: &str) -> Eviction {
    Eviction {
        pod: format!("d/{pod}"),
        uid: format!("uid-{pod}"),
        purpose,
        beneficiary: format!("d/{beneficiary}"),
    }
}

/// The gang takes what is idle, two more of its pods reclaim, and the important pod preempts.
fn decision() -> Decision {
    let report = |cpu: i64| QueueReport {
        allocated: BTreeMap::from([
            ("cpu".to_owned(), cpu * 1_000),
            ("memory".to_owned(), cpu << 30),
            ("pods".to_owned(), cpu),
        ]),
        deserved: Some(BTreeMap::from([
            ("cpu".to_owned(), 4_000),
            ("memory".to_owned(), 8 << 30),
        ])),
    };
    Decision {
        binds: vec![place("new-w-0", "n1"), place("new-w-1", "n1")],
        pipelined: vec![place("new-w-2", "n2"), place("top-w-0", "n2")],
        evictions: vec![
            evict("old-w-5", Purpose::Reclaim, "new"),
            evict("old-w-4", Purpose::Preempt, "top"),
        ],
        queues: BTreeMap::from([("a".to_owned(), report(2)), ("b".to_owned(), report(4))]),
    }
}

fn find<'a>(objects: &'a mut [Value], name: &str) -> &'a mut Value {
    let named = |object: &&mut Value| object["metadata"]["name"] == name;
    objects.iter_mut().find(named).expect("an object of this name")
}

fn set(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let mut place = object;
    for part in parent.split('/').filter(|part| !part.is_empty()) {
        let part = part.replace("~1", "/");
        place = match part.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[part],
        };
    }
    place[key.replace("~1", "/")] = value.clone();
}

#[test]
fn planted_bugs_are_found_and_nothing_else() {
    let mut wrong = Vec::new();
    for plant in plants::all() {
        let mut objects = objects();
        for (name, pointer, value) in &plant.world {
            set(find(&mut objects, name), pointer, value);
        }
        let mut decision = decision();
        (plant.decision)(&mut decision);
        let findings = judge(&World::read(&objects), &rules(), &decision);
        let found: Vec<&str> = findings.iter().map(|finding| finding.invariant.id()).collect();
        if found != plant.expected {
            wrong.push(format!(
                "{}: expected {:?}, found {findings:#?}",
                plant.title, plant.expected
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn budgets_count() {
    let mut objects = objects();
    for object in objects
        .iter_mut()
        .filter(|object| object["kind"] == "PodDisruptionBudget")
    {
        object["status"]["disruptionsAllowed"] = json!(1);
    }
    let findings = judge(&World::read(&objects), &rules(), &decision());
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].object.starts_with("PodDisruptionBudget"), "{findings:#?}");
}

/// Evictions of pods of `old`, the last first, for `new`, which waits for places on the given nodes: how many findings.
fn judged(
    changes: &[(&str, &str, Value)],
    evictions: impl IntoIterator<Item = (usize, Purpose)>,
    nodes: [&str; 2],
) -> usize {
    let mut objects = objects();
    for (name, pointer, value) in changes {
        set(find(&mut objects, name), pointer, value);
    }
    let mut evictions: Vec<_> = evictions.into_iter().collect();
    evictions.reverse();
    let decision = Decision {
        pipelined: vec![place("new-w-0", nodes[0]), place("new-w-1", nodes[1])],
        evictions: evictions
            .into_iter()
            .map(|(at, purpose)| evict(&format!("old-w-{at}"), purpose, "new"))
            .collect(),
        ..Decision::default()
    };
    judge(&World::read(&objects), &rules(), &decision).len()
}

#[test]
fn whole_gangs_may_go_and_parts_may_not() {
    use Purpose::{GangReclaim, Reclaim};
    let min = |min: u32| ("old", "/spec/minMember", json!(min));
    let all = |count: usize, purpose: Purpose| (0..count).map(move |at| (at, purpose));
    let last = |purpose: Purpose| [(4, purpose), (5, purpose)];
    let on = ["n2", "n2"];
    assert_eq!(judged(&[min(6)], all(6, GangReclaim), on), 0, "a whole gang");
    assert_eq!(judged(&[min(6)], all(5, GangReclaim), on), 1, "a part");
    assert_eq!(judged(&[min(7)], all(6, GangReclaim), on), 0, "all of a broken gang");
    assert_eq!(judged(&[min(7)], last(GangReclaim), on), 1, "a part of a broken gang");
    assert_eq!(judged(&[min(4)], last(GangReclaim), on), 0, "surplus");
    assert_eq!(judged(&[min(4)], last(Reclaim), on), 0, "surplus, by the plain action");
    assert_eq!(judged(&[min(5)], last(Reclaim), on), 1, "below the minimum");
    // Actions come one after the other: reclaim takes the surplus, then the whole rest goes.
    let mixed = |plain: usize| (0..6).map(move |at| (at, if at >= 6 - plain { Reclaim } else { GangReclaim }));
    assert_eq!(judged(&[min(5)], mixed(1), on), 0, "surplus, then the rest");
    assert_eq!(
        judged(&[min(6)], mixed(1), on),
        1,
        "a plain action breaks a gang whose rest goes"
    );
    let ended = ("old-w-0", "/status/phase", json!("Succeeded"));
    let rest = (1..6).map(|at| (at, GangReclaim));
    assert_eq!(judged(&[min(6), ended], rest, on), 0, "all that still runs");
    let roles = ("old", "/spec/minTaskMember", json!({"w": 1, "v": 1}));
    let v = ("old-w-5", "/metadata/annotations/volcano.sh~1task-spec", json!("v"));
    assert_eq!(
        judged(&[min(4), roles, v], last(GangReclaim), on),
        1,
        "the minimum of a task"
    );
}

#[test]
fn gangs_go_only_where_that_helps() {
    use Purpose::GangReclaim;
    let min = ("old", "/spec/minMember", json!(6));
    let all = || (0..6).map(|at| (at, GangReclaim));
    let alone = std::slice::from_ref(&min);
    assert_eq!(judged(alone, all(), ["n1", "n1"]), 1, "there is room on n1");
    let limit = ("dept", "/spec/capability", json!({"cpu": 7}));
    assert_eq!(judged(&[min.clone(), limit], all(), ["n1", "n1"]), 0, "but not in dept");
    let own = ("a", "/spec/capability", json!({"cpu": 2}));
    assert_eq!(
        judged(&[min.clone(), own], all(), ["n1", "n1"]),
        1,
        "the limit of one of both"
    );
    let says_no = ("old", "/metadata/annotations/volcano.sh~1preemptable", json!("false"));
    assert_eq!(judged(&[min, says_no], all(), ["n2", "n2"]), 6, "the group says no");
}

#[test]
fn what_the_configuration_does_not_promise_is_not_asked_for() {
    let mut objects = objects();
    set(find(&mut objects, "n1"), "/spec/unschedulable", &json!(true));
    set(find(&mut objects, "a"), "/spec/capability", &json!({"cpu": 1}));
    set(find(&mut objects, "new"), "/spec/minMember", &json!(3));
    let binds = Decision {
        binds: decision().binds,
        ..Decision::default()
    };
    let none = Rules::read(&json!({"actions": "allocate", "tiers": []}));
    assert_eq!(judge(&World::read(&objects), &none, &binds), Vec::new());
    let off = json!({"tiers": [{"plugins": [
        {"name": "gang", "enableJobReady": false},
        {"name": "predicates", "arguments": {"predicate.NodeUnschedulableEnable": false}},
        {"name": "capacity", "enabledAllocatable": false}]}]});
    assert_eq!(judge(&World::read(&objects), &Rules::read(&off), &binds), Vec::new());
}

#[test]
fn circles_are_found() {
    let decided = |victim: &str, beneficiary: &str| Decision {
        evictions: vec![evict(&format!("{victim}-w-0"), Purpose::Reclaim, beneficiary)],
        ..Decision::default()
    };
    let group_of = |pod: &str| pod.split('-').next().map(str::to_owned);
    let run = |steps: &[(&str, &str)], event_before: usize| -> Vec<Finding> {
        let mut history = History::default();
        let mut findings = Vec::new();
        for (at, (victim, beneficiary)) in steps.iter().enumerate() {
            if at == event_before {
                history.outside_event();
            }
            findings.extend(history.observe(&decided(victim, beneficiary), group_of));
        }
        findings
    };
    let (ping_pong, round, one_way) = (
        [("b", "a"), ("a", "b")],
        [("b", "a"), ("c", "b"), ("a", "c")],
        [("b", "a"), ("c", "a"), ("c", "b"), ("b", "a")],
    );
    assert_eq!(run(&ping_pong, 9).len(), 1);
    assert_eq!(run(&round, 9).len(), 1);
    assert_eq!(run(&one_way, 9), Vec::new());
    assert_eq!(run(&ping_pong, 1), Vec::new());
    assert_eq!(run(&round, 2), Vec::new());
}

/// Water-filling by hand: eight cpus; `a` asks for one, `b` and `c` for plenty, weights 1, 1 and 2.
#[test]
fn shares_by_weight() {
    let mut objects = vec![node("n1", 8)];
    let weights = [("a", 1, 1), ("b", 1, 9), ("c", 2, 9)];
    for (name, weight, pods) in weights {
        objects.push(json!({"kind": "Queue", "metadata": {"name": name}, "spec": {"weight": weight}}));
        objects.push(group(name, name, 1, ""));
        objects.extend((0..pods).map(|at| pod(&format!("{name}-w-{at}"), name, "")));
    }
    let rules = Rules::read(&json!({"tiers": [{"plugins": [{"name": "proportion"}]}]}));
    let said = |cpu: [i64; 3]| Decision {
        queues: ["a", "b", "c"]
            .into_iter()
            .zip(cpu)
            .map(|(name, cpu)| {
                let memory = cpu * (1 << 30) / 1_000;
                let deserved = BTreeMap::from([("cpu".to_owned(), cpu), ("memory".to_owned(), memory)]);
                let report = QueueReport {
                    deserved: Some(deserved),
                    ..QueueReport::default()
                };
                (name.to_owned(), report)
            })
            .collect(),
        ..Decision::default()
    };
    let world = World::read(&objects);
    assert_eq!(
        judge(&world, &rules, &said([1_000, 2_333, 4_667]))
            .iter()
            .filter(|finding| !finding.message.contains("memory"))
            .count(),
        0
    );
    assert_eq!(judge(&world, &rules, &said([2_000, 2_000, 4_000])).len(), 6);
}

/// 5,000 nodes and 50,000 pods are judged in a moment.
#[test]
fn a_large_decision_is_judged_whole() {
    let mut world = World::default();
    for n in 0..5_000 {
        world.insert(&node(&format!("n{n}"), 20));
    }
    for object in [queue("root", "", 0), queue("a", "", 9), group("new", "a", 50_000, "")] {
        world.insert(&object);
    }
    let mut decision = Decision::default();
    for p in 0..50_000 {
        world.insert(&pod(&format!("new-w-{p}"), "new", ""));
        decision
            .binds
            .push(place(&format!("new-w-{p}"), &format!("n{}", p % 5_000)));
    }
    // Ten pods of one Gi on eight.
    let findings = judge(&world, &rules(), &decision);
    assert_eq!(findings.len(), 5_000 + 2, "{:#?}", findings.last());
}
