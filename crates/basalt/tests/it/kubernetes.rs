//! What only a real cluster can do: its parts, and ours, break while jobs come and go.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::helpers::{apply, is_running, job};
use crate::server::{Manager, Server, eventually, on_kubernetes};

const PATIENCE: Duration = Duration::from_mins(2);
/// The lease of a leader.
const LEASE: Duration = Duration::from_secs(15);

/// What a follower may need beyond the lease; and what it takes kubectl to see it on a busy machine.
const BEYOND: Duration = Duration::from_secs(2 + 5);

/// A cluster with nodes for `pods` pods of one core, if the suite runs on Kubernetes.
fn cluster_for(folder: &std::path::Path, pods: usize) -> Option<Server> {
    if !on_kubernetes() {
        eprintln!("NOT RUN: this case needs Kubernetes, `cargo xtask kube-test` has it");
        return None;
    }
    let nodes = pods.div_ceil(64).max(3).to_string();
    Some(Server::start(
        folder,
        &["--nodes", &nodes, "--node-cpu", "64", "--node-memory", "256Gi"],
    ))
}

fn reach_running(server: &Server, name: &str) {
    eventually(&format!("{name} runs"), PATIENCE, || {
        is_running(server, name).then_some(())
    });
}

/// How many pods are bound.
fn bound(server: &Server) -> usize {
    let nodes = server.kubectl_raw(&["get", "pods", "-o", "jsonpath={range .items[*]}{.spec.nodeName}\n{end}"]);
    let text = String::from_utf8_lossy(&nodes.stdout).into_owned();
    text.lines().filter(|line| !line.is_empty()).count()
}

/// A leader, and beside it a standby and one that serves only admission, as a Service of several replicas would.
fn with_standby(server: &mut Server) -> (Manager, Manager) {
    let guard = server
        .cluster()
        .start_manager("webhook", &["--no-scheduler", "--no-controllers"]);
    assert_eq!(server.stop(), Some(0), "SIGTERM is a clean end");
    let cluster = server.cluster();
    cluster.manager = Some(cluster.start_manager("leader", &["--no-webhook"]));
    cluster.await_leader();
    cluster.await_admission();
    let standby = cluster.start_manager("standby", &["--no-webhook"]);
    (guard, standby)
}

#[test]
fn a_standby_goes_on_when_the_leader_is_killed() {
    let pods = std::env::var("BASALT_FAILOVER_PODS").map_or(600, |text| text.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mut server) = cluster_for(folder.path(), pods) else {
        return;
    };
    let (_guard, standby) = with_standby(&mut server);
    let manifests: Vec<String> = (0..pods / 20)
        .map(|gang| job(&format!("gang-{gang}"), 20, "1", ""))
        .collect();
    let leader = server.cluster().manager.take();
    let (killed, before) = std::thread::scope(|scope| {
        let (server, manifests) = (&server, &manifests);
        scope.spawn(move || apply(server, &manifests.join("---\n")));
        eventually("some pods are bound", PATIENCE, || {
            (bound(server) >= pods / 10).then_some(())
        });
        drop(leader);
        (Instant::now(), bound(server))
    });
    assert!(
        before < pods,
        "all {pods} pods were bound before the leader could be killed"
    );
    let again = eventually("the standby binds", PATIENCE, || {
        (bound(&server) > before).then(|| killed.elapsed())
    });
    println!("{before} of {pods} pods were bound by the leader; the standby went on after {again:.2?}");
    assert!(again < LEASE + BEYOND, "the standby took {again:?}");
    eventually("all pods are bound", PATIENCE, || {
        (bound(&server) == pods).then_some(())
    });
    server.cluster().manager = Some(standby);
    server.audit(true);
}

#[test]
fn a_leader_that_is_told_to_stop_hands_over_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mut server) = cluster_for(folder.path(), 100) else {
        return;
    };
    let (_guard, standby) = with_standby(&mut server);
    assert_eq!(server.stop(), Some(0), "SIGTERM is a clean end");
    server.cluster().manager = Some(standby);
    let begun = Instant::now();
    apply(&server, &job("after", 4, "1", ""));
    reach_running(&server, "after");
    assert!(begun.elapsed() < LEASE, "nobody had to wait for the lease to end");
    server.audit(true);
}

#[test]
fn the_api_server_restarts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mut server) = cluster_for(folder.path(), 100) else {
        return;
    };
    apply(&server, &job("before", 4, "1", ""));
    reach_running(&server, "before");
    for round in 0..3 {
        server.cluster().signal("kube-apiserver", "KILL");
        eventually("the API server is back", PATIENCE, || {
            let answer = server.kubectl_raw(&["get", "--raw", "/readyz"]);
            answer.status.success().then_some(())
        });
        let name = format!("after-{round}");
        apply(&server, &job(&name, 4, "1", ""));
        reach_running(&server, &name);
    }
    assert!(is_running(&server, "before"));
    server.audit(true);
}

