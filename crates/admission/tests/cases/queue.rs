//! Queues.

use basalt_admission::Verdict;
use serde_json::{Value, json};

use crate::support::{Row, World, decide, queue, read};

pub(crate) fn rows() -> Vec<Row> {
    read(include_str!("queue.txt"), build)
}

fn build(what: &str, details: Value) -> Row {
    let name = details[0].as_str().expect("a name");
    let spec = |index: usize| Some(queue(name, details[index].clone()));
    let row = Row::new("scheduling.volcano.sh", "queues", name);
    match what {
        "create" => Row { object: spec(1), ..row },
        "update" => Row {
            old: spec(1),
            object: spec(2),
            ..row
        },
        "delete" => {
            let mut stored = queue(name, details[1].clone());
            stored["status"] = json!({"state": details[2]});
            let world = World::usual().with("queues.scheduling.volcano.sh", stored.clone());
            Row {
                old: Some(stored),
                world,
                ..row
            }
        }
        other => panic!("unknown: {other}"),
    }
}

/// A cycle that was stored by other means neither hangs admission nor blocks other edits (Volcano #5807).
#[test]
fn a_stored_cycle_does_not_hang() {
    let world = World::usual()
        .queue("x", json!({"parent": "y"}))
        .queue("y", json!({"parent": "x"}));
    let verdict = |what, details| {
        decide(&Row {
            world: world.clone(),
            ..build(what, details)
        })
        .verdict
    };
    assert_eq!(
        verdict("update", json!(["x", {"parent": "y"}, {"parent": "y", "weight": 2}])),
        Verdict::Allow
    );
    assert_eq!(
        verdict("update", json!(["x", {"parent": "y"}, {"parent": "root"}])),
        Verdict::Allow
    );
    verdict("create", json!(["z", {"parent": "x"}]));
}

/// Volcano #3517: a queue could not be edited while it was Closing.
#[test]
fn a_queue_in_any_state_can_be_edited() {
    for state in ["Open", "Closing", "Closed", "Unknown", ""] {
        let mut row = build(
            "update",
            json!(["q", {"state": "Closed"}, {"state": "Closed", "weight": 2}]),
        );
        for object in [&mut row.object, &mut row.old] {
            object.as_mut().expect("object")["status"] = json!({"state": state});
        }
        assert_eq!(decide(&row).verdict, Verdict::Allow, "{state}");
    }
}

#[test]
fn defaults() {
    let filled = |what, details| {
        decide(&build(what, details))
            .object
            .map(|object| object["spec"].clone())
    };
    let usual = json!({"weight": 1, "reclaimable": true, "state": "Open", "parent": "root"});
    assert_eq!(filled("create", json!(["q", {}])), Some(usual.clone()));
    assert_eq!(filled("create", json!(["q", usual])), None);
    let root = json!({"weight": 1, "reclaimable": false, "state": "Open"});
    assert_eq!(filled("create", json!(["root", {}])), Some(root));
    // A client that does not know spec.state keeps the stored one.
    let closed = json!({"weight": 1, "reclaimable": true, "state": "Closed", "parent": "root"});
    let unaware = json!({"weight": 1, "reclaimable": true, "parent": "root"});
    assert_eq!(filled("update", json!(["q", closed, unaware])), Some(closed));
}

#[test]
fn a_client_that_drops_our_additions_is_warned() {
    let reserved = json!({"guarantee": {"policy": "Guaranteed", "resource": {"cpu": "1"}}});
    let plain = json!({"guarantee": {"resource": {"cpu": "1"}}});
    let warnings = |old: &Value, new: &Value| decide(&build("update", json!(["q", old, new]))).warnings;
    assert_eq!(
        warnings(&reserved, &plain),
        ["Queue q: spec.guarantee.policy was set and is not any more"]
    );
    assert_eq!(warnings(&reserved, &reserved), [""; 0]);
    assert_eq!(warnings(&plain, &reserved), [""; 0]);
}

#[test]
fn hierarchy_annotations_start_at_the_root() {
    let rooted = |path: &str| {
        let mut row = build("create", json!(["q", {}]));
        row.object.as_mut().expect("object")["metadata"]["annotations"] =
            json!({"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": "2"});
        let annotations = decide(&row).object.expect("filled in")["metadata"]["annotations"].clone();
        (
            annotations["volcano.sh/hierarchy"].clone(),
            annotations["volcano.sh/hierarchy-weights"].clone(),
        )
    };
    assert_eq!(rooted("sci"), (json!("root/sci"), json!("1/2")));
    assert_eq!(rooted("rootbeer"), (json!("root/rootbeer"), json!("1/2")));
    assert_eq!(rooted("root/sci"), (json!("root/sci"), json!("2")));
}
