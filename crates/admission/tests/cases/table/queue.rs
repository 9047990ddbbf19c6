//! Queues.

use basalt_admission::Settings;
use serde_json::{Value, json};

use super::{QUEUES, Row, World, queue, read};

pub(crate) fn rows() -> Vec<Row> {
    read(include_str!("queue.txt"), build)
}

pub(crate) fn build(what: &str, details: Value) -> Row {
    let name = details[0].as_str().expect("a name");
    let spec = |index: usize| queue(name, details[index].clone(), "");
    let row = Row::new("scheduling.volcano.sh", "queues", name);
    match what {
        "create" => Row {
            object: Some(spec(1)),
            world: World::usual().and(&details[2]),
            ..row
        },
        "only" => {
            let share = details[3].as_str().expect("a share");
            Row {
                settings: Settings {
                    guarantee_share: share.parse().expect("a share"),
                    ..Settings::default()
                },
                ..build("create", details)
            }
        }
        "annotated" => {
            let mut object = spec(1);
            object["metadata"]["annotations"] =
                json!({"volcano.sh/hierarchy": details[2], "volcano.sh/hierarchy-weights": details[3]});
            Row {
                object: Some(object),
                ..row
            }
        }
        "update" => Row {
            object: Some(spec(2)),
            world: World::usual().and(&details[3]).with(QUEUES, spec(1)),
            old: Some(spec(1)),
            ..row
        },
        "deleting" | "posing" => {
            let mut row = build("update", details);
            let objects = [row.object.as_mut(), row.old.as_mut().filter(|_| what == "deleting")];
            for object in objects.into_iter().flatten() {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            row
        }
        "delete" => {
            let stored = queue(name, details[1].clone(), details[2].as_str().expect("a state"));
            Row {
                world: World::usual().and(&details[3]).with(QUEUES, stored.clone()),
                old: Some(stored),
                ..row
            }
        }
        "let-go" => {
            let mut stored = queue(name, json!({"state": "Closed"}), "Closed");
            stored["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            stored["metadata"]["finalizers"] = details[1].clone();
            let mut object = stored.clone();
            object["metadata"]["finalizers"] = details[2].clone();
            Row {
                object: Some(object),
                world: World::usual().and(&details[3]).with(QUEUES, stored.clone()),
                old: Some(stored),
                ..row
            }
        }
        "move-ending" => {
            let mut stored = queue(name, json!({"state": "Closed", "parent": details[1]}), "Closed");
            stored["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            let mut object = stored.clone();
            object["spec"]["parent"] = details[2].clone();
            Row {
                object: Some(object),
                world: World::usual().with(QUEUES, stored.clone()),
                old: Some(stored),
                ..row
            }
        }
        other => panic!("unknown: {other}"),
    }
}
