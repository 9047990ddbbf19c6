//! The live scheduler as its users see it: configuration, reasons, events, metrics.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::helpers::{apply, is_running, job, metric};
use crate::server::{Ends, Server, eventually, http_get, kubectl_present};

const PATIENCE: Duration = Duration::from_secs(30);
const PLUGINS: &str = "tiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]}]\n";

fn write_conf(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a configuration is written");
}

#[test]
fn the_configuration_is_read_again_when_it_changes() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    // As a mounted ConfigMap has it: the file is a link into a folder that is swapped as a whole.
    let conf = folder.path().join("conf");
    for (version, text) in [
        ("..1", "actions: enqueue\n"),
        ("..2", "actions: \"enqueue, allocate\"\nactoins: x\n"),
    ] {
        std::fs::create_dir_all(conf.join(version)).expect("a folder");
        write_conf(
            &conf.join(version).join("volcano-scheduler.conf"),
            &format!("{text}{PLUGINS}"),
        );
    }
    std::os::unix::fs::symlink("..1", conf.join("..data")).expect("a link");
    let file = conf.join("volcano-scheduler.conf");
    std::os::unix::fs::symlink("..data/volcano-scheduler.conf", &file).expect("a link");
    let data = folder.path().join("data");
    let server = Server::start(&data, &["--nodes", "2", "--conf", file.to_str().expect("text")]);
    apply(&server, &job("first", 2, "100m", ""));
    eventually("the pods are there, without nodes", PATIENCE, || {
        let pods = server.kubectl(&["get", "pods", "-o", "jsonpath={range .items[*]}{.spec.nodeName}|{end}"]);
        (pods == "||").then_some(())
    });
    assert_eq!(metric(&server, "basalt_conf_good"), Some(1.0));

    std::os::unix::fs::symlink("..2", conf.join("..data_tmp")).expect("a link");
    std::fs::rename(conf.join("..data_tmp"), conf.join("..data")).expect("the links are swapped");
    eventually("allocate is in force", PATIENCE, || {
        is_running(&server, "first").then_some(())
    });
    eventually("one key is not understood", PATIENCE, || {
        (metric(&server, "basalt_conf_warnings") == Some(1.0)).then_some(())
    });

    write_conf(&conf.join("..2").join("volcano-scheduler.conf"), "actions: alocate\n");
    eventually("the bad file is noticed", PATIENCE, || {
        (metric(&server, "basalt_conf_good") == Some(0.0)).then_some(())
    });
    let told = eventually("an event tells of it", PATIENCE, || {
        let events = server.kubectl(&["get", "events", "-o", "jsonpath={.items[*].message}"]);
        events.contains("alocate").then_some(events)
    });
    assert!(told.contains("did you mean \"allocate\"?"), "{told}");
    apply(&server, &job("second", 2, "100m", ""));
    eventually("the former configuration stays in force", PATIENCE, || {
        is_running(&server, "second").then_some(())
    });
    // The same mistake again is the same event, once more.
    let file = conf.join("..2").join("volcano-scheduler.conf");
    for (text, good) in [("actions: allocate\n", 1.0), ("actions: alocate\n", 0.0)] {
        write_conf(&file, text);
        eventually("the file is noticed", PATIENCE, || {
            (metric(&server, "basalt_conf_good") == Some(good)).then_some(())
        });
    }
    eventually("the event counts", PATIENCE, || {
        let path = "jsonpath={.items[?(@.reason==\"BadConfiguration\")].count}";
        let counts = server.kubectl(&["get", "events", "-o", path]);
        counts.split(' ').any(|count| count == "2").then_some(())
    });
    server.audit(true);
}

#[test]
fn a_strict_start_refuses_what_it_does_not_understand() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let conf = folder.path().join("volcano-scheduler.conf");
    write_conf(&conf, &format!("actoins: allocate\n{PLUGINS}"));
    let output = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .args(["up", "--listen", "127.0.0.1:0", "--strict-conf", "--conf"])
        .arg(&conf)
        .arg("--data")
        .arg(folder.path().join("data"))
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("did you mean \"actions\"?"), "{text}");
    assert!(!folder.path().join("data").exists(), "a bad file leaves no trace");
}

