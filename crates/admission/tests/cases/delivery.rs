//! Deliveries and Commands: what is filled in, and what is asked.

use basalt_admission::Verdict;
use serde_json::json;

use crate::table::delivery::build;
use crate::table::{Row, World, decide};

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
    let mut row = build("group", json!(""));
    let queue = |row: &Row| decide(row).object.map(|object| object["spec"]["queue"].clone());
    assert_eq!(queue(&row), Some(json!("default")));
    let annotations = json!({"scheduling.volcano.sh/queue-name": "team-a"});
    row.world = World::usual().with(
        "namespaces",
        json!({"metadata": {"name": "default", "annotations": annotations}}),
    );
    assert_eq!(queue(&row), Some(json!("team-a")));
}

/// A group on its way out is let go whatever its queue has become; but it is not moved past the rules.
#[test]
fn finalizers_come_off_in_any_queue() {
    let leaving = |queues: [&str; 2]| {
        let mut row = build("moved", json!(queues));
        for object in [&mut row.object, &mut row.old] {
            object.as_mut().expect("object")["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        row.old.as_mut().expect("object")["metadata"]["finalizers"] = json!(["example.com/hold"]);
        decide(&row).verdict
    };
    assert_eq!(leaving(["nowhere", "nowhere"]), Verdict::Allow);
    assert!(matches!(leaving(["default", "nowhere"]), Verdict::Refuse(_)));
}
