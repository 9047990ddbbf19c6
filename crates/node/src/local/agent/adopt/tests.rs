use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::super::super::state::{ContainerState, ProcessId};
use super::*;

fn ended(code: i32) -> Ended {
    Ended {
        exit_code: code,
        signal: None,
        reason: String::new(),
        message: String::new(),
        began: Timestamp::UNIX_EPOCH,
        ended: Timestamp::UNIX_EPOCH,
    }
}

/// A state in words: `name:now/restarts`, where now is an exit code, `run`, `wait` (never ran) or `back` (ran, and waits).
fn state(words: &str) -> PodState {
    let process = ProcessId {
        pid: 1,
        started: 1,
        boot: String::new(),
    };
    let waits = || Now::Waiting {
        reason: String::new(),
        message: String::new(),
    };
    let one = |word: &str| {
        let (name, rest) = word.split_once(':').unwrap();
        let (now, restarts) = rest.split_once('/').unwrap();
        let (now, last) = match now {
            "run" => (
                Now::Running {
                    process: process.clone(),
                    since: Timestamp::UNIX_EPOCH,
                },
                None,
            ),
            "wait" => (waits(), None),
            "back" => (waits(), Some(ended(7))),
            code => (Now::Ended(ended(code.parse().unwrap())), None),
        };
        let container = ContainerState {
            now,
            last,
            restarts: restarts.parse().unwrap(),
            ready: false,
            started: false,
        };
        (name.to_owned(), container)
    };
    PodState {
        uid: "u".to_owned(),
        sequence: 1,
        containers: words.split_whitespace().map(one).collect(),
        shim: process.clone(),
        initialized: true,
        over: None,
    }
}

#[test]
fn what_is_run_again() {
    let check = |restart: &str, words: &str, expected: bool| {
        let container = |name: &str| {
            json!({
                "name": name, "command": ["x"], "env": [], "limits": {}, "mounts": [], "messagePath": "/m",
                "messageFromLog": false, "sidecar": false,
            })
        };
        let plan = json!({
            "version": 1, "uid": "u", "namespace": "n", "name": "p", "socket": "/s", "hostname": "h", "address": "127.0.0.2",
            "restart": restart, "graceSeconds": 1, "init": [container("i")], "containers": [container("a"), container("b")],
            "isolation": {"view": "Shared", "cgroups": []}, "limits": {}, "backoffMs": [1, 1],
        });
        let plan = serde_json::from_value(plan).unwrap();
        assert_eq!(may_run_again(&plan, &lost(state(words))), expected, "{restart} {words}");
    };
    check("Never", "i:0/0 a:run/0 b:run/0", false);
    check("Always", "i:0/0 a:0/0 b:run/0", true);
    check("OnFailure", "i:0/0 a:run/0 b:run/0", true);
    check("OnFailure", "i:run/0 a:wait/0 b:wait/0", true);
    check("OnFailure", "i:0/0 a:1/0 b:back/2", true);
    check("OnFailure", "i:0/0 a:0/0 b:run/0", false);
}

#[test]
fn restarts_are_counted_over_all_shims() {
    // The states in which shims were lost, one after another; then the last shim's state, and what is told of it.
    let check = |lives: &[&str], now: &str, restarts: u32, last: Option<i32>| {
        let mut pod = LocalPod::new("u", "n", "p");
        for life in lives {
            let whole = pod.with_earlier(lost(state(life)));
            pod.earlier = Some(Box::new(whole));
        }
        let told = pod.with_earlier(state(now));
        let container = &told.containers["a"];
        let found = (container.restarts, container.last.as_ref().map(|last| last.exit_code));
        assert_eq!(found, (restarts, last), "{lives:?} {now}");
    };
    check(&[], "a:run/2", 2, None);
    check(&["a:run/0"], "a:wait/0", 1, Some(137));
    check(&["a:run/2"], "a:run/1", 4, Some(137));
    check(&["a:run/0", "a:run/0"], "a:run/0", 2, Some(137));
    check(&["a:run/3", "a:1/0", "a:run/1"], "a:run/0", 7, Some(137));
    check(&["a:back/3"], "a:run/0", 4, Some(7));
    check(&["a:wait/0"], "a:run/0", 0, None);
    check(&["a:run/2", "a:wait/0"], "a:run/0", 4, Some(137));
}

#[test]
fn who_is_wanted() {
    let check = |object: Option<bool>, listed: bool, expected: Wanted| {
        let mut pod = LocalPod::new("u", "n", "p");
        pod.object = object.map(|deleted| {
            let time = deleted.then_some("2026-01-01T00:00:00Z");
            let object: Pod = serde_json::from_value(json!({"metadata": {"deletionTimestamp": time}})).unwrap();
            Arc::new(object)
        });
        assert_eq!(pod.wanted(listed), expected, "{object:?} {listed}");
    };
    check(Some(false), false, Wanted::Yes);
    check(Some(true), false, Wanted::No);
    check(Some(true), true, Wanted::No);
    check(None, true, Wanted::No);
    check(None, false, Wanted::Unknown);
}

#[test]
fn gpus_that_were_given_away() {
    let check = |plan: Value, expected: &[&str]| {
        let found: Vec<String> = gpus_of(&plan).into_iter().collect();
        assert_eq!(found, expected, "{plan}");
    };
    let variable = |gpus: &str| json!([{"env": [["A", "1"], ["CUDA_VISIBLE_DEVICES", gpus]]}]);
    check(Value::Null, &[]);
    check(json!({"containers": variable("")}), &[]);
    check(
        json!({"init": variable("G2"), "containers": variable("G0,G1")}),
        &["G0", "G1", "G2"],
    );
}
