//! Queues.

use serde_json::{Value, json};

use crate::support::{Row, World, decide, queue};

fn row(
    about: &'static str,
    title: &'static str,
    refused: bool,
    name: &'static str,
    spec: Value,
    old: Option<Value>,
) -> Row {
    Row {
        title,
        about,
        broken: refused.then_some(about),
        group: "scheduling.volcano.sh",
        resource: "queues",
        name,
        object: Some(queue(name, spec)),
        old: old.map(|spec| queue(name, spec)),
        world: World::usual(),
    }
}

fn delete(
    about: &'static str,
    title: &'static str,
    refused: bool,
    name: &'static str,
    spec: Value,
    state: &str,
) -> Row {
    let mut stored = queue(name, spec);
    stored["status"] = json!({"state": state});
    let world = World::usual().with("queues.scheduling.volcano.sh", stored.clone());
    Row {
        object: None,
        old: Some(stored),
        world,
        ..row(about, title, refused, name, json!({}), None)
    }
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = vec![
        row(
            "queue/state-value",
            "Closing is not asked for",
            true,
            "q",
            json!({"state": "Closing"}),
            None,
        ),
        row(
            "queue/state-value",
            "lower case",
            true,
            "q",
            json!({"state": "open"}),
            None,
        ),
        row("queue/state-value", "a number", true, "q", json!({"state": 1}), None),
        row(
            "queue/state-value",
            "created Closed",
            false,
            "q",
            json!({"state": "Closed"}),
            None,
        ),
        row("queue/state-value", "absent", false, "q", json!({}), None),
        row("queue/weight", "negative", true, "q", json!({"weight": -1}), None),
        row("queue/weight", "too heavy", true, "q", json!({"weight": 65536}), None),
        row("queue/weight", "a fraction", true, "q", json!({"weight": 1.5}), None),
        row(
            "queue/weight",
            "the heaviest",
            false,
            "q",
            json!({"weight": 65535}),
            None,
        ),
        row(
            "queue/weight",
            "zero means unset",
            false,
            "q",
            json!({"weight": 0}),
            None,
        ),
        row(
            "queue/root-fixed",
            "root closed",
            true,
            "root",
            json!({"state": "Closed"}),
            Some(json!({})),
        ),
        row(
            "queue/root-fixed",
            "root under another",
            true,
            "root",
            json!({"parent": "team"}),
            Some(json!({})),
        ),
        row(
            "queue/root-fixed",
            "root's weight",
            false,
            "root",
            json!({"weight": 2}),
            Some(json!({})),
        ),
        row(
            "queue/parent-self",
            "own parent",
            true,
            "q",
            json!({"parent": "q"}),
            None,
        ),
        row(
            "queue/parent-self",
            "another parent",
            false,
            "q",
            json!({"parent": "team"}),
            None,
        ),
        row(
            "queue/parent-exists",
            "missing",
            true,
            "q",
            json!({"parent": "nobody"}),
            None,
        ),
        row(
            "queue/parent-exists",
            "being deleted",
            true,
            "q",
            json!({"parent": "leaving"}),
            None,
        ),
        row(
            "queue/parent-exists",
            "there",
            false,
            "q",
            json!({"parent": "team-a"}),
            None,
        ),
        row(
            "queue/parent-exists",
            "missing before and still",
            false,
            "q",
            json!({"parent": "nobody", "weight": 3}),
            Some(json!({"parent": "nobody"})),
        ),
        row(
            "queue/parent-cycle",
            "under its own child",
            true,
            "team",
            json!({"parent": "team-a"}),
            Some(json!({})),
        ),
        row(
            "queue/parent-cycle",
            "under its sibling",
            false,
            "team-a",
            json!({"parent": "team-b"}),
            Some(json!({"parent": "team"})),
        ),
        delete(
            "queue/delete-protected",
            "default",
            true,
            "default",
            json!({"state": "Closed"}),
            "Closed",
        ),
        delete(
            "queue/delete-protected",
            "a closed leaf",
            false,
            "shut-a",
            json!({"parent": "shut"}),
            "Closed",
        ),
        delete(
            "queue/delete-children",
            "has children",
            true,
            "shut",
            json!({"state": "Closed"}),
            "Closed",
        ),
        delete(
            "queue/delete-children",
            "a leaf",
            false,
            "q",
            json!({"state": "Closed"}),
            "Closed",
        ),
        delete("queue/delete-closed", "open", true, "q", json!({}), "Open"),
        delete("queue/delete-closed", "no status yet", true, "q", json!({}), ""),
        delete(
            "queue/delete-closed",
            "closing",
            true,
            "q",
            json!({"state": "Closed"}),
            "Closing",
        ),
        delete(
            "queue/delete-closed",
            "reopened a moment ago",
            true,
            "q",
            json!({"state": "Open"}),
            "Closed",
        ),
        delete(
            "queue/delete-closed",
            "closed by its parent",
            false,
            "shut-a",
            json!({"parent": "shut"}),
            "Closed",
        ),
    ];
    rows.extend(depth_rows());
    rows
}

/// A chain a-b-c-d under root (4 levels), and `tall` with two levels below it.
fn depth_rows() -> Vec<Row> {
    let world = World::usual()
        .queue("a", json!({}))
        .queue("b", json!({"parent": "a"}))
        .queue("c", json!({"parent": "b"}))
        .queue("d", json!({"parent": "c"}))
        .queue("e", json!({"parent": "d"}))
        .queue("tall", json!({}))
        .queue("tall-1", json!({"parent": "tall"}))
        .queue("tall-2", json!({"parent": "tall-1"}));
    let deep = |title, refused, name, parent: &str, old: Option<Value>| Row {
        world: world.clone(),
        ..row("queue/depth", title, refused, name, json!({"parent": parent}), old)
    };
    vec![
        deep("fifth level", false, "q", "d", None),
        deep("sixth level", true, "q", "e", None),
        deep("moved with its subtree, fits", false, "tall", "b", Some(json!({}))),
        deep(
            "moved with its subtree, one too many",
            true,
            "tall",
            "c",
            Some(json!({})),
        ),
    ]
}

/// A cycle that was stored by other means neither hangs admission nor blocks other edits.
#[test]
fn a_stored_cycle_does_not_hang() {
    let world = World::usual()
        .queue("x", json!({"parent": "y"}))
        .queue("y", json!({"parent": "x"}));
    let edit = Row {
        world: world.clone(),
        ..row(
            "",
            "",
            false,
            "x",
            json!({"parent": "y", "weight": 2}),
            Some(json!({"parent": "y"})),
        )
    };
    assert_eq!(decide(&edit).verdict, basalt_admission::Verdict::Allow);
    let child = Row {
        world,
        ..row("", "", false, "z", json!({"parent": "x"}), None)
    };
    decide(&child);
}

#[test]
fn defaults() {
    let filled = |spec: Value, old: Option<Value>| {
        let decided = decide(&row("", "", false, "q", spec, old)).object;
        decided.map(|object| object["spec"].clone())
    };
    let usual = json!({"weight": 1, "reclaimable": true, "state": "Open", "parent": "root"});
    assert_eq!(filled(json!({}), None), Some(usual.clone()));
    assert_eq!(filled(usual.clone(), None), None);
    // A client that does not know spec.state keeps the stored one.
    let closed = json!({"weight": 1, "reclaimable": true, "state": "Closed", "parent": "root"});
    assert_eq!(
        filled(
            json!({"weight": 1, "reclaimable": true, "parent": "root"}),
            Some(closed.clone())
        ),
        Some(closed)
    );
}
