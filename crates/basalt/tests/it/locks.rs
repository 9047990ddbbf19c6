//! Locked nodes where things change around them: the configuration, budgets, the whole server.

use std::time::Duration;

use serde_json::Value;

use crate::helpers::{apply, is_running, job_in};
use crate::server::{Server, eventually, kubectl_present};

/// A condition says that an eviction is blocked only after half a minute.
const PATIENCE: Duration = Duration::from_mins(1);
const NODES: [&str; 4] = ["--nodes", "4", "--node-cpu", "4"];

fn conf(locks: bool) -> String {
    let plugin = if locks { ", {name: node_reservation}" } else { "" };
    format!(
        "actions: \"enqueue, allocate, reclaim, backfill\"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: capacity, enableHierarchy: true}}, {{name: nodeorder}}{plugin}]
"
    )
}

fn queue(name: &str, guarantee: &str) -> String {
    format!(
        "apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}}}
spec: {{guarantee: {{{guarantee}}}}}
"
    )
}

fn status(server: &Server, queue: &str) -> Value {
    let text = server.kubectl(&["get", "queue", queue, "-o", "json"]);
    let mut queue: Value = serde_json::from_str(&text).expect("JSON");
    queue["status"].take()
}

fn locked(server: &Server, queue: &str) -> usize {
    let status = status(server, queue);
    status["reservation"]["nodes"].as_array().map_or(0, Vec::len)
}

/// The reason of the condition, once it is one of these.
fn wait_reason(server: &Server, queue: &str, reason: &str) {
    eventually(&format!("{queue} has the reason {reason}"), PATIENCE, || {
        let status = status(server, queue);
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions = conditions.iter().filter(|found| found["type"] == "ReservationMet");
        conditions.any(|found| found["reason"] == reason).then_some(())
    });
}

fn wait_locked(server: &Server, queue: &str, count: usize) {
    eventually(&format!("{count} nodes are locked for {queue}"), PATIENCE, || {
        (locked(server, queue) == count).then_some(())
    });
}

#[test]
fn locks_go_and_come_with_the_plugin() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("scheduler.conf");
    std::fs::write(&file, conf(true)).expect("a configuration");
    let mut flags = NODES.to_vec();
    flags.extend(["--conf", file.to_str().expect("a path of text")]);
    let server = Server::start(&folder.path().join("data"), &flags);
    apply(&server, &queue("team", "percentage: {dimensions: [cpu], value: 0.5}"));
    wait_locked(&server, "team", 2);
    apply(&server, &job_in("default", "wide", (16, 16), "1", ""));
    eventually("the job is told why it waits", PATIENCE, || {
        let reasons = server.kubectl(&["get", "podgroups", "-o", "jsonpath={.items[*].status.reasons}"]);
        (!reasons.is_empty()).then_some(())
    });
    assert!(!is_running(&server, "wide"));
    std::fs::write(&file, conf(false)).expect("a configuration");
    eventually("without locks the job runs", PATIENCE, || {
        is_running(&server, "wide").then_some(())
    });
    wait_locked(&server, "team", 0);
    assert!(status(&server, "team")["reservation"].is_null());
    std::fs::write(&file, conf(true)).expect("a configuration");
    wait_locked(&server, "team", 2);
    wait_reason(&server, "team", "WaitingForPods");
    assert!(is_running(&server, "wide"), "nobody was evicted");
    server.audit(true);
}

#[test]
fn a_budget_blocks_a_guaranteed_reservation_and_that_is_said() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &NODES);
    apply(&server, &job_in("default", "safe", (16, 1), "1", ""));
    eventually("the cluster is full", PATIENCE, || {
        let running = server.kubectl(&["get", "vcjob", "safe", "-o", "jsonpath={.status.running}"]);
        (running == "16").then_some(())
    });
    let budget = "apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: safe}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: safe}}}
";
    apply(&server, budget);
    apply(&server, &queue("sure", "policy: Guaranteed, resource: {cpu: 4}"));
    wait_reason(&server, "sure", "EvictionBlocked");
    assert_eq!(
        server.kubectl(&["get", "vcjob", "safe", "-o", "jsonpath={.status.running}"]),
        "16"
    );
    server.kubectl(&["delete", "pdb", "safe"]);
    wait_reason(&server, "sure", "Met");
    apply(&server, &job_in("sure", "mine", (4, 4), "1", ""));
    eventually("the owner runs", PATIENCE, || is_running(&server, "mine").then_some(()));
    server.audit(true);
}

#[test]
fn locks_outlive_the_server() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = Server::start(folder.path(), &NODES);
    apply(&server, &queue("team", "resource: {cpu: 8}"));
    wait_locked(&server, "team", 2);
    let before = status(&server, "team")["reservation"]["nodes"].clone();
    server.kill();
    let server = Server::start(folder.path(), &NODES);
    apply(&server, &job_in("default", "flood", (16, 1), "1", ""));
    eventually("eight pods run", PATIENCE, || {
        let running = server.kubectl(&["get", "vcjob", "flood", "-o", "jsonpath={.status.running}"]);
        (running == "8").then_some(())
    });
    assert_eq!(status(&server, "team")["reservation"]["nodes"], before);
    wait_reason(&server, "team", "Met");
    server.audit(true);
}
