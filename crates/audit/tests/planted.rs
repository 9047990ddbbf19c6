//! A clean world is clean; each planted bug is found, and nothing else.

use basalt_audit::{Auditor, Finding, Objects, check};
use serde_json::{Value, json};

const GROUP: &str = "scheduling.k8s.io/group-name";

fn node(name: &str, cpu: &str, pods: &str) -> Value {
    let allocatable = json!({"cpu": cpu, "memory": "8Gi", "pods": pods});
    json!({"kind": "Node", "metadata": {"name": name, "uid": format!("uid-{name}")}, "status": {"allocatable": allocatable}})
}

/// Pod `index` of the Job `train` with one container of one cpu.
fn pod(index: usize, node: &str, phase: &str) -> Value {
    let owner = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "uid-train", "controller": true});
    json!({
        "kind": "Pod",
        "metadata": {
            "name": format!("train-w-{index}"), "namespace": "default", "uid": format!("uid-w-{index}"),
            "annotations": {GROUP: "train-uid-train", "volcano.sh/task-spec": "w", "volcano.sh/task-index": index.to_string()},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
        "status": {"phase": phase},
    })
}

/// Two nodes of two cpus, a gang of three running on them, its queue with counters.
fn world() -> Objects {
    let owner = json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "uid-train", "controller": true}]);
    let group = json!({
        "kind": "PodGroup", "metadata": {"name": "train-uid-train", "namespace": "default", "uid": "uid-pg", "ownerReferences": owner},
        "spec": {"minMember": 3, "minTaskMember": {"w": 3}, "queue": "default"}, "status": {"phase": "Inqueue"},
    });
    let job = json!({
        "kind": "Job", "metadata": {"name": "train", "namespace": "default", "uid": "uid-train"},
        "spec": {"queue": "default", "minAvailable": 3, "tasks": [{"name": "w", "replicas": 3}]},
        "status": {"state": {"phase": "Running"}},
    });
    let queue = json!({"kind": "Queue", "metadata": {"name": "default"}, "spec": {}, "status": {"state": "Open", "running": 1}});
    let mut objects = Objects::default();
    let pods = [
        pod(0, "n1", "Running"),
        pod(1, "n1", "Running"),
        pod(2, "n2", "Running"),
    ];
    for object in [node("n1", "2", "10"), node("n2", "2", "10"), group, job, queue]
        .into_iter()
        .chain(pods)
    {
        assert!(objects.insert(object));
    }
    objects
}

fn invariants(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.invariant.id()).collect()
}

#[test]
fn a_clean_world_is_clean() {
    assert_eq!(check(&world()), Vec::new());
    assert_eq!(check(&Objects::default()), Vec::new());
}

/// The clean world with edits: a JSON pointer into it, and what stands there instead.
fn edited(edits: &[(&str, Value)]) -> Objects {
    let mut world = serde_json::to_value(world()).expect("plain data");
    for (pointer, value) in edits {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let place = world.pointer_mut(parent).expect("a place in the world");
        match place {
            Value::Array(list) => list.insert(key.parse().expect("an index"), value.clone()),
            place => place[key.replace("~1", "/")] = value.clone(),
        }
    }
    serde_json::from_value(world).expect("plain data")
}

/// A planted bug, and the invariants that must be found broken.
type Plant = (&'static str, Vec<(&'static str, Value)>, &'static [&'static str]);

fn node_plants() -> Vec<Plant> {
    let container = "/pods/2/spec/containers/0/resources";
    let request = "/pods/2/spec/containers/0/resources/requests";
    let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
    let port = json!([{"hostPort": 80}]);
    let with_protocol = json!([{"hostPort": 80, "protocol": "TCP"}]);
    vec![
        (
            "cpu over-committed",
            vec![("/nodes/0/status/allocatable/cpu", json!("1900m"))],
            &["I1"],
        ),
        (
            "too many pods",
            vec![("/nodes/0/status/allocatable/pods", json!("1"))],
            &["I1"],
        ),
        (
            "memory by a limit alone",
            vec![(container, json!({"limits": {"memory": "9Gi"}}))],
            &["I1"],
        ),
        (
            "a resource that the node lacks",
            vec![(request, json!({"nvidia.com/gpu": 1}))],
            &["I1"],
        ),
        (
            "a large init container",
            vec![("/pods/2/spec/initContainers", json!([{"resources": cpu("3")}]))],
            &["I1"],
        ),
        (
            "a sidecar on top",
            vec![(
                "/pods/2/spec/initContainers",
                json!([{"restartPolicy": "Always", "resources": cpu("1001m")}]),
            )],
            &["I1"],
        ),
        (
            "overhead on top",
            vec![("/pods/2/spec/overhead", json!({"cpu": "1001m"}))],
            &["I1"],
        ),
        (
            "a request for the whole pod",
            vec![("/pods/2/spec/resources", cpu("2500m"))],
            &["I1"],
        ),
        (
            "a host port twice",
            vec![
                ("/pods/0/spec/containers/0/ports", port),
                ("/pods/1/spec/containers/0/ports", with_protocol),
            ],
            &["I1"],
        ),
        (
            "a quantity that is none",
            vec![(request, json!({"cpu": "2c"}))],
            &["I1"],
        ),
    ]
}

