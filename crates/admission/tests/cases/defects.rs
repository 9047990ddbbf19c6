//! Volcano's defects, each a test that carries its name: they stay away.

use basalt_admission::{Settings, Verdict};
use serde_json::json;

use crate::table::queue::build;
use crate::table::{Row, World, decide, delivery};

/// A cycle that was stored by other means neither hangs admission nor blocks other edits (Volcano #5807).
#[test]
fn volcano_5807_cycle_hangs_admission() {
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
fn volcano_3517_edits_refused_while_closing() {
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

/// Volcano #5351: closing through a raw write of the status. The state is wanted in the spec alone: a
/// status that somebody wrote neither closes a queue nor opens one, and does not let it be deleted.
#[test]
fn volcano_5351_close_through_raw_writes() {
    let in_world = |world: World, what: &str| Row {
        world,
        ..delivery::build(what, json!("q"))
    };
    let open = World::usual().closed("q", json!({"state": "Open"}));
    assert_eq!(decide(&in_world(open, "job")).verdict, Verdict::Allow);
    let closed = World::usual().queue("q", json!({"state": "Closed"}));
    let verdict = decide(&in_world(closed, "job")).verdict;
    assert!(
        matches!(&verdict, Verdict::Refuse(refusal) if refusal.rule == "delivery/queue-open"),
        "{verdict:?}"
    );
    let verdict = decide(&build("delete", json!(["q", {"state": "Open"}, "Closed"]))).verdict;
    assert!(
        matches!(&verdict, Verdict::Refuse(refusal) if refusal.rule == "queue/delete-wanted"),
        "{verdict:?}"
    );
}

/// Whoever may create Commands could open and close queues. Now the right to update the queue is asked
/// for, and neither an odd target nor a later change of the Command gets around it.
#[test]
fn command_as_a_privilege_hole() {
    let verdict = |what, details| decide(&delivery::build(what, details)).verdict;
    let Verdict::Review(access) = verdict("command", json!(["CloseQueue", "team-a", "uid-team-a"])) else {
        panic!("nothing is asked");
    };
    assert_eq!(
        (&*access.verb, &*access.resource, &*access.name),
        ("update", "queues", "team-a")
    );
    let odd = json!({"apiVersion": "x/v1", "kind": "Queue", "name": "team-a", "uid": "uid-team-a"});
    let harmless = ["OpenQueue", "team-a", "uid-team-a"];
    for (what, details) in [
        ("any-command", json!(["CloseQueue", odd])),
        ("job-command", json!(["CloseQueue"])),
        ("recommand", json!([harmless, ["CloseQueue", "team-b", "uid-team-b"]])),
    ] {
        let verdict = verdict(what, details);
        assert!(matches!(verdict, Verdict::Refuse(_)), "{what}: {verdict:?}");
    }
}

/// What was accepted goes on: the Command, the PodGroup and the pods of a Job pass in a queue that
/// closes, also where rights are asked for.
#[test]
fn restart_job_refused_in_a_closing_queue() {
    for queue_acl in [false, true] {
        for (what, details) in [
            ("job-command", json!(["RestartJob"])),
            ("of-job", json!(["shut-a", "uid-train"])),
            ("pod-of-job", json!(["shut-a", "uid-train"])),
        ] {
            let settings = Settings {
                queue_acl,
                ..Settings::default()
            };
            let row = Row {
                settings,
                ..delivery::build(what, details)
            };
            assert_eq!(decide(&row).verdict, Verdict::Allow, "{what}");
        }
    }
}
