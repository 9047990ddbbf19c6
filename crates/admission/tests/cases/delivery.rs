//! Deliveries to queues, and Commands.

use serde_json::{Value, json};

use crate::support::{Row, World, decide, job};

fn base(about: &'static str, title: &'static str, refused: bool, object: Value) -> Row {
    Row {
        title,
        about,
        broken: refused.then_some(about),
        group: "",
        resource: "",
        name: "",
        object: Some(object),
        old: None,
        world: World::usual(),
    }
}

fn group(about: &'static str, title: &'static str, refused: bool, queue: &str) -> Row {
    let object =
        json!({"kind": "PodGroup", "metadata": {"name": "pg", "namespace": "default"}, "spec": {"queue": queue}});
    Row {
        group: "scheduling.volcano.sh",
        resource: "podgroups",
        name: "pg",
        ..base(about, title, refused, object)
    }
}

fn pod(about: &'static str, title: &'static str, refused: bool, annotations: Value) -> Row {
    let object = json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "default", "annotations": annotations}, "spec": {}});
    Row {
        resource: "pods",
        name: "p",
        ..base(about, title, refused, object)
    }
}

fn submit(about: &'static str, title: &'static str, refused: bool, queue: &str) -> Row {
    let object = job(json!({"queue": queue, "tasks": [{"name": "a", "replicas": 1}]}));
    Row {
        group: "batch.volcano.sh",
        resource: "jobs",
        name: "train",
        ..base(about, title, refused, object)
    }
}

fn command(about: &'static str, title: &'static str, refused: bool, action: &str, queue: &str, uid: &str) -> Row {
    let target = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue, "uid": uid});
    let object = json!({"kind": "Command", "metadata": {"name": "cmd", "namespace": "default"}, "action": action, "target": target});
    Row {
        group: "bus.volcano.sh",
        resource: "commands",
        name: "cmd",
        ..base(about, title, refused, object)
    }
}

/// A PodGroup of the Job `train`, which is stored.
fn of_job(title: &'static str, refused: bool, queue: &str, uid: &str) -> Row {
    let mut row = group("delivery/queue-open", title, refused, queue);
    let owner = json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid, "controller": true}]);
    row.object.as_mut().expect("object")["metadata"]["ownerReferences"] = owner;
    row.world = World::usual().with("jobs.batch.volcano.sh", job(json!({"queue": "shut-a"})));
    row
}

fn moved(about: &'static str, title: &'static str, refused: bool, from: &str, to: &str) -> Row {
    let mut row = group(about, title, refused, to);
    let mut old = row.object.clone().expect("object");
    old["spec"]["queue"] = json!(from);
    row.old = Some(old);
    row
}

pub(crate) fn rows() -> Vec<Row> {
    let named = |queue: &str| json!({"scheduling.volcano.sh/queue-name": queue});
    let grouped = json!({"scheduling.volcano.sh/queue-name": "shut", "scheduling.k8s.io/group-name": "pg"});
    vec![
        submit("delivery/queue-not-root", "job to root", true, "root"),
        group("delivery/queue-not-root", "group to root", true, "root"),
        submit("delivery/queue-not-root", "job to default", false, "default"),
        submit("delivery/queue-exists", "job to nowhere", true, "nowhere"),
        group("delivery/queue-exists", "group to nowhere", true, "nowhere"),
        pod("delivery/queue-exists", "pod to nowhere", true, named("nowhere")),
        pod("delivery/queue-exists", "pod to default", false, named("default")),
        pod("delivery/queue-exists", "pod that names no queue", false, json!({})),
        submit("delivery/queue-deleting", "job to a leaving queue", true, "leaving"),
        submit("delivery/queue-deleting", "job to a leaf", false, "team-a"),
        submit("delivery/queue-leaf", "job to a parent", true, "team"),
        group("delivery/queue-leaf", "group to a parent", true, "team"),
        group("delivery/queue-leaf", "group to a leaf", false, "team-b"),
        submit(
            "delivery/queue-open",
            "job to a queue closed from above",
            true,
            "shut-a",
        ),
        submit("delivery/queue-open", "job to an open queue", false, "team-b"),
        pod(
            "delivery/queue-open",
            "pod to a queue closed from above",
            true,
            named("shut-a"),
        ),
        pod(
            "delivery/queue-open",
            "pod of a group is not a delivery",
            false,
            grouped,
        ),
        of_job("group of an accepted job", false, "shut-a", "uid-train"),
        of_job("group of an earlier job of that name", true, "shut-a", "uid-of-another"),
        moved(
            "delivery/queue-open",
            "moved to a closed queue",
            true,
            "default",
            "shut-a",
        ),
        moved(
            "delivery/queue-open",
            "stays where it closed",
            false,
            "shut-a",
            "shut-a",
        ),
        command(
            "command/queue-action",
            "restarts a queue",
            true,
            "RestartJob",
            "team-a",
            "uid-team-a",
        ),
        command(
            "command/queue-action",
            "closes a queue",
            false,
            "CloseQueue",
            "team-a",
            "uid-team-a",
        ),
        command(
            "command/queue-target",
            "no such queue",
            true,
            "CloseQueue",
            "nowhere",
            "u",
        ),
        command(
            "command/queue-target",
            "an earlier queue of that name",
            true,
            "OpenQueue",
            "team-a",
            "u",
        ),
        command(
            "command/queue-target",
            "opens a queue",
            false,
            "OpenQueue",
            "team-a",
            "uid-team-a",
        ),
    ]
}

#[test]
fn a_command_for_a_queue_asks_whether_the_user_may_update_it() {
    let verdict = decide(&command("", "", false, "CloseQueue", "team-a", "uid-team-a")).verdict;
    let basalt_admission::Verdict::Review(review) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(
        (review.verb.as_str(), review.resource.as_str(), review.name.as_str()),
        ("update", "queues", "team-a")
    );
}

#[test]
fn a_group_without_queue_gets_the_namespaces_queue_or_default() {
    let mut row = group("", "", false, "");
    let queue = |row: &Row| decide(row).object.map(|object| object["spec"]["queue"].clone());
    assert_eq!(queue(&row), Some(json!("default")));
    let annotations = json!({"scheduling.volcano.sh/queue-name": "team-a"});
    row.world = World::usual().with(
        "namespaces",
        json!({"metadata": {"name": "default", "annotations": annotations}}),
    );
    assert_eq!(queue(&row), Some(json!("team-a")));
}