#[test]
fn what_waits_says_why_and_what_runs_says_so() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--nodes", "2", "--node-cpu", "4"]);
    apply(&server, &job("nowhere", 2, "1", "tier: special"));
    let condition = |field: &str| format!("jsonpath={{.status.conditions[?(@.type==\"PodScheduled\")].{field}}}");
    let message = eventually("the pod says why it waits", PATIENCE, || {
        let args = [
            "get",
            "pod",
            "nowhere-w-0",
            "--ignore-not-found",
            "-o",
            &condition("message"),
        ];
        let text = server.kubectl(&args);
        (!text.is_empty()).then_some(text)
    });
    assert!(message.contains("2 not selected by the pod"), "{message}");
    for (field, expected) in [("status", "False"), ("reason", "Unschedulable")] {
        assert_eq!(
            server.kubectl(&["get", "pod", "nowhere-w-0", "-o", &condition(field)]),
            expected
        );
    }
    let unschedulable =
        "jsonpath={.items[0].status.conditions[?(@.type==\"Unschedulable\")]['status','reason','message']}";
    let group = server.kubectl(&["get", "pg", "-o", unschedulable]);
    assert!(
        group.starts_with("True NotEnoughResources 2/2 tasks in gang unschedulable: "),
        "{group}"
    );
    let events = eventually("events tell of it", PATIENCE, || {
        let text = server.kubectl(&[
            "get",
            "events",
            "-o",
            "jsonpath={range .items[*]}{.reason} {.involvedObject.kind}\n{end}",
        ]);
        (text.contains("FailedScheduling Pod") && text.contains("Unschedulable PodGroup")).then_some(text)
    });
    assert!(!events.contains("Scheduled PodGroup"), "{events}");

    server.kubectl(&["label", "node", "node-0", "tier=special"]);
    eventually("the job runs once a node fits", PATIENCE, || {
        is_running(&server, "nowhere").then_some(())
    });
    assert_eq!(
        server.kubectl(&["get", "pod", "nowhere-w-0", "-o", &condition("status")]),
        "True"
    );
    let scheduled = "jsonpath={.items[0].status.conditions[?(@.type==\"Scheduled\")].status}";
    assert_eq!(server.kubectl(&["get", "pg", "-o", scheduled]), "True");
    assert_eq!(
        server.kubectl(&["get", "pg", "-o", "jsonpath={.items[0].status.reasons}"]),
        ""
    );
    eventually("events tell of that too", PATIENCE, || {
        let text = server.kubectl(&[
            "get",
            "events",
            "-o",
            "jsonpath={range .items[*]}{.reason} {.message}\n{end}",
        ]);
        let told = text.contains("Scheduled Successfully assigned default/nowhere-w-0 to node-0");
        (told && text.contains("Scheduled pod group is ready")).then_some(())
    });
    eventually("the queue's status follows", PATIENCE, || {
        let allocated = server.kubectl(&["get", "queue", "default", "-o", "jsonpath={.status.allocated.cpu}"]);
        (allocated == "2").then_some(())
    });
    server.audit(true);
}

#[test]
fn metrics_have_volcanos_names() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--nodes", "2", "--audit-period", "1"]);
    apply(&server, &job("good", 2, "100m", ""));
    apply(&server, &job("nowhere", 2, "100m", "tier: special"));
    eventually("the job runs", PATIENCE, || is_running(&server, "good").then_some(()));
    eventually("the auditor has looked", PATIENCE, || {
        metric(&server, "basalt_audits_total")
            .filter(|&count| count > 0.0)
            .map(drop)
    });
    assert_eq!(metric(&server, "basalt_audit_findings"), Some(0.0));
    let text = eventually("the waiting job is counted", PATIENCE, || {
        let text = server.metrics();
        text.contains("volcano_unschedule_job_count 1").then_some(text)
    });
    for name in [
        "volcano_e2e_scheduling_latency_milliseconds_bucket",
        "volcano_open_session_duration_milliseconds_count",
        "volcano_action_scheduling_latency_milliseconds_count{action=\"allocate\"}",
        "volcano_task_scheduling_latency_milliseconds_count{stage=\"Bound\"} 2",
        "volcano_e2e_job_scheduling_latency_milliseconds_count 1",
        "volcano_schedule_attempts_total{result=\"scheduled\"}",
        "volcano_queue_allocated_milli_cpu{queue_name=\"default\"} 200",
        "volcano_queue_request_milli_cpu{queue_name=\"default\"} 400",
        "volcano_queue_weight{queue_name=\"default\"} 1",
        "volcano_job_share{job_ns=\"default\",job_id=\"good-",
        "volcano_unschedule_task_count{job_id=\"default/nowhere-",
        "basalt_ready 1",
        "basalt_controllers_ready 1",
    ] {
        assert!(text.contains(name), "{name} is missing in\n{text}");
    }
    assert_eq!(text.matches("# EOF").count(), 1, "one page has one end");
    let url = server.kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"]);
    let refused = server.kubectl_raw(&["--server", &url, "--token", "wrong", "get", "--raw", "/metrics"]);
    assert!(!refused.status.success(), "metrics are for those who may use the API");
}

#[test]
fn a_scheduler_outside_serves_the_cluster() {
    if !kubectl_present() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path(), &["--nodes", "3", "--no-scheduler"]);
    apply(&server, &job("gang", 6, "1", ""));
    let child = Command::new(env!("CARGO_BIN_EXE_basalt"))
        .args(["scheduler", "--metrics-listen", "127.0.0.1:0", "--kubeconfig"])
        .arg(server.kubeconfig())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the scheduler starts");
    let mut outside = Ends(child);
    let stdout = outside.0.stdout.take().expect("stdout is piped");
    let mut first = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut first).expect("a line");
    let address = first.trim().rsplit('/').next().expect("an address").to_owned();
    eventually("the scheduler is ready", PATIENCE, || {
        http_get(&address, "/readyz").contains(" 200 ").then_some(())
    });
    assert!(http_get(&address, "/healthz").contains(" 200 "));
    eventually("the job runs", PATIENCE, || is_running(&server, "gang").then_some(()));
    assert!(http_get(&address, "/metrics").contains("volcano_e2e_scheduling_latency_milliseconds_count"));
    server.audit(true);
}