fn other_plants() -> Vec<Plant> {
    let task = "/pods/2/metadata/annotations/volcano.sh~1task-spec";
    let mut twin = pod(2, "n2", "Running");
    twin["metadata"]["uid"] = json!("uid-twin");
    twin["metadata"]["name"] = json!("train-w-2b");
    vec![
        ("part of a gang", vec![("/pods/2/spec/nodeName", json!(""))], &["I2"]),
        (
            "part of a gang without task minimums",
            vec![
                ("/podGroups/0/spec/minTaskMember", json!({})),
                ("/pods/2/spec/nodeName", json!("")),
            ],
            &["I2"],
        ),
        (
            "a task of the gang short",
            vec![(task, json!("v"))],
            &["I2", "I6", "I6"],
        ),
        ("a doubled pod", vec![("/pods/3", twin)], &["I6"]),
        ("orphans", vec![("/jobs", json!([]))], &["I6", "I6", "I6", "L1"]),
        (
            "a pod beyond replicas",
            vec![("/jobs/0/spec/tasks/0/replicas", json!(2))],
            &["I6"],
        ),
        ("a lost pod", vec![("/jobs/0/spec/tasks/0/replicas", json!(4))], &["I6"]),
        ("a uid twice", vec![("/pods/1/metadata/uid", json!("uid-w-0"))], &["I7"]),
        ("a counter off", vec![("/queues/0/status/running", json!(2))], &["L1"]),
        (
            "closed and not empty",
            vec![("/queues/0/status/state", json!("Closed"))],
            &["I8", "L1"],
        ),
        (
            "open though nobody says so",
            vec![("/queues/0/status/state", json!(""))],
            &["L1"],
        ),
        (
            "wanted closed, and open",
            vec![("/queues/0/spec/state", json!("Closed"))],
            &["L1"],
        ),
    ]
}

