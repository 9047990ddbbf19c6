//! Queues as an administrator steers them: closing and opening a tree, counters, Commands, the order of a deletion, and
//! the controllers outside.

use std::io::BufRead;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::helpers::apply;
use crate::server::{Ends, Server, eventually, kubectl_present};

const PATIENCE: Duration = Duration::from_secs(30);

fn queue(name: &str, parent: &str) -> String {
    format!(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{weight: 1, parent: {parent}}}\n---\n"
    )
}

fn job(name: &str, queue: &str, run_time: &str) -> String {
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  minAvailable: 1
  schedulerName: volcano
  queue: {queue}
  tasks:
  - name: w
    replicas: 1
    template:
      metadata: {{annotations: {{basalt.sh/run-time: {run_time}}}}}
      spec:
        restartPolicy: Never
        containers:
        - {{name: main, image: busybox, resources: {{requests: {{cpu: 100m}}}}}}
---
"
    )
}

fn field(server: &Server, queue: &str, path: &str) -> String {
    server.kubectl(&["get", "queue", queue, "-o", &format!("jsonpath={{{path}}}")])
}

fn states(server: &Server) -> String {
    let path = "jsonpath={range .items[*]}{.metadata.name}={.status.state} {end}";
    server.kubectl(&["get", "queues", "-o", path]).trim().to_owned()
}

fn reach(server: &Server, expected: &str) {
    let mut last = String::new();
    let begun = Instant::now();
    while last != expected {
        assert!(begun.elapsed() < PATIENCE, "{last} is not {expected}");
        last = states(server);
    }
}

fn set_state(server: &Server, queue: &str, state: &str) {
    let patch = format!("{{\"spec\":{{\"state\":\"{state}\"}}}}");
    server.kubectl(&["patch", "queue", queue, "--type=merge", "-p", &patch]);
}

#[test]
fn a_tree_is_closed_opened_and_deleted_in_order() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = Server::start(folder.path(), &["--nodes", "2"]);
    let tree = [queue("a", "root"), queue("b", "a"), queue("c", "b")].concat();
    apply(&server, &(tree + &job("done", "c", "50ms") + &job("runs", "c", "10m")));
    eventually("the counters", PATIENCE, || {
        let counters = field(&server, "c", ".status.running") + &field(&server, "c", ".status.completed");
        (counters == "11").then_some(())
    });
    set_state(&server, "a", "Closed");
    reach(&server, "a=Closing b=Closing c=Closing default=Open root=Open");
    eventually("the note of who closed it", PATIENCE, || {
        let noted = field(&server, "c", ".metadata.annotations");
        noted.contains("closed-by-parent").then_some(())
    });
    assert_eq!(field(&server, "c", ".spec.state"), "Open", "no child's spec is written");
    // What somebody writes into the status does not last.
    let raw = "{\"status\":{\"state\":\"Closed\",\"running\":7}}";
    server.kubectl(&["patch", "queue", "c", "--subresource=status", "--type=merge", "-p", raw]);
    reach(&server, "a=Closing b=Closing c=Closing default=Open root=Open");
    set_state(&server, "a", "Open");
    reach(&server, "a=Open b=Open c=Open default=Open root=Open");

    set_state(&server, "a", "Closed");
    server.kubectl(&["delete", "vcjob", "runs"]);
    reach(&server, "a=Closed b=Closed c=Closed default=Open root=Open");
    // A crash before the deletion: everything is decided from what is stored.
    server.kill();
    let server = Server::start(folder.path(), &[]);
    assert_eq!(states(&server), "a=Closed b=Closed c=Closed default=Open root=Open");
    server.kubectl(&["delete", "queue", "a", "--timeout=30s"]);
    reach(&server, "default=Open root=Open");
    let left = server.kubectl(&["get", "vcjob,pg", "-o", "name"]);
    assert_eq!(left, "", "the finished job went with its queue");
    let refused = server.kubectl_raw(&["delete", "queue", "default"]);
    assert!(!refused.status.success());
}

fn command(action: &str, queue: &str, uid: &str) -> String {
    format!(
        "apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {{name: steer}}
action: {action}
target: {{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, name: {queue}, uid: {uid}, controller: true}}
"
    )
}

#[test]
fn commands_take_effect_once_and_go() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &[]);
    apply(&server, &queue("q", "root"));
    let uid = field(&server, "q", ".metadata.uid");
    for (action, state) in [("CloseQueue", "Closed"), ("OpenQueue", "Open")] {
        apply(&server, &command(action, "q", &uid));
        reach(&server, &format!("default=Open q={state} root=Open"));
        assert_eq!(field(&server, "q", ".spec.state"), state);
        eventually("the Command is gone", PATIENCE, || {
            server
                .kubectl(&["get", "commands", "-o", "name"])
                .is_empty()
                .then_some(())
        });
    }
}

#[test]
fn controllers_outside_serve_the_cluster() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--nodes", "2", "--no-controllers"]);
    apply(&server, &(queue("q", "root") + &job("runs", "q", "10m")));
    assert_eq!(field(&server, "q", ".status.state"), "", "nobody looks at it yet");
    let child = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .args(["controllers", "--metrics-listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(server.kubeconfig())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the controllers start");
    let mut outside = Ends(child);
    let stdout = outside.0.stdout.take().expect("stdout is piped");
    let mut first = String::new();
    std::io::BufReader::new(stdout).read_line(&mut first).expect("a line");
    assert!(
        first.starts_with("basalt controllers: health and metrics at http://"),
        "{first}"
    );
    eventually("the job runs and is counted", PATIENCE, || {
        (field(&server, "q", ".status.running") == "1").then_some(())
    });
    set_state(&server, "q", "Closed");
    reach(&server, "default=Open q=Closing root=Open");
    server.kubectl(&["delete", "vcjob", "runs"]);
    reach(&server, "default=Open q=Closed root=Open");
    server.kubectl(&["delete", "queue", "q", "--timeout=30s"]);
    reach(&server, "default=Open root=Open");
}