#[test]
fn etcd_stands_still_for_a_while() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mut server) = cluster_for(folder.path(), 100) else {
        return;
    };
    apply(&server, &job("before", 4, "1", ""));
    server.cluster().signal("etcd", "STOP");
    // Longer than a request may take, shorter than a lease: whoever gives up must begin again.
    std::thread::sleep(Duration::from_secs(8));
    server.cluster().signal("etcd", "CONT");
    eventually("the API server answers", PATIENCE, || {
        let answer = server.kubectl_raw(&["get", "queues"]);
        answer.status.success().then_some(())
    });
    reach_running(&server, "before");
    apply(&server, &job("after", 4, "1", ""));
    reach_running(&server, "after");
    server.audit(true);
}

#[test]
fn a_storm_of_news_delays_nobody() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(server) = cluster_for(folder.path(), 100) else {
        return;
    };
    apply(&server, &job("busy", 40, "1", ""));
    reach_running(&server, "busy");
    let (over, calm) = (AtomicBool::new(false), &server);
    std::thread::scope(|scope| {
        for kind in ["pods", "nodes"] {
            let over = &over;
            scope.spawn(move || {
                let mut turn = 0_u64;
                while !over.load(Ordering::Relaxed) {
                    turn += 1;
                    let label = format!("storm={turn}");
                    let answer = calm.kubectl_raw(&["label", kind, "--all", "--overwrite", &label]);
                    assert!(answer.status.success(), "{answer:?}");
                }
            });
        }
        for round in 0..5 {
            let name = format!("calm-{round}");
            apply(&server, &job(&name, 4, "1", ""));
            reach_running(&server, &name);
        }
        over.store(true, Ordering::Relaxed);
    });
    server.audit(true);
}

#[test]
fn the_webhook_restarts_and_guards_our_kinds_alone_meanwhile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mut server) = cluster_for(folder.path(), 100) else {
        return;
    };
    let bad = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: bad}\nspec: {weight: 1, parent: nowhere}\n";
    let file = server.data.join("bad.yaml");
    std::fs::write(&file, bad).expect("a manifest");
    let file = file.to_str().expect("a path of text").to_owned();
    let refusal = |server: &Server| {
        let answer = server.kubectl_raw(&["apply", "-f", &file]);
        assert!(!answer.status.success(), "a bad queue was let in");
        String::from_utf8_lossy(&answer.stderr).into_owned()
    };
    assert!(refusal(&server).contains("nowhere"), "the webhook says why");
    drop(server.cluster().manager.take());
    assert!(!refusal(&server).contains("nowhere"), "nobody is there to say why");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: foreign}\nspec: {containers: [{name: c, image: i}]}\n";
    apply(&server, pod);
    let manager = server.cluster().start_manager("manager", &[]);
    server.cluster().manager = Some(manager);
    eventually("the webhook says why again", PATIENCE, || {
        refusal(&server).contains("nowhere").then_some(())
    });
    apply(&server, &job("after", 4, "1", ""));
    reach_running(&server, "after");
    server.audit(true);
}

#[test]
fn nothing_hangs_when_the_system_is_gone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(mut server) = cluster_for(folder.path(), 100) else {
        return;
    };
    let queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: team}\nspec: {weight: 1}\n";
    apply(&server, queue);
    apply(&server, &job("before", 4, "1", ""));
    reach_running(&server, "before");
    eventually("the queue has its finalizer", PATIENCE, || {
        let finalizers = server.kubectl(&["get", "queue", "team", "-o", "jsonpath={.metadata.finalizers}"]);
        finalizers.contains("basalt.sh/queue").then_some(())
    });
    assert_eq!(server.stop(), Some(0), "SIGTERM is a clean end");
    let done = server.cluster().uninstall();
    assert!(done.status.success(), "{done:?}");
    for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        let left = server.kubectl(&["get", kind, "-o", "name"]);
        assert!(!left.contains("basalt"), "{left}");
    }
    let left = server.kubectl(&["get", "secrets", "-n", "basalt-system", "-o", "name"]);
    assert!(!left.contains("basalt-webhook-tls"), "{left}");
    // Who wants to can go on with these objects, or remove them: nobody has to be asked.
    server.kubectl(&["delete", "queue", "team", "--timeout=30s"]);
    server.kubectl(&["get", "vcjob", "before"]);
    server.kubectl(&["delete", "vcjob", "before", "--timeout=30s"]);
    let again = server.cluster().uninstall();
    assert!(again.status.success(), "it can be repeated: {again:?}");
}
