use serde_json::Value;

use super::*;
use crate::live::executor::Executor;
use crate::live::scheduler::scene;
use crate::live::scripted::{self, Answer};

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
    let client = scripted::client(move |_, _| Answer::Object(answer.clone()));
    let outlets = Outlets::default();
    tokio::spawn(outlets.groups.clone().run(Executor::new(client, "test"), drop));
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
