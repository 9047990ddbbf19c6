//! `kubectl logs` and `kubectl exec` of pods that run as processes of this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::helpers::apply;
use crate::server::{Server, eventually, kubectl_present};

const PATIENCE: Duration = Duration::from_secs(30);

fn pod(name: &str, more: &str, script: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 1
{more}
  containers:
  - name: main
    image: none
    env: [{{name: COLOUR, value: blue}}]
    command: [sh, -c, '{script}']
"
    )
}

fn kubectl(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new("kubectl");
    command
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", &server.data)
        .args(arguments);
    command
}

/// Exit code, stdout, stderr.
fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn logs_and_commands_of_local_pods() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &["--nodes", "1", "--local", "--stop-pods"]);
    let talk = "echo one; echo two >&2; until [ -e go ]; do sleep 0.1; done; echo three; sleep 600";
    let nodes = server.kubectl(&["get", "nodes", "-o=jsonpath={.items[*].metadata.name}"]);
    let here = nodes.split(' ').find(|name| *name != "node-0").expect("this machine");
    let here = format!("  nodeName: {here}");
    apply(&server, &pod("talker", &here, talk));
    apply(&server, &pod("again", &here, "echo run; sleep 0.2; exit 3"));
    apply(&server, &pod("faked", "  nodeName: node-0", "echo never"));
    server.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "pod/talker",
        "pod/faked",
        "--timeout=30s",
    ]);
    logs(&server);
    commands(&server);
    input(&server);
    refusals(&server);
}

fn logs(server: &Server) {
    let both = eventually("two lines", PATIENCE, || {
        let text = server.kubectl(&["logs", "talker"]);
        (text.lines().count() == 2).then_some(text)
    });
    let mut lines: Vec<&str> = both.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "two"]);
    assert_eq!(server.kubectl(&["logs", "talker", "--limit-bytes=2"]).len(), 2);
    let timed = server.kubectl(&["logs", "talker", "-c", "main", "--timestamps"]);
    assert!(
        timed.lines().all(|line| line.starts_with("20") && line.contains("Z ")),
        "{timed}"
    );

    let mut follower = kubectl(server, &["logs", "-f", "talker", "--tail=1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl logs -f starts");
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a line").expect("text");
    assert!(["one", "two"].contains(&first.as_str()), "{first}");
    // The command runs where the container does: it sees the file.
    server.kubectl(&["exec", "talker", "--", "touch", "go"]);
    assert_eq!(lines.next().expect("a line").expect("text"), "three");
    assert_eq!(server.kubectl(&["logs", "talker", "--tail=1"]), "three\n");

    let before = eventually("a run before", PATIENCE, || {
        let output = server.kubectl_raw(&["logs", "again", "--previous"]);
        output.status.success().then(|| told(&output).1)
    });
    assert_eq!(before, "run\n");

    server.kubectl(&["delete", "pod", "again", "--wait=false"]);
    let _ = follower.kill();
    let _ = follower.wait();
}

fn commands(server: &Server) {
    let script = "echo out $COLOUR; echo err >&2; exit 7";
    let output = server.kubectl_raw(&["exec", "talker", "--", "sh", "-c", script]);
    let (code, out, err) = told(&output);
    assert_eq!((code, out.as_str()), (Some(7), "out blue\n"), "{err}");
    assert!(err.starts_with("err\n") && err.contains("exit code 7"), "{err}");
    assert_eq!(server.kubectl(&["exec", "talker", "--", "echo", "a b", "c"]), "a b c\n");
    let killed = server.kubectl_raw(&["exec", "talker", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(told(&killed).0, Some(137), "{killed:?}");
    let missing = server.kubectl_raw(&["exec", "talker", "--", "no-such-program"]);
    assert_eq!(told(&missing).0, Some(127), "{missing:?}");
    let much = server.kubectl_raw(&["exec", "talker", "--", "head", "-c", "3000000", "/dev/zero"]);
    assert_eq!((told(&much).0, much.stdout.len()), (Some(0), 3_000_000));
}

fn input(server: &Server) {
    let mut child = kubectl(
        server,
        &["exec", "-i", "talker", "--", "sh", "-c", "tr a-z A-Z; exit 5"],
    )
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("kubectl exec -i starts");
    let text = "line of text\n".repeat(20_000);
    let mut stdin = child.stdin.take().expect("a pipe");
    let fed = text.clone();
    // It says while it is told: one thread alone would wait for itself.
    let feeding = std::thread::spawn(move || stdin.write_all(fed.as_bytes()));
    let mut said = String::new();
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut said).expect("text");
    feeding.join().expect("no panic").expect("all is taken");
    assert_eq!(said, text.to_uppercase());
    assert_eq!(child.wait().expect("an end").code(), Some(5));

    // A client that goes away takes its command along.
    let mut child = kubectl(server, &["exec", "talker", "--", "sh", "-c", "touch alive; sleep 4242"])
        .spawn()
        .expect("kubectl exec starts");
    eventually("it runs", PATIENCE, || {
        let seen = server.kubectl_raw(&["exec", "talker", "--", "test", "-e", "alive"]);
        seen.status.success().then_some(())
    });
    let sleeping = || {
        let found = Command::new("pgrep")
            .args(["-xf", "sleep 4242"])
            .output()
            .expect("pgrep runs");
        found.status.success()
    };
    assert!(sleeping());
    child.kill().expect("killed");
    child.wait().expect("reaped");
    eventually("its command has ended", PATIENCE, || (!sleeping()).then_some(()));
}

fn refusals(server: &Server) {
    let refused = |arguments: &[&str], expected: &str| {
        let output = server.kubectl_raw(arguments);
        let (code, _, err) = told(&output);
        assert!(code == Some(1) && err.contains(expected), "{arguments:?}: {output:?}");
    };
    refused(&["logs", "faked"], "pod faked runs on a fake node: it has no logs");
    refused(
        &["exec", "faked", "--", "true"],
        "pod faked runs on a fake node: nothing can be run in it",
    );
    refused(
        &["logs", "talker", "-c", "none"],
        "container none is not valid for pod talker",
    );
    refused(
        &["logs", "talker", "--previous"],
        "previous terminated container \"main\" in pod \"talker\" not found",
    );
    refused(&["logs", "nobody"], "pods \"nobody\" not found");
}
