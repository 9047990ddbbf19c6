//! The thin path: a Volcano Job becomes a PodGroup and pods, its gang is placed as a whole, runs, ends, and leaves.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use crate::server::{Server, eventually, example, kubectl_present};

const PATIENCE: Duration = Duration::from_secs(30);

fn bound(server: &Server, job: &str) -> Vec<String> {
    let selector = format!("volcano.sh/job-name={job}");
    let out = server.kubectl(&[
        "get",
        "pods",
        "-l",
        &selector,
        "-o",
        "jsonpath={range .items[*]}{.spec.nodeName}{\"\\n\"}{end}",
    ]);
    out.lines().map(str::to_owned).collect()
}

fn phase(server: &Server, job: &str) -> String {
    server.kubectl(&["get", "vcjob", job, "-o", "jsonpath={.status.state.phase}"])
}

#[test]
fn a_gang_runs_completes_and_leaves_no_trace() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = Server::start(folder.path(), &["--nodes", "3"]);
    let manifest = example("gang.yaml");
    assert_eq!(
        server.kubectl(&["apply", "-f", &manifest]),
        "job.batch.volcano.sh/gang created\n"
    );
    assert_eq!(
        server.kubectl(&["apply", "-f", &manifest]),
        "job.batch.volcano.sh/gang unchanged\n"
    );
    server.kubectl(&[
        "wait",
        "--for=jsonpath={.status.state.phase}=Running",
        "vcjob/gang",
        "--timeout=10s",
    ]);
    let nodes = bound(&server, "gang");
    assert_eq!(nodes.iter().filter(|node| !node.is_empty()).count(), 8, "{nodes:?}");
    let listed = vcctl(&server, &["job", "list"]);
    assert!(listed.contains("gang") && listed.contains("Running"), "{listed}");
    server.kubectl(&[
        "wait",
        "--for=jsonpath={.status.state.phase}=Completed",
        "vcjob/gang",
        "--timeout=30s",
    ]);
    server.kubectl(&["delete", "vcjob", "gang"]);
    eventually("nothing is left of the job", PATIENCE, || {
        let left = server.kubectl(&["get", "vcjob,pg,pods", "-o", "name"]);
        left.is_empty().then_some(())
    });
    server.audit(true);
    assert_eq!(server.stop(), Some(0), "SIGTERM is a clean end");
}

#[test]
fn a_gang_that_does_not_fit_waits_as_a_whole_and_says_why() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--nodes", "2", "--node-cpu", "4"]);
    server.kubectl(&["apply", "-f", &example("gang-too-big.yaml")]);
    let reasons = eventually("a reason on the PodGroup", PATIENCE, || {
        let text = server.kubectl(&["get", "pg", "-o", "jsonpath={.items[*].status.reasons}"]);
        (!text.is_empty()).then_some(text)
    });
    assert!(reasons.contains("cpu"), "{reasons}");
    assert!(bound(&server, "gang-too-big").iter().all(String::is_empty));
    assert_eq!(phase(&server, "gang-too-big"), "Pending");
    server.audit(true);
}

#[test]
fn a_second_start_goes_on_where_the_first_ended() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = Server::start(folder.path(), &["--nodes", "3"]);
    vcctl(&server, &["queue", "create", "--name", "research", "--weight", "3"]);
    vcctl(
        &server,
        &[
            "job",
            "run",
            "-N",
            "long",
            "--replicas",
            "4",
            "--min",
            "4",
            "-q",
            "research",
        ],
    );
    server.kubectl(&[
        "wait",
        "--for=jsonpath={.status.state.phase}=Running",
        "vcjob/long",
        "--timeout=10s",
    ]);
    let before = bound(&server, "long");
    server.audit(true);
    server.kill();

    let second = Server::start(folder.path(), &["--nodes", "3"]);
    assert_eq!(bound(&second, "long"), before);
    assert!(vcctl(&second, &["queue", "list"]).contains("research"));
    assert_eq!(phase(&second, "long"), "Running");
    vcctl(&second, &["job", "delete", "-N", "long"]);
    eventually("the pods go with the job", PATIENCE, || {
        bound(&second, "long").is_empty().then_some(())
    });
    second.audit(true);
}

#[test]
fn one_folder_has_one_server_and_foreign_folders_are_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let _first = Server::start(&data, &[]);
    let mode = std::fs::metadata(&data)
        .expect("the folder is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o700, "secrets are in there");
    let text = refused(&data);
    assert!(text.contains("in use") || text.contains("locked"), "{text}");

    let foreign = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(foreign.path().join("thesis.txt"), "do not touch").expect("a file");
    let text = refused(foreign.path());
    assert!(text.contains("is not a Basalt store"), "{text}");
    let left: Vec<_> = std::fs::read_dir(foreign.path())
        .expect("a folder")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["thesis.txt"]);
}

/// Starts a server that must refuse; returns what it said.
fn refused(folder: &std::path::Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .args(["up", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder)
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the real `vcctl` binary; it must succeed.
fn vcctl(server: &Server, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vcctl"))
        .env("KUBECONFIG", server.kubeconfig())
        .args(arguments)
        .output()
        .expect("vcctl runs");
    assert!(output.status.success(), "vcctl {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
