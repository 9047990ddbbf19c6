//! The table of phases: what pods make of a Job.

use crate::world::{World, task};
use serde_json::{Value, json};

/// Puts a job into `phase`, gives its pods the phases of `pods` (one letter each: P R S F U, D for
/// being deleted, - for absent), and looks once.
fn check(phase: &str, spec: Value, pods: &str, expected: &str) {
    let mut world = World::started(spec);
    for (name, letter) in world.names("Pod").iter().zip(pods.chars()) {
        match letter {
            'P' => world.pods("Pending", &[name]),
            'R' => world.pods("Running", &[name]),
            'S' => world.pods("Succeeded", &[name]),
            'F' => world.pods("Failed", &[name]),
            'U' => world.pods("Unknown", &[name]),
            'D' => world.raw("Pod", name)["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            '-' => drop(world.objects.remove(&("Pod".to_owned(), name.clone()))),
            other => panic!("unknown letter {other}"),
        }
    }
    world.raw("Job", "train")["status"]["state"]["phase"] = json!(phase);
    world.step();
    assert_eq!(world.phase(), expected, "{phase} with {pods}");
}

fn gang(min: i32) -> Value {
    json!({"minAvailable": min, "tasks": [task("a", 1), task("b", 3)]})
}

#[test]
fn waiting_and_running() {
    check("Pending", gang(4), "RRRP", "Pending");
    check("Pending", gang(3), "RRRP", "Running");
    check("Pending", gang(4), "RSFR", "Running");
    check("Pending", gang(4), "RRRU", "Pending");
    check("Running", gang(3), "RRPP", "Pending");
    check("Running", gang(3), "RRRP", "Running");
    check("Running", gang(3), "RRFF", "Running");
    check("Running", gang(3), "RR--", "Running");
}

#[test]
fn the_end() {
    check("Running", gang(4), "SSSS", "Completed");
    // All of each task must succeed, for minAvailable covers them all.
    check("Running", gang(4), "SSSF", "Failed");
    check("Running", gang(4), "FSSS", "Failed");
    // Below that the sum decides.
    check("Running", gang(3), "FSSS", "Completed");
    check("Running", gang(3), "FFSS", "Failed");
    check("Running", gang(3), "FFFF", "Failed");
    // From Pending through Running to the end in one look.
    check("Pending", gang(4), "SSSS", "Completed");
    check("Pending", gang(4), "FFFF", "Failed");
    let min_success = |min: i32| json!({"minAvailable": 3, "minSuccess": min, "tasks": [task("a", 3)]});
    check("Running", min_success(1), "SRR", "Completed");
    check("Running", min_success(2), "SRR", "Running");
    check("Running", min_success(2), "SFF", "Failed");
    check("Running", min_success(2), "SSF", "Completed");
}

#[test]
fn on_the_way_down() {
    for (before, after) in [
        ("Aborting", "Aborted"),
        ("Terminating", "Terminated"),
        ("Completing", "Completed"),
    ] {
        check(before, gang(4), "SSFR", before);
        check(before, gang(4), "SSFD", before);
        check(before, gang(4), "SSFF", after);
        check(before, gang(4), "----", after);
    }
    for end in ["Aborted", "Terminated", "Completed", "Failed"] {
        check(end, gang(4), "RRRR", end);
        check(end, gang(4), "SSSS", end);
    }
}

#[test]
fn restarting() {
    check("Restarting", gang(4), "DDDD", "Restarting");
    check("Restarting", gang(3), "---D", "Pending");
    check("Restarting", gang(4), "----", "Pending");
    let mut world = World::started(gang(4));
    world.raw("Job", "train")["status"] = json!({"state": {"phase": "Restarting"}, "retryCount": 3});
    world.step();
    let status = world.job().status.expect("status");
    assert_eq!(status.state.message, "restarted 3 times, maxRetry is 3");
    assert_eq!(world.phase(), "Failed");
}

#[test]
fn a_failure_says_why() {
    let message = |spec: Value, pods: &[(&str, &str)]| {
        let mut world = World::started(spec);
        for (name, phase) in pods {
            world.pods(phase, &[name]);
        }
        world.settle();
        let state = world.job().status.expect("status").state;
        (state.reason, state.message)
    };
    let ended = [
        ("train-a-0", "Succeeded"),
        ("train-b-0", "Succeeded"),
        ("train-b-1", "Failed"),
        ("train-b-2", "Failed"),
    ];
    let expected = |reason: &str, text: &str| (reason.to_owned(), text.to_owned());
    assert_eq!(
        message(gang(4), &ended),
        expected("TaskFailed", "1 pods of task b succeeded, 3 must")
    );
    assert_eq!(
        message(gang(3), &ended),
        expected("PodsFailed", "2 pods succeeded and 2 failed, 3 must succeed")
    );
}
