use basalt_engine::facts::{Event, Tally};
use serde_json::Value;

use super::*;
use crate::test_cluster;

fn group(version: &str, phase: &str) -> PodGroup {
    let group = json!({
        "metadata": {"namespace": "a", "name": "g", "uid": "g", "resourceVersion": version},
        "spec": {}, "status": {"phase": phase},
    });
    serde_json::from_value(group).expect("a group")
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
        tally: Some(Tally {
            running: 1,
            ..Default::default()
        }),
    };
    Plan {
        transactions: vec![transaction],
        ..Plan::default()
    }
}

/// A write is answered with version 7, then the watch shows `late`: which phase does the next write carry?
fn check_late_event(late: &PodGroup, expected: Phase) {
    let (engine, mut outbox) = (test_cluster::engine(1, &[]), CommandOutbox::default());
    let mut reporter = PodGroupStatusReporter::default();
    reporter.observe("a/g", &ObjectEvent::Applied(&group("5", "Pending")));
    assert!(!reporter.was_scheduled("a/g"));
    reporter.publish(
        &decided(Some(Phase::Running)),
        &engine,
        Timestamp::UNIX_EPOCH,
        &mut outbox,
    );
    assert!(reporter.was_scheduled("a/g"));
    let version = StatusWriteOutcome::Written {
        resource_version: Some(7),
    };
    reporter.write_answered("a/g", 1, version);
    reporter.observe("a/g", &ObjectEvent::Applied(late));
    reporter.publish(&decided(None), &engine, Timestamp::UNIX_EPOCH, &mut outbox);
    let phase = reporter.published.get("a/g").and_then(|known| known.status.phase);
    assert_eq!(phase, Some(expected), "{late:?}");
}

#[test]
fn a_late_watch_event_brings_no_old_phase_back() {
    check_late_event(&group("6", "Inqueue"), Phase::Running);
    // Somebody else has written since.
    check_late_event(&group("8", "Inqueue"), Phase::Inqueue);
}

#[test]
fn a_rejected_status_does_not_undo_that_the_group_was_scheduled() {
    let (engine, mut outbox) = (test_cluster::engine(1, &[]), CommandOutbox::default());
    let mut reporter = PodGroupStatusReporter::default();
    reporter.observe("a/g", &ObjectEvent::Applied(&group("5", "Pending")));
    reporter.publish(
        &decided(Some(Phase::Running)),
        &engine,
        Timestamp::UNIX_EPOCH,
        &mut outbox,
    );
    reporter.write_answered("a/g", 1, StatusWriteOutcome::Rejected);
    reporter.invalidate("a/g");
    assert!(reporter.was_scheduled("a/g"));
    assert_eq!(reporter.next_due(), Some(Timestamp::UNIX_EPOCH));
}

#[test]
fn a_group_is_scheduled_when_that_is_observed_and_not_when_it_is_decided() {
    for (node, expected) in [(None, false), (Some("n"), true)] {
        let mut reporter = PodGroupStatusReporter::default();
        let mut group = group("5", "Inqueue");
        if let Some(status) = &mut group.status {
            status.reasons = vec![Reason::new(Code::NotEnoughResources)];
        }
        reporter.observe("a/g", &ObjectEvent::Applied(&group));
        let mut engine = test_cluster::engine(1, &[test_cluster::pod(0, node)]);
        let plan = Plan {
            transactions: Vec::new(),
            ..engine.cycle(1, 0)
        };
        let is_ready = engine
            .group("a/g")
            .is_some_and(basalt_engine::PodGroupView::is_minimum_ready);
        assert!(is_ready, "{node:?}");
        reporter.publish(&plan, &engine, Timestamp::UNIX_EPOCH, &mut CommandOutbox::default());
        assert_eq!(reporter.waiting_message("a/g"), None, "the group waits no longer");
        assert_eq!(reporter.was_scheduled("a/g"), expected, "{node:?}");
    }
}

/// A status after another: may the write wait a little?
fn check_delay(before: &Value, after: &Value, waits: bool) {
    let read = |status: &Value| serde_json::from_value::<PodGroupStatus>(status.clone()).expect("a status");
    let found = can_wait(&read(before), &read(after));
    assert_eq!(found, waits, "{before} {after}");
}

#[test]
fn counters_can_wait_and_phases_and_reasons_cannot() {
    let condition = json!([{"type": "Scheduled", "status": "True"}]);
    let why = json!([{"code": "GangNotReady", "have": "1", "need": "2"}]);
    let other = json!([{"code": "GangNotReady", "have": "0", "need": "2"}]);
    let started = json!({"phase": "Running", "running": 1});
    check_delay(&started, &json!({"phase": "Running", "running": 2, "failed": 1}), true);
    check_delay(&started, &json!({"phase": "Completed", "succeeded": 1}), false);
    check_delay(
        &started,
        &json!({"phase": "Running", "running": 1, "conditions": condition}),
        false,
    );
    let held = json!({"phase": "Inqueue", "reasons": why});
    check_delay(&held, &json!({"phase": "Inqueue"}), true);
    check_delay(&held, &json!({"phase": "Inqueue", "reasons": other}), false);
    check_delay(&json!({"phase": "Inqueue"}), &held, false);
    check_delay(&held, &json!({"phase": "Inqueue", "running": 1, "reasons": why}), true);
}

/// Pods of a group that needs five come at these seconds: when is it reported that the group lacks some?
fn check_creation(comes: &[i64], expected: i64) {
    let at = |second| Timestamp::from_second(second).expect("a small time");
    let (mut engine, mut outbox) = (test_cluster::engine(5, &[]), CommandOutbox::default());
    let mut reporter = PodGroupStatusReporter::default();
    reporter.observe("a/g", &ObjectEvent::Applied(&group("5", "Inqueue")));
    let mut pods = 0;
    for second in 0..=expected {
        for _ in comes.iter().filter(|comes| **comes == second) {
            engine.apply(&Event::Pod(test_cluster::pod(pods, None)));
            pods += 1;
        }
        let plan = engine.cycle(second + 1, 0);
        let reported = reporter.publish(&plan, &engine, at(second), &mut outbox);
        assert_eq!(reported.len(), usize::from(second == expected), "{comes:?} at {second}");
        assert!(
            second == expected || reporter.next_due() > Some(at(second)),
            "{comes:?} at {second}"
        );
    }
    let message = reporter.waiting_message("a/g");
    assert!(message.is_some_and(|message| message.contains("not complete")));
}

#[test]
fn a_group_whose_pods_are_still_being_created_is_not_reported_at_once() {
    check_creation(&[], 30);
    check_creation(&[0], 5);
    check_creation(&[29], 34);
    check_creation(&[0, 4, 8], 13);
    check_creation(&[0, 6], 5);
}

#[test]
fn nothing_is_kept_of_groups_that_wait_no_longer() {
    let (mut engine, mut outbox) = (test_cluster::engine(1, &[]), CommandOutbox::default());
    let mut reporter = PodGroupStatusReporter::default();
    reporter.observe("a/g", &ObjectEvent::Applied(&group("5", "Inqueue")));
    for (pods, kept) in [(0, 1), (1, 0)] {
        if pods > 0 {
            engine.apply(&Event::Pod(test_cluster::pod(0, None)));
        }
        let plan = engine.cycle(pods + 1, 0);
        reporter.publish(&plan, &engine, Timestamp::UNIX_EPOCH, &mut outbox);
        assert_eq!(reporter.incomplete.len(), kept, "{pods}");
    }
}