fn no_plants() -> Vec<Plant> {
    let port = json!([{"hostPort": 80}]);
    vec![
        (
            "an ended pod holds nothing",
            vec![
                ("/nodes/0/status/allocatable/cpu", json!("1")),
                ("/pods/0/status/phase", json!("Succeeded")),
            ],
            &[],
        ),
        (
            "an init container within the sum",
            vec![(
                "/pods/2/spec/initContainers",
                json!([{"resources": {"requests": {"cpu": "2"}}}]),
            )],
            &[],
        ),
        (
            "a gang that ran lost a pod",
            vec![
                ("/podGroups/0/status/phase", json!("Running")),
                ("/pods/2/spec/nodeName", json!("")),
            ],
            &[],
        ),
        (
            "a gang on its way out",
            vec![
                ("/podGroups/0/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
                ("/pods/2/spec/nodeName", json!("")),
            ],
            &[],
        ),
        (
            "host ports on two nodes",
            vec![
                ("/pods/0/spec/containers/0/ports", port.clone()),
                ("/pods/2/spec/containers/0/ports", port),
            ],
            &[],
        ),
    ]
}

#[test]
fn planted_bugs_are_found_and_nothing_else() {
    for (title, edits, expected) in [node_plants(), other_plants(), no_plants()].concat() {
        let findings = check(&edited(&edits));
        assert_eq!(invariants(&findings), expected, "{title}: {findings:#?}");
    }
}

#[test]
fn a_bind_is_final() {
    for moved_to in ["n2", ""] {
        let mut auditor = Auditor::default();
        let mut objects = world();
        assert_eq!(auditor.observe(&objects), Vec::new());
        objects.pods[0]["spec"]["nodeName"] = json!(moved_to);
        assert_eq!(invariants(&auditor.observe(&objects)), ["I7"], "to {moved_to:?}");
    }
    // The same name with a new uid is another pod.
    let mut auditor = Auditor::default();
    let mut objects = world();
    auditor.observe(&objects);
    objects.pods[0]["spec"]["nodeName"] = json!("n2");
    objects.pods[0]["metadata"]["uid"] = json!("uid-new");
    assert_eq!(auditor.observe(&objects), Vec::new());
}

#[test]
fn a_node_that_shrinks_is_blamed_only_for_new_pods() {
    let mut auditor = Auditor::default();
    let mut objects = world();
    auditor.observe(&objects);
    objects.nodes[1] = node("n2", "500m", "10");
    assert_eq!(auditor.observe(&objects), Vec::new());
    objects.pods.push(pod(3, "n2", "Pending"));
    assert_eq!(invariants(&auditor.observe(&objects)), ["I1"]);
}

#[test]
fn a_gang_that_was_whole_may_lose_pods_and_one_that_never_was_may_not_claim_it() {
    let mut auditor = Auditor::default();
    let mut objects = world();
    auditor.observe(&objects);
    objects.pods[2]["spec"]["nodeName"] = json!("");
    objects.pods[2]["metadata"]["uid"] = json!("uid-remade");
    assert_eq!(auditor.settled(&objects), Vec::new());

    let mut auditor = Auditor::default();
    let mut objects = world();
    for pod in &mut objects.pods {
        pod["spec"]["nodeName"] = json!("");
    }
    auditor.observe(&objects);
    // Now one pod is bound, and the group says that it runs.
    objects.pods[0]["spec"]["nodeName"] = json!("n1");
    objects.pod_groups[0]["status"]["phase"] = json!("Running");
    assert_eq!(invariants(&auditor.settled(&objects)), ["I2"]);
}

/// Part of a gang is placed: what is found after these seconds, if nothing changes?
#[test]
fn part_of_a_gang_may_not_hold_room_for_long() {
    let mut auditor = Auditor::default();
    let mut objects = world();
    for pod in &mut objects.pods {
        pod["spec"]["nodeName"] = json!("");
    }
    auditor.observe(&objects);
    objects.pods[0]["spec"]["nodeName"] = json!("n1");
    let mut found = |objects: &Objects, second: i64| {
        let findings = auditor.overdue_gangs(objects, second * 1_000, 60_000);
        invariants(&findings).join(" ")
    };
    assert!(found(&objects, 100).is_empty() && found(&objects, 160).is_empty());
    assert_eq!(found(&objects, 161), "I2");
    let mut leaving = objects.clone();
    leaving.pods[0]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(found(&leaving, 162).is_empty(), "it holds no room for long any more");
    assert!(found(&objects, 163).is_empty(), "its time begins anew");
}

#[test]
fn an_ended_part_of_a_gang_holds_no_room() {
    let mut auditor = Auditor::default();
    let mut objects = world();
    for pod in &mut objects.pods {
        pod["spec"]["nodeName"] = json!("");
    }
    auditor.observe(&objects);
    objects.pods[0]["spec"]["nodeName"] = json!("n1");
    let is_i2 = |finding: &&Finding| finding.invariant.id() == "I2";
    assert_eq!(auditor.settled(&objects).iter().filter(is_i2).count(), 1);
    objects.pods[0]["status"]["phase"] = json!("Succeeded");
    assert_eq!(auditor.settled(&objects).iter().filter(is_i2).count(), 0);
}

/// A large world takes a moment, not a minute: the work is linear.
#[test]
fn a_large_world_is_checked_whole() {
    let mut objects = Objects::default();
    for n in 0..1_000 {
        objects.nodes.push(node(&format!("n{n}"), "10", "110"));
    }
    for p in 0..10_000 {
        let mut pod = pod(p, &format!("n{}", p % 1_000), "Running");
        pod["metadata"]["ownerReferences"] = json!([]);
        pod["metadata"]["annotations"] = json!({});
        objects.pods.push(pod);
    }
    // 10 pods of 1 Gi on 8 Gi: every node is over-committed by memory.
    let findings = check(&objects);
    assert_eq!(findings.len(), 1_000);
}
