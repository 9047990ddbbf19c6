//! `basalt plan` as a command: files in, a plan or an error out, exit codes.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: '4', pods: '10'}}\n";
const CONF: &str = "actions: enqueue, allocate, backfill\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n";

fn job(name: &str, pods: usize) -> String {
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: {name}, uid: {name}}}\nspec:\n  minAvailable: {pods}\n  tasks:\n  \
         - {{name: w, replicas: {pods}, template: {{spec: {{containers: [{{name: m, image: x, resources: {{requests: {{cpu: '1'}}}}}}]}}}}}}\n"
    )
}

/// Runs the command in a folder, with something on stdin.
fn run(folder: &Path, arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .current_dir(folder)
        .arg("plan")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().expect("stdin is piped");
    // A command that refuses its arguments does not wait for its input.
    let _ = pipe.write_all(stdin.as_bytes());
    drop(pipe);
    child.wait_with_output().expect("it ends")
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("a file");
    write("conf", CONF);
    write("cluster.yaml", NODE);
    write("jobs.yaml", &format!("{}---\n{}", job("first", 3), job("second", 2)));
    write("bad.yaml", &format!("{NODE}---\n{}", NODE.replace("'4'", "four")));
    write(
        "later.conf",
        &CONF.replace("{name: gang}", "{name: gang}, {name: numa-aware}"),
    );
    write("strange.conf", "actions: allocate\nteirs: []\n");
    std::fs::create_dir(folder.path().join("all")).expect("a folder");
    write("all/1.yaml", NODE);
    write("all/2.yaml", &job("first", 3));
    folder
}

#[test]
fn json_is_the_documented_document() {
    let folder = folder();
    let arguments = ["-f", "cluster.yaml", "-f", "jobs.yaml", "--conf", "conf", "-o", "json"];
    let output = run(folder.path(), &arguments, "");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let expected = json!({
        "binds": {"default/first-w-0": "n1", "default/first-w-1": "n1", "default/first-w-2": "n1"},
        "evicted": [],
        "pipelined": {},
        "podGroups": {
            "default/first-first": {"phase": "Inqueue", "reasons": []},
            "default/second-second": {"phase": "Inqueue", "reasons": [
                {"code": "NotEnoughResources", "dimension": "pods", "have": "1", "need": "2"},
                {"code": "NotEnoughResources", "dimension": "cpu", "have": "0", "need": "1", "nodes": {"not enough cpu": 1}},
            ]},
        },
        "queues": {
            "default": {"allocated": {"cpu": "3", "pods": "3"}, "deserved": {}, "share": 0.0},
            "root": {"allocated": {"cpu": "3", "pods": "3"}, "deserved": {}, "share": 0.0},
        },
    });
    assert_eq!(seen, expected);
    assert_eq!(
        output.stdout,
        run(folder.path(), &arguments, "").stdout,
        "the same bytes again"
    );
}

#[test]
fn many_forms_of_input_lead_to_the_same_plan() {
    let folder = folder();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "pods": "10"}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone"}, "spec": {"schedulerName": "volcano", "containers": [
            {"name": "m", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}},
    ]});
    let pods = |arguments: &[&str], stdin: &str| {
        let output = run(folder.path(), arguments, stdin);
        let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        seen["binds"]
            .as_object()
            .expect("a mapping")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let first = ["default/first-w-0", "default/first-w-1", "default/first-w-2"];
    assert_eq!(pods(&["-f", "all", "--conf", "conf", "-o", "json"], ""), first);
    let stream = format!("{NODE}---\n{}", job("first", 3));
    assert_eq!(pods(&["-f", "-", "--conf", "conf", "-o", "json"], &stream), first);
    assert_eq!(pods(&["-f", "-", "-o", "json"], &list.to_string()), ["default/lone"]);
    // What ran in the first cycle leaves no room in the second.
    let more = [
        "-f",
        "cluster.yaml",
        "-f",
        "jobs.yaml",
        "--conf",
        "conf",
        "--cycles",
        "5",
        "-o",
        "json",
    ];
    assert_eq!(pods(&more, ""), first);
}

