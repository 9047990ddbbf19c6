//! The life of jobs from the command line: the real `vcctl`, and links to `basalt`, against a real `basalt up`.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use crate::helpers::job_in;
use crate::server::{Server, eventually};

const PATIENCE: Duration = Duration::from_secs(30);

/// A program with the server's kubeconfig and nothing else of this machine's.
fn run(server: &Server, program: &Path, line: &str) -> Output {
    Command::new(program)
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", &server.data)
        .args(line.split_whitespace())
        .output()
        .expect("the program runs")
}

fn vcctl() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_vcctl"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A line that must go well without a word on stderr; gives stdout.
fn good(server: &Server, line: &str) -> String {
    let output = run(server, vcctl(), line);
    let err = text(&output.stderr);
    assert!(output.status.success() && err.is_empty(), "{line}: {output:?}");
    server.audit(false);
    text(&output.stdout)
}

/// A line that must fail with a status; gives stderr.
fn bad(server: &Server, code: i32, line: &str) -> String {
    let output = run(server, vcctl(), line);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(code), ""),
        "{line}: {output:?}"
    );
    text(&output.stderr)
}

fn json(server: &Server, line: &str) -> Value {
    serde_json::from_str(&good(server, line)).expect("JSON")
}

/// A job that runs until it is stopped: two tasks of small pods.
fn trainer() -> String {
    let task = |name: &str, replicas: u32| {
        format!(
            "  - name: {name}
    replicas: {replicas}
    template:
      spec:
        restartPolicy: Never
        containers:
        - {{name: main, image: busybox, resources: {{requests: {{cpu: 500m}}}}}}
"
        )
    };
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: train, labels: {{team: vision}}}}
spec:
  queue: vision
  minAvailable: 2
  schedulerName: volcano
  tasks:
{}{}",
        task("ps", 1),
        task("worker", 2)
    )
}

/// A tree of two queues, a job that runs, and a job that is too big for the queue above its own.
fn begin(server: &Server) {
    good(server, "queue create ml --capability cpu=8");
    good(server, "queue create vision --parent ml");
    let file = server.data.join("jobs.yaml");
    std::fs::write(&file, trainer() + "---\n" + &job_in("vision", "big", (10, 10), "1", "")).expect("a file");
    let path = file.to_str().expect("a path of text");
    assert_eq!(
        good(server, &format!("job run -f {path} -o name")),
        "job.batch.volcano.sh/train\njob.batch.volcano.sh/big\n"
    );
    assert_eq!(
        good(server, "job wait train --for Running --timeout 30s"),
        "job train is Running\n"
    );
}

#[test]
fn jobs_are_run_shown_explained_scaled_and_deleted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--nodes", "2"]);
    begin(&server);
    explained(&server);
    shown(&server);
    scaled(&server);
    let (code, out) = {
        let output = run(&server, vcctl(), "job delete train big nobody --wait");
        (output.status.code(), text(&output.stdout))
    };
    assert_eq!(code, Some(1), "all are tried, and one is not there");
    assert_eq!(out, "delete job train successfully\ndelete job big successfully\n");
    eventually("the pods go with their jobs", PATIENCE, || {
        good(&server, "pod list -o json")
            .contains("\"items\": []")
            .then_some(())
    });
}

/// The job that is too big says so, with the numbers of the queue above.
fn explained(server: &Server) {
    let data = eventually("the reason why big waits", PATIENCE, || {
        let data = json(server, "job explain big -o json");
        (!data["checks"].as_array().expect("checks").is_empty()).then_some(data)
    });
    let check = &data["checks"][0];
    assert_eq!(
        (
            check["check"].as_str(),
            check["code"].as_str(),
            check["have"].as_str(),
            check["dimension"].as_str()
        ),
        (Some("queue"), Some("AncestorOverCapability"), Some("8"), Some("cpu")),
        "{data}"
    );
    assert_eq!(check["path"], serde_json::json!(["root", "ml"]));
    let told = good(server, "job explain big");
    assert!(
        told.contains("queue root/ml/vision") && told.contains("root/ml capability cpu: would hold "),
        "{told}"
    );
    let running = good(server, "job explain train");
    assert!(running.contains("nothing holds it back"), "{running}");
    let row = good(server, "job list --phase Pending");
    assert!(
        row.contains("big ") && row.contains("AncestorOverCapability") && !row.contains("train "),
        "{row}"
    );
    assert!(bad(server, 1, "job wait big --for Running --timeout 100ms").contains("big is Pending, not Running"));
}

