//! The end of queues, and Commands: in order, exactly once, and the same after a crash at any write.

use serde_json::{Value, json};

use crate::cluster::{Cluster, command, group, job, queue, with_spec};

fn closed(name: &str, parent: &str) -> Value {
    with_spec(queue(name, parent), &json!({"state": "Closed"}))
}

/// A closed tree with finished work in its leaf.
fn tree() -> Cluster {
    Cluster::new(vec![
        closed("a", "root"),
        queue("b", "a"),
        queue("c", "b"),
        job("done", "c", "Completed"),
        group("", "c", "Completed"),
        job("elsewhere", "default", "Completed"),
    ])
}

#[test]
fn a_queue_goes_after_its_children_and_what_is_finished() {
    let mut cluster = tree();
    cluster.delete("Queue", "", "a");
    cluster.settle();
    assert_eq!(cluster.names("Queue"), ["default", "root"]);
    assert_eq!(
        (cluster.names("Job"), cluster.names("PodGroup")),
        (vec!["elsewhere"], vec![])
    );
    let order: Vec<&str> = cluster
        .log
        .iter()
        .map(String::as_str)
        .filter(|line| !line.starts_with("status"))
        .collect();
    assert_eq!(
        order,
        [
            "delete Queue b",
            "delete Queue c",
            "delete Job done",
            "delete PodGroup lone",
            "patch c",
            "patch b",
            "patch a"
        ]
    );
}

#[test]
fn a_crash_after_any_write_changes_nothing_about_the_end() {
    let mut writes = 0;
    for crash in 1.. {
        let mut cluster = tree();
        cluster.crash_after = Some(crash);
        cluster.delete("Queue", "", "a");
        cluster.settle();
        assert_eq!(cluster.names("Queue"), ["default", "root"], "crash after write {crash}");
        assert_eq!(cluster.names("Job"), ["elsewhere"]);
        if cluster.crash_after.is_some() {
            break; // there were fewer writes than that
        }
        writes = crash;
    }
    assert!(writes >= 7, "{writes}");
}

#[test]
fn a_queue_that_is_being_deleted_waits_for_what_has_not_ended() {
    let mut cluster = tree();
    // It arrived just before the deletion.
    cluster.put(job("late", "c", "Running"));
    cluster.delete("Queue", "", "a");
    cluster.settle();
    assert_eq!(
        cluster.names("Job"),
        ["done", "elsewhere", "late"],
        "nothing is deleted while something runs"
    );
    assert_eq!(cluster.names("Queue"), ["a", "b", "c", "default", "root"]);
    let told = cluster.condition("a", "Ready");
    assert!(
        told.starts_with("False Deleting the queue is being deleted: 1 children are not closed and empty (b is one)"),
        "{told}"
    );
    cluster.merge(
        "Job",
        "n",
        "late",
        &json!({"status": {"state": {"phase": "Completed"}}}),
    );
    cluster.settle();
    assert_eq!(cluster.names("Queue"), ["default", "root"]);
    assert_eq!(cluster.names("Job"), ["elsewhere"]);
}

#[test]
fn who_was_moved_away_or_reopened_is_left_alone() {
    let mut cluster = tree();
    cluster.merge("Queue", "", "b", &json!({"spec": {"parent": "root"}}));
    cluster.delete("Queue", "", "a");
    cluster.settle();
    assert_eq!(cluster.names("Queue"), ["b", "c", "default", "root"]);
    assert_eq!(cluster.names("Job"), ["done", "elsewhere"]);
}

#[test]
fn the_finalizers_of_others_stay() {
    let mut held = closed("q", "root");
    held["metadata"]["finalizers"] = json!(["example.com/other"]);
    let mut cluster = Cluster::new(vec![held]);
    cluster.delete("Queue", "", "q");
    cluster.settle();
    assert_eq!(
        cluster.queue("q")["metadata"]["finalizers"],
        json!(["example.com/other"])
    );
}

#[test]
fn a_standard_queue_that_is_removed_by_force_takes_nothing_along() {
    let mut cluster = Cluster::new(vec![queue("q", "root"), job("j", "default", "Completed")]);
    for name in ["default", "root"] {
        cluster.merge(
            "Queue",
            "",
            name,
            &json!({"metadata": {"finalizers": ["basalt.sh/queue"]}}),
        );
        cluster.delete("Queue", "", name);
        cluster.settle();
        assert_eq!(cluster.state(name), "Open", "{name} is back");
    }
    assert_eq!(
        (cluster.names("Queue"), cluster.names("Job")),
        (vec!["default", "q", "root"], vec!["j"])
    );
}

fn uid(cluster: &Cluster, queue: &str) -> String {
    cluster.queue(queue)["metadata"]["uid"]
        .as_str()
        .expect("uid")
        .to_owned()
}

fn wanted<'a>(cluster: &'a Cluster, queue: &str) -> &'a str {
    cluster.queue(queue)["spec"]["state"].as_str().expect("a state")
}

