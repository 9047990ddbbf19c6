//! Queues: derived state, counters, conditions.

use serde_json::{Value, json};

use crate::cluster::{Cluster, group, job, pod, queue, with_spec};

fn closed(name: &str, parent: &str) -> Value {
    with_spec(queue(name, parent), &json!({"state": "Closed"}))
}

/// The state of queue `q` in a cluster of these objects.
fn check(title: &str, objects: Vec<Value>, expected: &str) {
    let cluster = Cluster::new(objects);
    assert_eq!(cluster.state("q"), expected, "{title}");
}

#[test]
fn root_and_default_are_made_and_come_back() {
    let mut cluster = Cluster::new(vec![]);
    assert_eq!(cluster.names("Queue"), ["default", "root"]);
    assert_eq!(cluster.queue("root")["spec"]["reclaimable"], json!(false));
    assert_eq!(cluster.queue("default")["spec"]["parent"], json!("root"));
    for name in ["default", "root"] {
        cluster.force_remove("Queue", "", name);
        cluster.settle();
        assert_eq!(cluster.state(name), "Open", "{name} is back");
    }
}

#[test]
fn a_queue_is_closed_by_itself_or_from_above() {
    check("open", vec![queue("q", "root")], "Open");
    check("closed and empty", vec![closed("q", "root")], "Closed");
    check("from above", vec![closed("top", "root"), queue("q", "top")], "Closed");
    check(
        "from far above",
        vec![closed("top", "root"), queue("mid", "top"), queue("q", "mid")],
        "Closed",
    );
    let root = with_spec(queue("root", ""), &json!({"state": "Closed"}));
    check(
        "a root that says Closed",
        vec![root.clone(), queue("q", "root")],
        "Open",
    );
    assert_eq!(Cluster::new(vec![root]).state("root"), "Open", "root is never closed");
}

#[test]
fn a_queue_is_closing_until_its_jobs_have_ended() {
    let with = |phases: &[&str]| -> Vec<Value> {
        let jobs = phases.iter().map(|phase| job(&phase.to_lowercase(), "q", phase));
        std::iter::once(closed("q", "root")).chain(jobs).collect()
    };
    check("a job runs", with(&["Completed", "Running"]), "Closing");
    check("an aborted job can resume", with(&["Aborted"]), "Closing");
    check(
        "jobs have ended",
        with(&["Completed", "Failed", "Terminated"]),
        "Closed",
    );
}

#[test]
fn a_queue_is_closing_until_its_groups_are_done() {
    let with = |phase: &str, pods: &[&str]| -> Vec<Value> {
        let member = json!({"scheduling.k8s.io/group-name": "lone"});
        let pods = pods
            .iter()
            .enumerate()
            .map(|(index, phase)| pod(&format!("p{index}"), &member, phase));
        [closed("q", "root"), group("", "q", phase)]
            .into_iter()
            .chain(pods)
            .collect()
    };
    check("no pods yet", with("Pending", &[]), "Closing");
    check("completed", with("Completed", &[]), "Closed");
    check(
        "completed, but a pod lives",
        with("Completed", &["Failed", "Running"]),
        "Closing",
    );
    check(
        "all pods have ended",
        with("Running", &["Failed", "Succeeded"]),
        "Closed",
    );
}

#[test]
fn a_queue_is_closing_while_a_pod_without_a_group_lives() {
    let with = |annotations: Value, phase: &str| vec![closed("q", "root"), pod("p", &annotations, phase)];
    let named = json!({"scheduling.volcano.sh/queue-name": "q"});
    check("it names the queue", with(named.clone(), "Running"), "Closing");
    check("it has ended", with(named, "Succeeded"), "Closed");
    let of_job = json!({"volcano.sh/queue-name": "q", "scheduling.k8s.io/group-name": "gone"});
    check("its group is gone", with(of_job, "Running"), "Closing");
    check("it names nobody", with(json!({}), "Running"), "Closed");
}

