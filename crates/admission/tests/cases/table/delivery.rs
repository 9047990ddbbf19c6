//! Deliveries to queues, and Commands.

use basalt_admission::Settings;
use serde_json::{Value, json};

use super::{JOBS, Row, World, job, read};

pub(crate) fn rows() -> Vec<Row> {
    read(include_str!("delivery.txt"), build)
}

pub(crate) fn build(what: &str, details: Value) -> Row {
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
        "guarded" => {
            let settings = Settings {
                queue_acl: true,
                ..Settings::default()
            };
            Row {
                settings,
                granted: details[2] != "denied",
                ..build(details[0].as_str().expect("what"), details[1].clone())
            }
        }
        "moved" => Row {
            old: group(&details[0]).object,
            ..group(&details[1])
        },
        "of-job" => of_job(group(&details[0]), &details[1]),
        "of-pod" => of_pod(group(&details[0]), &details[1], &details[2]),
        "pod-of-job" => {
            let annotations = json!({"scheduling.volcano.sh/queue-name": details[0]});
            of_job(build("pod", annotations), &details[1])
        }
        "command" => command(&details),
        "recommand" => Row {
            old: command(&details[0]).object,
            ..command(&details[1])
        },
        "job-command" => command_about(
            &details[0],
            json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u"}),
        ),
        "any-command" => command_about(&details[0], details[1].clone()),
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

fn of_job(mut row: Row, uid: &Value) -> Row {
    let owner = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid, "controller": true});
    row.object.as_mut().expect("object")["metadata"]["ownerReferences"] = json!([owner]);
    row.world = World::usual().with(JOBS, job(json!({"queue": "shut-a"})));
    row
}

/// The PodGroup of the pod `lone`, which names a queue and has one uid.
fn of_pod(mut row: Row, named: &Value, uid: &Value) -> Row {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "lone", "uid": uid, "controller": true});
    row.object.as_mut().expect("object")["metadata"]["ownerReferences"] = json!([owner]);
    let annotations = json!({"scheduling.volcano.sh/queue-name": named});
    let metadata = json!({"name": "lone", "namespace": "default", "uid": "uid-lone", "annotations": annotations});
    row.world = World::usual().with("pods", json!({"metadata": metadata, "status": {"phase": "Pending"}}));
    row
}

fn command(details: &Value) -> Row {
    let target =
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": details[1], "uid": details[2]});
    Row {
        granted: details[3] != "denied",
        ..command_about(&details[0], target)
    }
}

fn command_about(action: &Value, target: Value) -> Row {
    let object = json!({"metadata": {"name": "cmd", "namespace": "default"}, "action": action, "target": target});
    Row {
        object: Some(object),
        ..Row::new("bus.volcano.sh", "commands", "cmd")
    }
}