fn shown(server: &Server) {
    eventually("all pods run", PATIENCE, || {
        let row = good(server, "job list -q vision -l team=vision");
        row.contains("train ").then_some(())?;
        (json(server, "job get train -o json")["status"]["running"] == 3).then_some(())
    });
    let page = good(server, "job view train");
    for part in [
        "Phase:        Running",
        "Queue:        vision",
        "worker   2",
        "train-worker-1",
        "Timeline:",
        "Pod group:    train-",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    assert_eq!(good(server, "pod list -j train -o name").lines().count(), 3);
    assert_eq!(
        good(server, "pod list -q vision -A -o name").lines().count(),
        3,
        "big has no pods yet"
    );
    assert!(bad(server, 1, "job view nobody").starts_with("error: job default/nobody not found\n"));
    bad(server, 2, "job view");
    assert!(bad(server, 1, "job run a -q nowhere").contains("nowhere"));
}

fn scaled(server: &Server) {
    let pods = |count: usize| {
        eventually("the pods that were asked for", PATIENCE, || {
            let pods = good(server, "pod list -j train -o name");
            (pods.lines().count() == count).then_some(pods)
        })
    };
    assert_eq!(
        good(server, "job scale train --replicas worker=4 --min-available 3"),
        "scale job train successfully: worker 2 -> 4, min available 2 -> 3\n"
    );
    pods(5);
    good(server, "job scale train --replicas worker=1,ps=1 --min-available 2");
    assert_eq!(pods(2), "pod/train-ps-0\npod/train-worker-0\n");
    let err = bad(server, 1, "job scale train --replicas nobody=1");
    assert!(
        err.contains("it has no task \"nobody\"; its tasks are ps, worker"),
        "{err}"
    );
    let err = bad(server, 1, "job scale train --replicas worker=0,ps=0");
    assert!(
        err.starts_with("error: cannot scale job default/train: "),
        "the server says no: {err}"
    );
}

#[test]
fn small_tools_are_links_to_either_program() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--nodes", "1"]);
    let links = tempfile::tempdir().expect("a temporary folder");
    let basalt = Path::new(env!("CARGO_BIN_EXE_basalt"));
    let made = run(&server, basalt, &format!("vcctl links {}", links.path().display()));
    assert_eq!(
        (made.status.code(), text(&made.stdout).lines().count()),
        (Some(0), 7),
        "{made:?}"
    );
    let tool = |name: &str, line: &str| {
        let output = run(&server, &links.path().join(name), line);
        assert!(output.status.success(), "{name} {line}: {output:?}");
        text(&output.stdout)
    };
    tool("vsub", "-n small -N default -i busybox -- sleep 1000");
    tool("vcctl", "job wait small --for Running --timeout 30s");
    assert!(tool("vjobs", "").contains("small "));
    assert!(tool("vjobs", "-n small").contains("Phase:        Running"));
    assert!(tool("vqueues", "-n default").starts_with("Name:         default\n"));
    assert_eq!(tool("vcancel", "-n small"), "delete job small successfully\n");
    for name in ["vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume", "vcctl"] {
        assert!(tool(name, "--help").contains("Examples:"), "{name}");
    }
    let direct = tempfile::tempdir().expect("a temporary folder");
    good(&server, &format!("links {}", direct.path().display()));
    assert!(run(&server, &direct.path().join("vjobs"), "").status.success());
}