#[test]
fn children_close_first_and_open_again_with_their_parent() {
    let mut cluster = Cluster::new(vec![
        queue("a", "root"),
        queue("b", "a"),
        queue("c", "b"),
        queue("d", "a"),
        job("j", "c", "Running"),
        with_spec(queue("own", "a"), &json!({"state": "Closed"})),
    ]);
    let states = |cluster: &Cluster| ["a", "b", "c", "d", "own"].map(|name| cluster.state(name).to_owned());
    cluster.merge("Queue", "", "a", &json!({"spec": {"state": "Closed"}}));
    cluster.settle();
    assert_eq!(states(&cluster), ["Closing", "Closing", "Closing", "Closed", "Closed"]);
    let annotation = |cluster: &Cluster, name: &str| {
        cluster.queue(name)["metadata"]["annotations"]["volcano.sh/closed-by-parent"].clone()
    };
    assert_eq!(annotation(&cluster, "b"), Value::Null, "states come first");
    cluster.pass(3);
    assert_eq!(
        ["a", "b", "d", "own"].map(|name| annotation(&cluster, name)),
        [Value::Null, json!("true"), json!("true"), Value::Null],
        "who was closed by itself is not marked"
    );
    cluster.log.clear();
    cluster.merge("Job", "n", "j", &json!({"status": {"state": {"phase": "Completed"}}}));
    cluster.settle();
    assert_eq!(states(&cluster), ["Closed"; 5]);
    let order: Vec<&String> = cluster.log.iter().filter(|line| line.starts_with("status")).collect();
    assert_eq!(order, ["status c", "status b", "status a"]);

    cluster.merge("Queue", "", "a", &json!({"spec": {"state": "Open"}}));
    cluster.settle();
    assert_eq!(states(&cluster), ["Open", "Open", "Open", "Open", "Closed"]);
    cluster.pass(3);
    assert_eq!(annotation(&cluster, "b"), json!("false"));
    assert_eq!(
        cluster.queue("b")["spec"]["state"],
        json!("Open"),
        "no child's spec was written"
    );
}

#[test]
fn counters_follow_jobs_and_groups() {
    let phases = [
        "Pending",
        "Running",
        "Restarting",
        "Aborting",
        "Completing",
        "Terminating",
        "Completed",
        "Failed",
        "Terminated",
        "Aborted",
    ];
    let jobs = phases.iter().map(|phase| job(&phase.to_lowercase(), "q", phase));
    let mut objects = vec![queue("q", "root"), job("let-in", "q", "Pending")];
    objects.extend(jobs);
    objects.extend([
        group("let-in", "q", "Inqueue"),
        group("pending", "q", "Pending"),
        group("", "q", "Running"),
    ]);
    let mut cluster = Cluster::new(objects);
    let counters = |cluster: &Cluster| {
        let status = &cluster.queue("q")["status"];
        [
            "inqueue",
            "pending",
            "running",
            "completed",
            "failed",
            "aborted",
            "unknown",
        ]
        .map(|name| status[name].as_i64().expect("a number"))
    };
    assert_eq!(counters(&cluster), [1, 1, 5, 1, 2, 1, 1]);
    // Moves from one counter to the next, out of the queue, and back to none.
    cluster.merge(
        "PodGroup",
        "n",
        "pending-uid-of-pending",
        &json!({"status": {"phase": "Inqueue"}}),
    );
    cluster.merge(
        "Job",
        "n",
        "running",
        &json!({"status": {"state": {"phase": "Completed"}}}),
    );
    cluster.merge("PodGroup", "n", "lone", &json!({"spec": {"queue": "default"}}));
    cluster.force_remove("Job", "n", "aborted");
    cluster.settle();
    assert_eq!(counters(&cluster), [2, 0, 4, 2, 2, 0, 0]);
    assert_eq!(cluster.queue("default")["status"]["unknown"], json!(1));
}

/// Volcano #4532: counters were only computed for metrics, and not there for whoever reads the object.
#[test]
fn volcano_4532_counters_are_persisted_and_survive_a_restart() {
    let mut cluster = Cluster::new(vec![
        queue("q", "root"),
        job("a", "q", "Running"),
        job("b", "q", "Failed"),
    ]);
    let status = cluster.queue("q")["status"].clone();
    assert_eq!((&status["running"], &status["failed"]), (&json!(1), &json!(1)));
    cluster.pass(60);
    assert_eq!(cluster.log, [""; 0], "a restart writes nothing anew");
    assert_eq!(cluster.queue("q")["status"], status);
}

/// Volcano #5960: a queue that was deleted and made anew counted none of the PodGroups that name it.
#[test]
fn volcano_5960_a_recreated_queue_keeps_its_podgroups() {
    let mut cluster = Cluster::new(vec![
        queue("q", "root"),
        group("", "q", "Running"),
        job("a", "q", "Running"),
    ]);
    cluster.force_remove("Queue", "", "q");
    cluster.settle();
    assert_eq!(
        cluster.names("PodGroup"),
        ["lone"],
        "nothing is deleted because a queue is absent"
    );
    assert_eq!(cluster.names("Job"), ["a"]);
    cluster.put(closed("q", "root"));
    cluster.settle();
    let status = &cluster.queue("q")["status"];
    assert_eq!(
        (&status["unknown"], &status["running"], &status["state"]),
        (&json!(1), &json!(1), &json!("Closing"))
    );
}

