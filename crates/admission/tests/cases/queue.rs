//! Queues: what is filled in, what is said, and what must not hang.

use serde_json::{Value, json};

use crate::table::queue::build;
use crate::table::{Row, decide, refusal};

#[test]
fn defaults() {
    let filled = |what, details| {
        decide(&build(what, details))
            .object
            .map(|object| object["spec"].clone())
    };
    let usual = json!({"weight": 1, "reclaimable": true, "state": "Open", "parent": "root"});
    assert_eq!(filled("create", json!(["q", {}])), Some(usual.clone()));
    assert_eq!(filled("create", json!(["q", usual])), Some(usual.clone()));
    assert_eq!(filled("update", json!(["q", usual, usual])), None);
    let root = json!({"weight": 1, "reclaimable": false, "state": "Open"});
    assert_eq!(filled("create", json!(["root", {}])), Some(root));
    // A client that does not know spec.state keeps the stored one.
    let closed = json!({"weight": 1, "reclaimable": true, "state": "Closed", "parent": "root"});
    let unaware = json!({"weight": 1, "reclaimable": true, "parent": "root"});
    assert_eq!(filled("update", json!(["q", closed, unaware])), Some(closed));
}

/// The controller empties a queue before it goes, so it must be asked.
#[test]
fn the_finalizer_is_set_once_and_only_at_create() {
    let finalizers = |row: &Row| {
        decide(row)
            .object
            .map(|object| object["metadata"]["finalizers"].clone())
    };
    let mut row = build("create", json!(["q", {}]));
    assert_eq!(finalizers(&row), Some(json!(["basalt.sh/queue"])));
    row.object.as_mut().expect("object")["metadata"]["finalizers"] = json!(["mine/own", "basalt.sh/queue"]);
    assert_eq!(finalizers(&row), Some(json!(["mine/own", "basalt.sh/queue"])));
    row.object.as_mut().expect("object")["metadata"]["finalizers"] = json!(["mine/own"]);
    assert_eq!(finalizers(&row), Some(json!(["mine/own", "basalt.sh/queue"])));
    let whole = json!({"weight": 1, "reclaimable": true, "state": "Open", "parent": "root"});
    assert_eq!(finalizers(&build("update", json!(["q", whole, whole]))), None);
}

#[test]
fn what_opens_under_a_closed_ancestor_is_told_so() {
    let warnings = |details| decide(&build("update", details)).warnings;
    let closed = json!({"parent": "shut", "state": "Closed"});
    let open = json!({"parent": "shut", "state": "Open"});
    let told = warnings(json!(["shut-a", closed, open]));
    assert!(told.len() == 1 && told[0].contains("\"shut\""), "{told:?}");
    assert_eq!(warnings(json!(["shut-a", open, open])), [""; 0]);
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
    assert_eq!(warnings(&reserved, &json!({})), [""; 0]);
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

#[test]
fn refusals_of_guarantees_say_what_to_do() {
    #[track_caller]
    fn says(what: &str, details: Value, words: &[&str]) {
        let message = refusal(&build(what, details)).expect("it is refused").message;
        for word in words {
            assert!(message.contains(word), "{message}: lacks {word:?}");
        }
    }
    let guarantee = |guarantee: Value| json!(["q", {"guarantee": guarantee}]);
    says(
        "create",
        guarantee(json!({"resource": {"cpu": "2c"}})),
        &[
            "Queue q",
            "spec.guarantee.resource[cpu]",
            "\"2c\"",
            "write for example 2 (cores) or 500m",
        ],
    );
    says(
        "create",
        guarantee(json!({"policy": "guaranteed"})),
        &[
            "spec.guarantee.policy",
            "\"guaranteed\"",
            "\"Best-Effort\"",
            "\"Guaranteed\"",
        ],
    );
    let share = |dimensions: Value, value: f64| json!({"percentage": {"dimensions": dimensions, "value": value}});
    says(
        "create",
        guarantee(share(json!(["cpu"]), 1.5)),
        &["percentage.value is 1.5", "from 0 to 1"],
    );
    says(
        "create",
        guarantee(share(json!([]), 0.5)),
        &["percentage.dimensions", "name at least one"],
    );
    says(
        "create",
        guarantee(share(json!(["cpu", "cpu"]), 0.5)),
        &["\"cpu\" twice", "each resource once"],
    );
    says(
        "create",
        guarantee(json!({"resource": {"cpu": "61"}})),
        &[
            "is 61",
            "are guaranteed 65",
            "the nodes offer, which is 64",
            "at most 60 or add nodes",
        ],
    );
    says(
        "create",
        guarantee(share(json!(["cpu"]), 0.95)),
        &["percentage makes 60800m of cpu", "are guaranteed 64800m", "which is 64"],
    );
    says(
        "only",
        json!(["q", {"guarantee": {"resource": {"cpu": "29"}}}, {}, "0.5"]),
        &[
            "is 29",
            "33",
            "0.5 of what the nodes offer, which is 32",
            "at most 28",
            "--guarantee-share",
        ],
    );
    says(
        "create",
        json!(["q", {"guarantee": share(json!(["cpu"]), 0.5), "capability": {"cpu": "31"}}]),
        &[
            "makes 32 of cpu",
            "spec.capability[cpu], which is 31",
            "raise the other",
        ],
    );
}

#[test]
fn a_policy_for_nothing_is_told() {
    let told = |guarantee: Value| {
        decide(&build("create", json!(["q", {"guarantee": guarantee}])))
            .warnings
            .len()
    };
    assert_eq!(told(json!({"policy": "Guaranteed"})), 1);
    assert_eq!(told(json!({"policy": "Guaranteed", "resource": {}})), 1);
    assert_eq!(told(json!({"policy": "Guaranteed", "resource": {"cpu": "1"}})), 0);
    assert_eq!(told(json!({})), 0);
}
