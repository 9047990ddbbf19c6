use std::collections::BTreeMap;

use super::super::state::{Over, ProcessId};
use super::*;

fn pod(init: &[&str], main: &[&str]) -> Pod {
    let container = |name: &&str| json!({"name": name, "image": format!("{name}-image")});
    let init: Vec<Value> = init.iter().map(container).collect();
    let main: Vec<Value> = main.iter().map(container).collect();
    let pod = json!({"metadata": {"uid": "u"}, "spec": {"initContainers": init, "containers": main}});
    serde_json::from_value(pod).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn ended(code: i32, reason: &str) -> Ended {
    Ended {
        exit_code: code,
        signal: None,
        reason: reason.to_owned(),
        message: String::new(),
        began: at(10),
        ended: at(20),
    }
}

fn running() -> Now {
    let process = ProcessId {
        pid: 5,
        started: 6,
        boot: "b".to_owned(),
    };
    Now::Running { process, since: at(10) }
}

fn waits(reason: &str) -> Now {
    Now::Waiting {
        reason: reason.to_owned(),
        message: String::new(),
    }
}

fn one(now: Now, last: Option<Ended>, restarts: u32, ready: bool) -> ContainerState {
    ContainerState {
        now,
        last,
        restarts,
        ready,
        started: ready,
    }
}

fn state(initialized: bool, over: Option<(bool, &str)>, containers: &[(&str, ContainerState)]) -> PodState {
    let named = containers
        .iter()
        .map(|(name, state)| ((*name).to_owned(), state.clone()));
    PodState {
        uid: "u".to_owned(),
        sequence: 1,
        shim: ProcessId {
            pid: 1,
            started: 2,
            boot: "b".to_owned(),
        },
        containers: named.collect::<BTreeMap<_, _>>(),
        initialized,
        over: over.map(|(succeeded, reason)| Over {
            succeeded,
            reason: reason.to_owned(),
            message: String::new(),
        }),
    }
}

fn status(pod: &Pod, stand: Stand<'_>, before: &Value) -> Value {
    let picture = Picture {
        pod,
        address: Some(Ipv4Addr::new(127, 64, 0, 1)),
        host: Ipv4Addr::LOCALHOST,
        taken: at(5),
        stand,
        before,
    };
    picture.status(at(100))
}

fn holds(status: &Value, kind: &str) -> (bool, String, String) {
    let conditions = status["conditions"].as_array().unwrap();
    let condition = conditions.iter().find(|c| c["type"] == kind).unwrap();
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    (
        condition["status"] == "True",
        text("reason"),
        text("lastTransitionTime"),
    )
}

/// Phase; Initialized, ContainersReady, Ready; why it is not ready.
fn check_phase(init: &[&str], main: &[&str], state: PodState, phase: &str, conditions: [bool; 3], why: &str) {
    let pod = pod(init, main);
    let status = status(&pod, Stand::Told(&state), &Value::Null);
    let found = ["Initialized", "ContainersReady", "Ready"].map(|kind| holds(&status, kind).0);
    assert_eq!(
        (status["phase"].as_str(), found),
        (Some(phase), conditions),
        "{state:?}"
    );
    assert_eq!(holds(&status, "Ready").1, why, "{state:?}");
    assert!(holds(&status, "PodScheduled").0);
}

#[test]
fn phases_and_conditions() {
    let run = || one(running(), None, 0, true);
    let not_ready = || one(running(), None, 0, false);
    let done = |code| one(Now::Ended(ended(code, "x")), None, 0, false);
    let not_yet = || one(waits("PodInitializing"), None, 0, false);
    let back = || one(waits("CrashLoopBackOff"), Some(ended(1, "Error")), 0, false);
    check_phase(
        &[],
        &["a"],
        state(true, None, &[("a", run())]),
        "Running",
        [true, true, true],
        "",
    );
    check_phase(
        &[],
        &["a"],
        state(true, None, &[("a", not_ready())]),
        "Running",
        [true, false, false],
        "ContainersNotReady",
    );
    check_phase(
        &[],
        &["a", "b"],
        state(true, None, &[("a", run()), ("b", done(0))]),
        "Running",
        [true, false, false],
        "ContainersNotReady",
    );
    check_phase(
        &[],
        &["a", "b"],
        state(true, None, &[("a", run()), ("b", not_yet())]),
        "Pending",
        [true, false, false],
        "ContainersNotReady",
    );
    check_phase(
        &[],
        &["a"],
        state(true, None, &[("a", back())]),
        "Running",
        [true, false, false],
        "ContainersNotReady",
    );
    check_phase(
        &["i"],
        &["a"],
        state(false, None, &[("i", run()), ("a", not_yet())]),
        "Pending",
        [false, false, false],
        "ContainersNotReady",
    );
    check_phase(
        &[],
        &["a"],
        state(true, Some((true, "")), &[("a", done(0))]),
        "Succeeded",
        [true, false, false],
        "PodCompleted",
    );
    check_phase(
        &[],
        &["a"],
        state(true, Some((false, "")), &[("a", done(1))]),
        "Failed",
        [true, false, false],
        "PodFailed",
    );
    check_phase(
        &["i"],
        &["a"],
        state(false, Some((false, "")), &[("i", done(1)), ("a", not_yet())]),
        "Failed",
        [false, false, false],
        "PodFailed",
    );
}

#[test]
fn containers_are_told() {
    let check = |told: ContainerState, expected: Value| {
        let pod = pod(&[], &["a"]);
        let state = state(true, None, &[("a", told)]);
        let status = status(&pod, Stand::Told(&state), &Value::Null);
        let mut found = status["containerStatuses"][0].clone();
        for (key, value) in [("name", "a"), ("image", "a-image"), ("imageID", "")] {
            assert_eq!(found[key], value);
            found.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(found, expected);
    };
    let (t10, t20) = ("1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z");
    let terminated = |code: i32, reason: &str, run: u32| json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": t10, "finishedAt": t20, "containerID": format!("basalt://u/a/{run}")}});
    check(
        one(running(), None, 0, true),
        json!({"ready": true, "started": true, "restartCount": 0, "lastState": {}, "containerID": "basalt://u/a/0", "state": {"running": {"startedAt": t10}}}),
    );
    check(
        one(running(), Some(ended(2, "Error")), 3, false),
        json!({"ready": false, "started": false, "restartCount": 3, "lastState": terminated(2, "Error", 2), "containerID": "basalt://u/a/3", "state": {"running": {"startedAt": t10}}}),
    );
    check(
        one(waits("CrashLoopBackOff"), Some(ended(2, "Error")), 3, false),
        json!({"ready": false, "started": false, "restartCount": 3, "lastState": terminated(2, "Error", 3), "containerID": "basalt://u/a/3", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}),
    );
    check(
        one(Now::Ended(ended(137, "OOMKilled")), None, 0, false),
        json!({"ready": false, "started": false, "restartCount": 0, "lastState": {}, "containerID": "basalt://u/a/0", "state": terminated(137, "OOMKilled", 0)}),
    );
}

#[test]
fn pods_without_a_shim() {
    let pod = pod(&["i"], &["a"]);
    let stand = Stand::Waiting {
        reason: "CreateContainerConfigError",
        message: "no map",
    };
    let waiting = status(&pod, stand, &Value::Null);
    assert_eq!(waiting["phase"], "Pending");
    let told = json!({"waiting": {"reason": "CreateContainerConfigError", "message": "no map"}});
    assert_eq!(waiting["containerStatuses"][0]["state"], told);
    assert_eq!(
        waiting["initContainerStatuses"][0]["state"]["waiting"]["reason"],
        "PodInitializing"
    );
    let stand = Stand::Refused {
        reason: "OutOfcpu",
        message: "too large",
    };
    let refused = status(&pod, stand, &Value::Null);
    assert_eq!(
        (refused["phase"].as_str(), refused["reason"].as_str()),
        (Some("Failed"), Some("OutOfcpu"))
    );
    assert_eq!(
        (refused["message"].as_str(), refused.get("containerStatuses")),
        (Some("too large"), None)
    );
}

#[test]
fn conditions_keep_their_time() {
    let pod = pod(&[], &["a"]);
    let before = json!({"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:42Z"},
        {"type": "Initialized", "status": "False", "lastTransitionTime": "1970-01-01T00:00:42Z"},
    ]});
    let state = state(true, None, &[("a", one(running(), None, 0, true))]);
    let status = status(&pod, Stand::Told(&state), &before);
    assert_eq!(holds(&status, "Ready").2, "1970-01-01T00:00:42Z");
    assert_eq!(holds(&status, "Initialized").2, "1970-01-01T00:01:40Z");
}

#[test]
fn quality_of_service() {
    let check = |resources: &[Value], expected: &str| {
        let containers: Vec<Value> = resources.iter().map(|r| json!({"name": "c", "resources": r})).collect();
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": containers}})).unwrap();
        assert_eq!(quality(&pod), expected, "{resources:?}");
    };
    let both = json!({"cpu": "1", "memory": "1Gi"});
    check(&[json!({})], "BestEffort");
    check(&[json!({"requests": {"nvidia.com/gpu": "1"}})], "BestEffort");
    check(&[json!({"requests": {"cpu": "0"}})], "BestEffort");
    check(&[json!({"limits": both})], "Guaranteed");
    check(
        &[json!({"limits": both, "requests": {"cpu": "1000m", "memory": "1024Mi"}})],
        "Guaranteed",
    );
    check(&[json!({"limits": both, "requests": {"cpu": "500m"}})], "Burstable");
    check(&[json!({"limits": both}), json!({})], "Burstable");
    check(&[json!({"requests": {"cpu": "1"}})], "Burstable");
}