#[test]
fn commands_steer_a_queue_and_are_gone() {
    let mut cluster = Cluster::new(vec![queue("q", "root")]);
    let uid = uid(&cluster, "q");
    for (name, action, expected) in [
        ("one", "CloseQueue", "Closed"),
        ("two", "OpenQueue", "Open"),
        ("three", "OpenQueue", "Open"),
    ] {
        cluster.put(command(name, action, "q", &uid));
        cluster.settle();
        assert_eq!(
            (wanted(&cluster, "q"), cluster.state("q")),
            (expected, expected),
            "{action}"
        );
        assert_eq!(cluster.names("Command"), [""; 0]);
    }
    // Two at once: the later one has the last word.
    cluster.put(command("z-first", "CloseQueue", "q", &uid));
    cluster.put(command("a-second", "OpenQueue", "q", &uid));
    cluster.settle();
    assert_eq!((wanted(&cluster, "q"), cluster.names("Command").len()), ("Open", 0));
}

/// After every single write: what a person wrote after the Command took effect is never overwritten by it.
#[test]
fn a_command_takes_effect_exactly_once_whatever_crashes() {
    for crash in 1..6 {
        let mut cluster = Cluster::new(vec![queue("q", "root")]);
        let uid = uid(&cluster, "q");
        cluster.crash_after = Some(crash);
        cluster.put(command("one", "CloseQueue", "q", &uid));
        cluster.settle();
        assert_eq!(
            (wanted(&cluster, "q"), cluster.state("q")),
            ("Closed", "Closed"),
            "crash after {crash}"
        );
        assert_eq!(cluster.names("Command"), [""; 0]);
        let patches = cluster.log.iter().filter(|line| *line == "patch q").count();
        assert_eq!(patches, 1, "crash after {crash}: {:?}", cluster.log);
    }
    // The Command outlives its effect, and a person changes his mind meanwhile.
    let mut cluster = Cluster::new(vec![queue("q", "root")]);
    let target = uid(&cluster, "q");
    cluster.put(command("one", "CloseQueue", "q", &target));
    let of_command = cluster.get("Command", "default", "one").expect("there")["metadata"]["uid"].clone();
    let record =
        json!({"metadata": {"annotations": {"basalt.sh/applied-commands": of_command}}, "spec": {"state": "Open"}});
    cluster.merge("Queue", "", "q", &record);
    cluster.settle();
    assert_eq!((wanted(&cluster, "q"), cluster.names("Command").len()), ("Open", 0));
}

#[test]
fn commands_that_cannot_be_followed_are_dropped_and_told() {
    let check = |objects: Vec<Value>, action: &str, target: &str, uid_of: &str, expected: &str| {
        let mut cluster = Cluster::new(objects);
        let uid = if uid_of.is_empty() {
            "other".to_owned()
        } else {
            uid(&cluster, uid_of)
        };
        cluster.put(command("one", action, target, &uid));
        cluster.settle();
        cluster.pass(10);
        assert_eq!(cluster.names("Command"), [""; 0], "{expected}");
        assert!(
            cluster.events.iter().any(|event| event.contains(expected)),
            "{expected}: {:?}",
            cluster.events
        );
        assert!(!cluster.log.contains(&format!("patch {target}")), "{:?}", cluster.log);
    };
    check(
        vec![queue("q", "root")],
        "CloseQueue",
        "q",
        "",
        "Command one: CommandDropped: queue q with uid other does not exist any more",
    );
    check(
        vec![],
        "CloseQueue",
        "q",
        "",
        "Command one: CommandDropped: queue q does not exist",
    );
    check(
        vec![],
        "CloseQueue",
        "root",
        "root",
        "Queue root: CommandDropped: Command default/one: root cannot be closed",
    );
    check(
        vec![queue("q", "root")],
        "AbortJob",
        "q",
        "q",
        "a queue takes OpenQueue or CloseQueue, not AbortJob",
    );
}

#[test]
fn a_command_that_comes_before_its_queue_is_seen_waits_for_it() {
    let mut cluster = Cluster::new(vec![]);
    cluster.put(command("one", "CloseQueue", "q", "the-uid"));
    cluster.settle();
    assert_eq!(cluster.names("Command"), ["one"]);
    let mut late = queue("q", "root");
    late["metadata"]["uid"] = json!("the-uid");
    cluster.put(late);
    cluster.settle();
    assert_eq!((wanted(&cluster, "q"), cluster.names("Command").len()), ("Closed", 0));
}

#[test]
fn commands_to_jobs_are_not_touched() {
    let mut cluster = Cluster::new(vec![]);
    let mut other = command("one", "AbortJob", "j", "u");
    other["target"]["kind"] = json!("Job");
    other["target"]["apiVersion"] = json!("batch.volcano.sh/v1alpha1");
    cluster.put(other);
    cluster.pass(60);
    assert_eq!(cluster.names("Command"), ["one"]);
}
