use serde_json::Value;

use super::*;
use crate::scheduler::scene;
use crate::scripted_server::{self, Answer};
use crate::write::executor::Executor;

fn shown(version: &str, phase: &str) -> FeedEvent<PodGroup> {
    let group = json!({
        "metadata": {"namespace": "a", "name": "g", "uid": "g", "resourceVersion": version},
        "spec": {}, "status": {"phase": phase},
    });
    FeedEvent::Upsert(Box::new(serde_json::from_value(group).expect("a group")))
}

fn decided(phase: Option<Phase>) -> Plan {
    let transaction = Transaction {
        pod_group: "a/g".into(),
        uid: "g".into(),
        spec_hash: 0,
        min_member: 1,
        binds: Vec::new(),
        evictions: Vec::new(),
        pipelined: Vec::new(),
        phase,
        tally: Some(basalt_engine::facts::Tally {
            running: 1,
            ..Default::default()
        }),
    };
    Plan {
        transactions: vec![transaction],
        ..Plan::default()
    }
}

/// A write is answered with version 7; then the watch shows `late`; which phase does the next write carry?
async fn check(late: FeedEvent<PodGroup>, expected: Phase) {
    let answer: Value = json!({"metadata": {"namespace": "a", "name": "g", "resourceVersion": "7"}});
    let client = scripted_server::client(move |_, _| Answer::Object(answer.clone()));
    let outlets = Outlets::default();
    tokio::spawn(outlets.groups.clone().run(Executor::new(client, "test")));
    let engine = scene::engine(1, &[]);
    let mut narrator = Narrator::new(outlets.clone());
    narrator.observe(&shown("5", "Pending"));
    assert!(!narrator.was_scheduled("a/g"));
    narrator.tell(&decided(Some(Phase::Running)), engine.state(), Timestamp::UNIX_EPOCH);
    assert!(narrator.was_scheduled("a/g"));
    while outlets.groups.is_pending(&group_target("a/g")) {
        tokio::task::yield_now().await;
    }
    let text = format!("{late:?}");
    narrator.observe(&late);
    narrator.tell(&decided(None), engine.state(), Timestamp::UNIX_EPOCH);
    let phase = narrator.told.get("a/g").and_then(|told| told.status.phase);
    assert_eq!(phase, Some(expected), "{text}");
}

#[tokio::test]
async fn a_late_watch_event_brings_no_old_phase_back() {
    check(shown("6", "Inqueue"), Phase::Running).await;
    // Somebody else has written since.
    check(shown("8", "Inqueue"), Phase::Inqueue).await;
}

#[test]
fn a_group_is_scheduled_when_that_is_shown_and_not_when_it_is_decided() {
    for (node, expected) in [(None, false), (Some("n"), true)] {
        let mut narrator = Narrator::new(Outlets::default());
        let FeedEvent::Upsert(mut group) = shown("5", "Inqueue") else {
            panic!("a group")
        };
        if let Some(status) = &mut group.status {
            status.reasons = vec![Reason::new(Code::NotEnoughResources)];
        }
        narrator.observe(&FeedEvent::Upsert(group));
        let mut engine = scene::engine(1, &[scene::pod(0, node)]);
        let plan = Plan {
            transactions: Vec::new(),
            ..engine.cycle(1, 0)
        };
        assert!(is_ready(engine.state(), "a/g"), "{node:?}");
        narrator.tell(&plan, engine.state(), Timestamp::UNIX_EPOCH);
        assert_eq!(narrator.why("a/g"), None, "it waits no longer");
        assert_eq!(narrator.was_scheduled("a/g"), expected, "{node:?}");
    }
}

/// A status after another; may it wait a little?
fn check_hurry(before: &Value, after: &Value, waits: bool) {
    let read = |status: &Value| serde_json::from_value::<PodGroupStatus>(status.clone()).expect("a status");
    let found = is_courtesy(&read(before), &read(after));
    assert_eq!(found, waits, "{before} {after}");
}

#[test]
fn counts_can_wait_and_what_somebody_waits_for_cannot() {
    let condition = json!([{"type": "Scheduled", "status": "True"}]);
    let why = json!([{"code": "GangNotReady", "have": "1", "need": "2"}]);
    let other = json!([{"code": "GangNotReady", "have": "0", "need": "2"}]);
    let started = json!({"phase": "Running", "running": 1});
    check_hurry(&started, &json!({"phase": "Running", "running": 2, "failed": 1}), true);
    check_hurry(&started, &json!({"phase": "Completed", "succeeded": 1}), false);
    check_hurry(
        &started,
        &json!({"phase": "Running", "running": 1, "conditions": condition}),
        false,
    );
    let held = json!({"phase": "Inqueue", "reasons": why});
    check_hurry(&held, &json!({"phase": "Inqueue"}), true);
    check_hurry(&held, &json!({"phase": "Inqueue", "reasons": other}), false);
    check_hurry(&json!({"phase": "Inqueue"}), &held, false);
    check_hurry(&held, &json!({"phase": "Inqueue", "running": 1, "reasons": why}), true);
}

/// Pods of a group that needs five come at these seconds; when does it say that it lacks some?
fn check_gathering(comes: &[i64], expected: i64) {
    let at = |second| Timestamp::from_second(second).expect("a small time");
    let mut engine = scene::engine(5, &[]);
    let mut narrator = Narrator::new(Outlets::default());
    narrator.observe(&shown("5", "Inqueue"));
    let mut pods = 0;
    for second in 0..=expected {
        for _ in comes.iter().filter(|comes| **comes == second) {
            engine.apply(&basalt_engine::facts::Event::Pod(scene::pod(pods, None)));
            pods += 1;
        }
        let plan = engine.cycle(second + 1, 0);
        let told = narrator.tell(&plan, engine.state(), at(second));
        assert_eq!(told.len(), usize::from(second == expected), "{comes:?} at {second}");
        assert!(
            second == expected || narrator.next_due() > Some(at(second)),
            "{comes:?} at {second}"
        );
    }
    assert!(narrator.why("a/g").is_some_and(|why| why.contains("not complete")));
}

#[test]
fn a_group_that_is_still_being_made_does_not_complain_at_once() {
    check_gathering(&[], 30);
    check_gathering(&[0], 5);
    check_gathering(&[29], 34);
    check_gathering(&[0, 4, 8], 13);
    check_gathering(&[0, 6], 5);
}

#[test]
fn nothing_is_kept_of_groups_that_wait_no_longer() {
    let mut engine = scene::engine(1, &[]);
    let mut narrator = Narrator::new(Outlets::default());
    narrator.observe(&shown("5", "Inqueue"));
    for (pods, kept) in [(0, 1), (1, 0)] {
        if pods > 0 {
            engine.apply(&basalt_engine::facts::Event::Pod(scene::pod(0, None)));
        }
        let plan = engine.cycle(pods + 1, 0);
        narrator.tell(&plan, engine.state(), Timestamp::UNIX_EPOCH);
        assert_eq!(narrator.gathering.len(), kept, "{pods}");
    }
}
