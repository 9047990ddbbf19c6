//! One queue takes back from another what it deserves: real evictions, real budgets.

use std::time::Duration;

use crate::helpers::{apply, is_running, job_in, metric};
use crate::server::{Server, eventually, kubectl_present};

const PATIENCE: Duration = Duration::from_secs(30);
const DONE: &str = "basalt_evictions_total{purpose=\"reclaim\",result=\"done\"}";
const BLOCKED: &str = "basalt_evictions_total{purpose=\"reclaim\",result=\"blocked\"}";

fn queue(name: &str) -> String {
    format!(
        "apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}}}
spec: {{reclaimable: true, deserved: {{cpu: 4}}}}
---
"
    )
}

/// A Job of one-core pods in a queue.
fn job(name: &str, queue: &str, pods: u32, min: u32) -> String {
    job_in(queue, name, (pods, min), "1", "")
}

/// None of these pods may be disrupted.
fn protect(server: &Server, app: &str) {
    let budget = format!(
        "apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {app}}}
spec: {{maxUnavailable: 0, selector: {{matchLabels: {{app: {app}}}}}}}
"
    );
    apply(server, &budget);
}

fn running_pods(server: &Server, app: &str) -> usize {
    let selector = format!("app={app}");
    let out = server.kubectl(&[
        "get",
        "pods",
        "-l",
        &selector,
        "--field-selector=status.phase=Running",
        "-o",
        "name",
    ]);
    out.lines().count()
}

/// Two nodes of four cores, both queues, and borrowers that fill the cluster from queue `a`.
fn full_cluster(folder: &std::path::Path, borrowers: &[(&str, u32)]) -> Server {
    let server = Server::start(folder, &["--nodes", "2", "--node-cpu", "4"]);
    apply(&server, &format!("{}{}", queue("a"), queue("b")));
    for (name, pods) in borrowers {
        apply(&server, &job(name, "a", *pods, 1));
        eventually("the borrowers run", PATIENCE, || {
            (running_pods(&server, name) == *pods as usize).then_some(())
        });
    }
    server
}

fn events(server: &Server) -> String {
    let form = "jsonpath={range .items[*]}{.reason} {.involvedObject.kind} {.message}\n{end}";
    server.kubectl(&["get", "events", "-o", form])
}

#[test]
fn a_queue_gets_back_what_it_deserves() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = full_cluster(folder.path(), &[("borrower", 8)]);
    apply(&server, &job("owner", "b", 3, 3));
    eventually("the owner runs", PATIENCE, || {
        is_running(&server, "owner").then_some(())
    });
    assert_eq!(running_pods(&server, "owner"), 3);
    eventually("the borrower keeps the rest", PATIENCE, || {
        (running_pods(&server, "borrower") == 5).then_some(())
    });
    assert_eq!(
        metric(&server, DONE),
        Some(3.0),
        "no pod more than needed, and none twice"
    );
    let told = eventually("events tell of it", PATIENCE, || {
        let told = events(&server);
        (told.contains("Evict Pod ") && told.contains("Evict PodGroup ")).then_some(told)
    });
    assert!(told.contains("evicted because of reclaim"), "{told}");
    eventually("the queues' numbers follow", PATIENCE, || {
        let form = "jsonpath={.status.allocated.cpu} {.status.deserved.cpu} {.status.share}";
        (server.kubectl(&["get", "queue", "b", "-o", form]) == "3 4 0.750000").then_some(())
    });
    // The borrower's new pods wait, and nobody is evicted for them.
    assert_eq!(metric(&server, DONE), Some(3.0));
    server.audit(true);
}

#[test]
fn a_budget_protects_and_others_go_instead() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = full_cluster(folder.path(), &[("free", 4), ("safe", 4)]);
    protect(&server, "safe");
    apply(&server, &job("owner", "b", 3, 3));
    eventually("the owner runs", PATIENCE, || {
        is_running(&server, "owner").then_some(())
    });
    assert_eq!((running_pods(&server, "owner"), running_pods(&server, "safe")), (3, 4));
    eventually("the others give way", PATIENCE, || {
        (running_pods(&server, "free") == 1).then_some(())
    });
    server.audit(true);
}

#[test]
fn what_a_budget_forbids_is_not_tried_for_ever() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = full_cluster(folder.path(), &[("safe", 8)]);
    protect(&server, "safe");
    apply(&server, &job("owner", "b", 3, 3));
    eventually("the refusal is told", PATIENCE, || {
        let told = events(&server);
        (told.contains("EvictionRefused Pod ") && told.contains("disruption budget")).then_some(())
    });
    // Each pod is asked once; then all are left in peace for a while.
    let asked = eventually("the tries come to an end", PATIENCE, || {
        let before = metric(&server, BLOCKED)?;
        std::thread::sleep(Duration::from_secs(1));
        (metric(&server, BLOCKED) == Some(before)).then_some(before)
    });
    assert!(asked <= 8.0, "{asked} evictions were tried of 8 pods");
    assert_eq!(running_pods(&server, "safe"), 8);
    assert_eq!(metric(&server, DONE), None);
    let disrupted = "jsonpath={.items[*].status.conditions[?(@.type==\"DisruptionTarget\")].status}";
    let conditions = server.kubectl(&["get", "pods", "-l", "app=safe", "-o", disrupted]);
    assert!(!conditions.contains("True"), "{conditions}");
    server.kubectl(&["delete", "pdb", "safe"]);
    eventually("without the budget the owner runs", PATIENCE, || {
        is_running(&server, "owner").then_some(())
    });
    server.audit(true);
}
