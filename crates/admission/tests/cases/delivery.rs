//! Deliveries to queues, and Commands.

use basalt_admission::Verdict;
use serde_json::{Value, json};

use crate::support::{Row, World, decide, job, read};

pub(crate) fn rows() -> Vec<Row> {
    read(include_str!("delivery.txt"), build)
}

fn build(what: &str, details: Value) -> Row {
    match what {
        "job" => {
            let spec = json!({"queue": details, "tasks": [{"name": "a", "replicas": 1}]});
            Row {
                object: Some(job(spec)),
                ..Row::new("batch.volcano.sh", "jobs", "train")
            }
        }
        "pod" => {
            let metadata = json!({"name": "p", "namespace": "default", "annotations": details});
            Row {
                object: Some(json!({"metadata": metadata, "spec": {}})),
                ..Row::new("", "pods", "p")
            }
        }
        "group" => group(&details),
        "moved" => Row {
            old: group(&details[0]).object,
            ..group(&details[1])
        },
        "of-job" => of_job(&details[0], &details[1]),
        "command" => command(&details),
        other => panic!("unknown: {other}"),
    }
}

fn group(queue: &Value) -> Row {
    let object = json!({"metadata": {"name": "pg", "namespace": "default"}, "spec": {"queue": queue}});
    Row {
        object: Some(object),
        ..Row::new("scheduling.volcano.sh", "podgroups", "pg")
    }
}

fn of_job(queue: &Value, uid: &Value) -> Row {
    let mut row = group(queue);
    let owner = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid, "controller": true});
    row.object.as_mut().expect("object")["metadata"]["ownerReferences"] = json!([owner]);
    row.world = World::usual().with("jobs.batch.volcano.sh", job(json!({"queue": "shut-a"})));
    row
}

fn command(details: &Value) -> Row {
    let target =
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": details[1], "uid": details[2]});
    let object = json!({"metadata": {"name": "cmd", "namespace": "default"}, "action": details[0], "target": target});
    Row {
        object: Some(object),
        ..Row::new("bus.volcano.sh", "commands", "cmd")
    }
}

#[test]
fn a_command_for_a_queue_asks_whether_the_user_may_update_it() {
    let verdict = decide(&build("command", json!(["CloseQueue", "team-a", "uid-team-a"]))).verdict;
    let Verdict::Review(review) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(
        (review.verb.as_str(), review.resource.as_str(), review.name.as_str()),
        ("update", "queues", "team-a")
    );
}

#[test]
fn a_group_without_queue_gets_the_namespaces_queue_or_default() {
    let mut row = group(&json!(""));
    let queue = |row: &Row| decide(row).object.map(|object| object["spec"]["queue"].clone());
    assert_eq!(queue(&row), Some(json!("default")));
    let annotations = json!({"scheduling.volcano.sh/queue-name": "team-a"});
    row.world = World::usual().with(
        "namespaces",
        json!({"metadata": {"name": "default", "annotations": annotations}}),
    );
    assert_eq!(queue(&row), Some(json!("team-a")));
}

/// A group on its way out is let go whatever its queue has become.
#[test]
fn finalizers_come_off_in_any_queue() {
    let mut row = build("moved", json!(["default", "nowhere"]));
    row.object.as_mut().expect("object")["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(decide(&row).verdict, Verdict::Allow);
}