/// A dump of a cluster has a Job and what its controller made of it.
#[test]
fn what_the_input_has_of_a_job_is_not_made_anew() {
    let folder = folder();
    let running = "apiVersion: v1\nkind: Pod\nmetadata: {name: first-w-0, annotations: {scheduling.k8s.io/group-name: first-first, volcano.sh/task-spec: w}}\n\
         spec: {schedulerName: volcano, nodeName: n1, containers: [{name: m, image: x, resources: {requests: {cpu: '1'}}}]}\n\
         status: {phase: Running}\n";
    let group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: first-first}\n\
         spec: {minMember: 9, queue: default}\nstatus: {phase: Inqueue}\n";
    let check = |stdin: &str, binds: &[&str]| {
        let output = run(folder.path(), &["-f", "-", "--conf", "conf", "-o", "json"], stdin);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let bound = seen["binds"].as_object().expect("a mapping").keys();
        assert_eq!(bound.collect::<Vec<_>>(), binds, "{stdin}");
    };
    let job = job("first", 3);
    let rest = ["default/first-w-1", "default/first-w-2"];
    check(&format!("{NODE}---\n{job}---\n{running}"), &rest);
    check(&format!("{NODE}---\n{group}---\n{running}---\n{job}"), &[]);
}

#[test]
fn errors_say_where_and_what() {
    let folder = folder();
    for (arguments, code, part) in [
        (&["-f", "cluster.yaml", "-f", "jobs.yaml"][..], 0, ""),
        (
            &["-f", "bad.yaml"][..],
            1,
            "bad.yaml, document 2: Node \"n1\", field status.allocatable.cpu:",
        ),
        (&["-f", "none.yaml"][..], 1, "cannot read none.yaml"),
        (&["-f", "cluster.yaml", "--conf", "none"][..], 1, "cannot read none"),
        (
            &["-f", "cluster.yaml", "--conf", "strange.conf"][..],
            1,
            "strange.conf: unknown key \"teirs\" is ignored, did you mean \"tiers\"?",
        ),
        (
            &["-f", "cluster.yaml", "--conf", "later.conf"][..],
            0,
            "note: plugin \"numa-aware\" is not supported yet and is skipped",
        ),
        (&[][..], 2, "--filename"),
        (&["-f", "cluster.yaml", "-o", "xml"][..], 2, "table, json"),
        (&["-f", "cluster.yaml", "--scenario", "x"][..], 2, "cannot be used with"),
    ] {
        let output = run(folder.path(), arguments, "");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
    }
    let table = run(
        folder.path(),
        &["-f", "cluster.yaml", "-f", "jobs.yaml", "--conf", "conf"],
        "",
    );
    let table = String::from_utf8_lossy(&table.stdout);
    assert!(
        table.contains("needs 2 pods, has 1") && table.contains("default/first-w-0"),
        "{table}"
    );
}

#[test]
fn scenarios_end_in_three_ways() {
    let folder = folder();
    let scenario = |name: &str, plugin: &str, count: usize| {
        let text = format!(
            "conf: {{actions: allocate, tiers: [{{plugins: [{{name: {plugin}}}]}}]}}\nobjects: []\nexpect: {{bindCount: {count}}}\n"
        );
        std::fs::write(folder.path().join(name), text).expect("a file");
    };
    std::fs::create_dir(folder.path().join("area")).expect("a folder");
    scenario("area/1-good.yaml", "gang", 0);
    scenario("area/2-bad.yaml", "gang", 1);
    scenario("area/3-far.yaml", "numa-aware", 0);
    let list = |rows: &str| std::fs::write(folder.path().join("D.md"), rows).expect("a file");
    list("| `area/2` | on purpose |\n");
    for (arguments, code, part) in [
        (&["area/1-good.yaml"][..], 0, "1 passed, 0 failed, 0 not supported"),
        (
            &["area/1-good.yaml", "area/3-far.yaml"][..],
            3,
            "1 passed, 0 failed, 1 not supported",
        ),
        (&["area"][..], 1, "1 passed, 1 failed, 1 not supported"),
        (
            &["area", "--departures", "D.md"][..],
            3,
            "1 passed, 0 failed, 1 not supported, 1 departures",
        ),
        (&["none"][..], 1, ""),
    ] {
        let output = run(folder.path(), &[&["--scenario"], arguments].concat(), "");
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
    list("| `area/1` | no longer |\n");
    let output = run(
        folder.path(),
        &["--scenario", "area/1-good.yaml", "--departures", "D.md"],
        "",
    );
    assert_eq!(output.status.code(), Some(1), "a departure that passes is none");
    let output = run(folder.path(), &["--scenario", "area", "-o", "json"], "");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&report["passed"], &report["failed"], &report["notSupported"]),
        (&json!(1), &json!(1), &json!(1))
    );
}