/// Volcano #5351: a state written into the status by hand stayed, and did nothing.
#[test]
fn volcano_5351_raw_status_writes_are_repaired() {
    let mut cluster = Cluster::new(vec![queue("q", "root"), queue("c", "q"), job("j", "c", "Running")]);
    for (name, state) in [
        ("q", "Closed"),
        ("c", "Closed"),
        ("c", "Closing"),
        ("q", "Unknown"),
        ("root", "Closed"),
    ] {
        cluster.merge("Queue", "", name, &json!({"status": {"state": state, "running": 7}}));
        cluster.settle();
        assert_eq!(cluster.state(name), "Open", "{name} {state}");
    }
    assert_eq!(cluster.queue("c")["status"]["running"], json!(1));
    // A parent is not closed because somebody writes Closed into its child.
    cluster.merge("Queue", "", "q", &json!({"spec": {"state": "Closed"}}));
    cluster.settle();
    cluster.log.clear();
    cluster.merge("Queue", "", "c", &json!({"status": {"state": "Closed"}}));
    cluster.settle();
    assert_eq!((cluster.state("q"), cluster.state("c")), ("Closing", "Closing"));
    assert!(!cluster.log.contains(&"status q".to_owned()), "{:?}", cluster.log);
}

#[test]
fn nothing_is_written_where_nothing_changed() {
    let mut cluster = Cluster::new(vec![queue("q", "root")]);
    // What the scheduler writes is its own: the cluster refuses a write of ours that touches it.
    let of_scheduler = json!({"status": {"share": "0.500000", "allocated": {"cpu": "1"}, "deserved": {"cpu": "2"}}});
    cluster.merge("Queue", "", "q", &of_scheduler);
    cluster.settle();
    assert_eq!(cluster.log, [""; 0]);
    cluster.put(job("j", "q", "Running"));
    cluster.settle();
    assert_eq!(cluster.log, ["status q"]);
    assert_eq!(cluster.events, [""; 0], "no event without a change of state");
    assert_eq!(cluster.queue("q")["status"]["share"], json!("0.500000"));
    // A group's note that changes no count is no business of the queue.
    cluster.put(group("j", "q", "Running"));
    cluster.settle();
    cluster.log.clear();
    cluster.merge(
        "PodGroup",
        "n",
        "j-uid-of-j",
        &json!({"status": {"reasons": [{"code": "Gated"}]}}),
    );
    cluster.settle();
    assert_eq!(cluster.log, [""; 0]);
}

#[test]
fn a_change_of_state_is_told() {
    let mut cluster = Cluster::new(vec![queue("top", "root"), queue("q", "top"), job("j", "q", "Running")]);
    cluster.merge("Queue", "", "top", &json!({"spec": {"state": "Closed"}}));
    cluster.settle();
    let about = |cluster: &Cluster, start: &str| {
        let told = cluster.events.iter().filter(|event| event.starts_with(start)).cloned();
        told.collect::<Vec<_>>()
    };
    assert_eq!(
        about(&cluster, "Queue q"),
        ["Queue q: CloseQueue: Queue is closing, asked for by spec.state of queue top; what it has runs to its end"]
    );
    assert_eq!(
        cluster.condition("q", "Ready"),
        "False Closing closed by spec.state of queue top; it still has 1 unfinished jobs"
    );
    assert_eq!(
        cluster.condition("top", "Ready"),
        "False Closing closed by spec.state of queue top; it still has 1 children that are not closed"
    );
}

#[test]
fn the_finalizer_is_back_filled_beside_those_of_others() {
    let mut held = queue("q", "root");
    held["metadata"]["finalizers"] = json!(["example.com/other"]);
    let cluster = Cluster::new(vec![held]);
    assert_eq!(
        cluster.queue("q")["metadata"]["finalizers"],
        json!(["example.com/other", "basalt.sh/queue"])
    );
    assert_eq!(
        cluster.queue("root")["metadata"]["finalizers"],
        Value::Null,
        "root and default cannot be deleted"
    );
}

#[test]
fn a_guarantee_that_loses_what_only_we_know_is_told_of() {
    let guarantee = json!({"guarantee": {"policy": "Guaranteed", "resource": {"cpu": "1"}}});
    let mut cluster = Cluster::new(vec![with_spec(queue("q", "root"), &guarantee)]);
    let told = |cluster: &Cluster| {
        cluster
            .events
            .iter()
            .filter(|event| event.contains("GuaranteeReduced"))
            .count()
    };
    let edit = |cluster: &mut Cluster, spec: Value| {
        cluster.merge("Queue", "", "q", &json!({ "spec": spec }));
        cluster.settle();
    };
    edit(&mut cluster, json!({"weight": 7}));
    assert_eq!(told(&cluster), 0, "another field changes nothing");
    edit(&mut cluster, json!({"guarantee": {"policy": null}}));
    assert_eq!(told(&cluster), 1);
    edit(&mut cluster, json!({"weight": 8}));
    assert_eq!(told(&cluster), 1, "once is enough");
}
