//! Several managers beside one API server: one leads, the others stand by, and the lead changes hands.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::helpers::{apply, is_running, job};
use crate::server::{Ends, Server, child, eventually, http_get, kubectl_present};

const PATIENCE: Duration = Duration::from_mins(1);
const LEASE: Duration = Duration::from_secs(4);
/// What a follower may need beyond the lease.
const BEYOND: Duration = Duration::from_secs(2);
const TIMES: [&str; 3] = [
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=500ms",
];

/// A manager without a webhook: `basalt up` has its own admission.
struct Manager {
    process: Ends,
    address: String,
}

fn command(server: &Server) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_basalt"));
    command
        .args([
            "manager",
            "--no-webhook",
            "--metrics-listen",
            "127.0.0.1:0",
            "--kubeconfig",
        ])
        .arg(server.kubeconfig())
        .args(TIMES);
    command
}

impl Manager {
    /// Starts one, and waits until it is ready to lead or to stand by.
    fn start(server: &Server) -> Self {
        let mut child = command(server)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the manager starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut first = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut first).expect("a line");
        let manager = Self {
            process: Ends(child),
            address: first.trim().rsplit('/').next().expect("an address").to_owned(),
        };
        eventually("the manager is ready", PATIENCE, || {
            http_get(&manager.address, "/readyz").contains(" 200 ").then_some(())
        });
        manager
    }

    /// Whether it leads in both.
    fn leads(&self) -> bool {
        let metrics = http_get(&self.address, "/metrics");
        ["volcano", "vc-controller-manager"]
            .iter()
            .all(|lease| metrics.contains(&format!("basalt_leader{{lease=\"{lease}\"}} 1")))
    }

    fn reach_lead(&self) {
        eventually("it leads", PATIENCE, || self.leads().then_some(()));
    }
}

fn reach_running(server: &Server, name: &str) {
    eventually(&format!("{name} runs"), PATIENCE, || {
        is_running(server, name).then_some(())
    });
}

fn alone(folder: &std::path::Path) -> Server {
    Server::start(folder, &["--nodes", "3", "--no-scheduler", "--no-controllers"])
}

#[test]
fn the_lead_changes_hands() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = alone(folder.path());
    let first = Manager::start(&server);
    first.reach_lead();
    let second = Manager::start(&server);
    apply(&server, &job("one", 4, "1", ""));
    reach_running(&server, "one");
    assert!(first.leads() && !second.leads());

    drop(first); // kill -9
    let killed = Instant::now();
    apply(&server, &job("two", 4, "1", ""));
    reach_running(&server, "two");
    let took = killed.elapsed();
    assert!(took < LEASE + BEYOND, "the standby went on after {took:?}");
    assert!(second.leads());

    let third = Manager::start(&server);
    let mut second = second;
    assert_eq!(child::stop(&mut second.process.0), Some(0), "SIGTERM is a clean end");
    let stopped = Instant::now();
    apply(&server, &job("three", 4, "1", ""));
    reach_running(&server, "three");
    let took = stopped.elapsed();
    assert!(took < LEASE / 2, "nobody waits for a lease that was given up: {took:?}");
    assert!(third.leads());
    server.audit(true);
}

#[test]
fn a_leader_that_was_frozen_writes_no_more_and_stands_by() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = alone(folder.path());
    let frozen = Manager::start(&server);
    frozen.reach_lead();
    let standby = Manager::start(&server);
    child::signal(frozen.process.0.id(), "STOP");
    standby.reach_lead();
    apply(&server, &job("one", 4, "1", ""));
    reach_running(&server, "one");
    child::signal(frozen.process.0.id(), "CONT");
    eventually("it is ready to stand by", PATIENCE, || {
        http_get(&frozen.address, "/readyz").contains(" 200 ").then_some(())
    });
    assert!(!frozen.leads() && standby.leads());
    // It has not ended, and it can lead again.
    drop(standby);
    frozen.reach_lead();
    apply(&server, &job("two", 4, "1", ""));
    reach_running(&server, "two");
    server.audit(true);
}

#[test]
fn nothing_starts_beside_a_live_volcano() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = alone(folder.path());
    server.kubectl(&["create", "namespace", "volcano-system"]);
    let lease = |renewed: u32| {
        let lease = format!(
            "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {{name: volcano, namespace: volcano-system}}\n\
             spec: {{holderIdentity: vc-0_1, leaseDurationSeconds: 5, leaseTransitions: {renewed}}}\n"
        );
        apply(&server, &lease);
    };
    lease(0);
    let mut child = command(&server)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the manager starts");
    let mut renewed = 0;
    let status = eventually("it refuses", PATIENCE, || {
        renewed += 1;
        lease(renewed);
        child.try_wait().expect("a child")
    });
    assert_eq!(status.code(), Some(1));
    let mut words = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().expect("stderr is piped"), &mut words).expect("text");
    assert!(
        words.contains("vc-0_1 holds the Lease volcano-system/volcano"),
        "{words}"
    );

    // A Volcano that does not renew its lease any more is followed.
    let follower = Manager::start(&server);
    follower.reach_lead();
    apply(&server, &job("one", 4, "1", ""));
    reach_running(&server, "one");
    server.audit(true);
}

#[test]
fn what_is_logged_can_be_changed() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = alone(folder.path());
    let manager = Manager::start(&server);
    let put = |filter: &str| {
        let answer = Command::new("curl")
            .args([
                "-sS",
                "-X",
                "PUT",
                "-d",
                filter,
                &format!("http://{}/log", manager.address),
            ])
            .output()
            .expect("curl runs");
        String::from_utf8_lossy(&answer.stdout).into_owned()
    };
    assert!(http_get(&manager.address, "/log").ends_with("warn\n"));
    assert_eq!(put("info,basalt=debug"), "info,basalt=debug\n");
    assert!(put("[").contains("is not a level or a filter"));
    assert!(http_get(&manager.address, "/log").ends_with("info,basalt=debug\n"));
}
