//! Jobs.

use serde_json::{Value, json};

use crate::support::{Row, World, job};

fn row(about: &'static str, title: &'static str, refused: bool, spec: Value, old: Option<Value>) -> Row {
    Row {
        title,
        about,
        broken: refused.then_some(about),
        group: "batch.volcano.sh",
        resource: "jobs",
        name: "train",
        object: Some(job(spec)),
        old: old.map(job),
        world: World::usual(),
    }
}

fn task(name: &str, replicas: i64) -> Value {
    json!({"name": name, "replicas": replicas, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})
}

/// A stored job: two tasks, defaults filled in.
fn stored() -> Value {
    json!({
        "queue": "default", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 3,
        "tasks": [
            {"name": "a", "replicas": 1, "maxRetry": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
            {"name": "b", "replicas": 2, "maxRetry": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        ],
    })
}

fn edited(edit: fn(&mut Value)) -> Value {
    let mut spec = stored();
    edit(&mut spec);
    spec
}

pub(crate) fn rows() -> Vec<Row> {
    let long = "x".repeat(56);
    let fits = "x".repeat(55);
    let mut rows = vec![
        row("job/tasks-present", "no tasks", true, json!({"tasks": []}), None),
        row("job/tasks-present", "tasks absent", true, json!({}), None),
        row(
            "job/tasks-present",
            "one task",
            false,
            json!({"tasks": [task("a", 1)]}),
            None,
        ),
        row(
            "job/task-names-unique",
            "same name twice",
            true,
            json!({"tasks": [task("a", 1), task("a", 1)]}),
            None,
        ),
        row(
            "job/task-names-unique",
            "name equals a defaulted one",
            true,
            json!({"tasks": [task("default1", 1), task("", 1)]}),
            None,
        ),
        row(
            "job/task-names-unique",
            "unnamed tasks",
            false,
            json!({"tasks": [task("", 1), task("", 1)]}),
            None,
        ),
        row(
            "job/replicas",
            "negative replicas",
            true,
            json!({"minAvailable": 1, "tasks": [task("a", -1), task("b", 2)]}),
            None,
        ),
        row(
            "job/replicas",
            "a task without replicas beside one with",
            false,
            json!({"tasks": [task("a", 0), task("b", 2)]}),
            None,
        ),
        row(
            "job/min-available-positive",
            "nothing to run",
            true,
            json!({"tasks": [task("a", 0)]}),
            None,
        ),
        row(
            "job/min-available-positive",
            "negative",
            true,
            json!({"minAvailable": -2, "tasks": [task("a", 2)]}),
            None,
        ),
        row(
            "job/min-available-positive",
            "zero means unset on create",
            false,
            json!({"minAvailable": 0, "tasks": [task("a", 2)]}),
            None,
        ),
        row(
            "job/min-available-reachable",
            "more than all replicas",
            true,
            json!({"minAvailable": 4, "tasks": [task("a", 1), task("b", 2)]}),
            None,
        ),
        row(
            "job/min-available-reachable",
            "all replicas",
            false,
            json!({"minAvailable": 3, "tasks": [task("a", 1), task("b", 2)]}),
            None,
        ),
        row(
            "job/min-success-reachable",
            "more than all replicas",
            true,
            json!({"minSuccess": 3, "tasks": [task("a", 2)]}),
            None,
        ),
        row(
            "job/min-success-reachable",
            "zero",
            true,
            json!({"minSuccess": 0, "tasks": [task("a", 2)]}),
            None,
        ),
        row(
            "job/min-success-reachable",
            "one of two",
            false,
            json!({"minSuccess": 1, "tasks": [task("a", 2)]}),
            None,
        ),
        row(
            "job/pod-names",
            "one character too long",
            true,
            json!({"tasks": [task(&long, 1)]}),
            None,
        ),
        row(
            "job/pod-names",
            "the last index makes it too long",
            true,
            json!({"tasks": [task(&fits, 11)]}),
            None,
        ),
        row(
            "job/pod-names",
            "just fits",
            false,
            json!({"tasks": [task(&fits, 10)]}),
            None,
        ),
        row(
            "job/pod-names",
            "upper case",
            true,
            json!({"tasks": [task("Worker", 1)]}),
            None,
        ),
        row(
            "job/plugins-known",
            "unknown plugin",
            true,
            json!({"tasks": [task("a", 1)], "plugins": {"teleport": []}}),
            None,
        ),
        row(
            "job/plugins-known",
            "known plugins",
            false,
            json!({"tasks": [task("a", 1)], "plugins": {"env": [], "svc": []}}),
            None,
        ),
    ];
    rows.extend(task_min_rows());
    rows.extend(update_rows());
    rows
}

fn task_min_rows() -> Vec<Row> {
    let with_min = |min: i64| {
        let mut a = task("a", 2);
        a["minAvailable"] = json!(min);
        json!({"minAvailable": 1, "tasks": [a]})
    };
    vec![
        row("job/task-min-available", "more than replicas", true, with_min(3), None),
        row("job/task-min-available", "negative", true, with_min(-1), None),
        row("job/task-min-available", "equal to replicas", false, with_min(2), None),
    ]
}

fn update_rows() -> Vec<Row> {
    let fixed = "job/spec-fixed";
    vec![
        row(fixed, "unchanged", false, stored(), Some(stored())),
        row(
            fixed,
            "the manifest again, without what was filled in",
            false,
            json!({"tasks": [task("a", 1), task("b", 2)]}),
            Some(stored()),
        ),
        row(
            fixed,
            "scaled up",
            false,
            edited(|spec| spec["tasks"][1]["replicas"] = json!(9)),
            Some(stored()),
        ),
        row(
            fixed,
            "a task's minimum is set",
            false,
            edited(|spec| spec["tasks"][1]["minAvailable"] = json!(1)),
            Some(stored()),
        ),
        row(
            fixed,
            "another priority class",
            false,
            edited(|spec| spec["priorityClassName"] = json!("high")),
            Some(stored()),
        ),
        row(
            fixed,
            "empty is absent",
            false,
            edited(|spec| spec["policies"] = json!([])),
            Some(stored()),
        ),
        row(
            fixed,
            "another queue",
            true,
            edited(|spec| spec["queue"] = json!("team-a")),
            Some(stored()),
        ),
        row(
            fixed,
            "another image",
            true,
            edited(|spec| spec["tasks"][0]["template"]["spec"]["containers"][0]["image"] = json!("j")),
            Some(stored()),
        ),
        row(
            fixed,
            "a task more",
            true,
            edited(|spec| spec["tasks"].as_array_mut().expect("list").push(task("c", 1))),
            Some(stored()),
        ),
        row(
            fixed,
            "a task renamed",
            true,
            edited(|spec| spec["tasks"][0]["name"] = json!("z")),
            Some(stored()),
        ),
        row(
            "job/min-available-positive",
            "zero on update",
            true,
            edited(|spec| spec["minAvailable"] = json!(0)),
            Some(stored()),
        ),
        row(
            "job/min-available-reachable",
            "scaled below the minimum",
            true,
            edited(|spec| spec["tasks"][1]["replicas"] = json!(1)),
            Some(stored()),
        ),
    ]
}

#[test]
fn defaults_are_those_of_volcano_except_a_tasks_minimum() {
    let came = row(
        "",
        "",
        false,
        json!({"tasks": [{"replicas": 2, "template": {"spec": {"hostNetwork": true}}}], "plugins": {"mpi": []}}),
        None,
    );
    let object = crate::support::decide(&came).object.expect("defaults were filled in");
    assert_eq!(
        object["spec"],
        json!({
            "queue": "default", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 2,
            "plugins": {"mpi": [], "ssh": [], "svc": []},
            "tasks": [{
                "name": "default0", "replicas": 2, "maxRetry": 3,
                "template": {"spec": {"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}},
            }],
        })
    );
}

#[test]
fn defaults_settle_in_one_pass() {
    let mut again = row("", "", false, stored(), None);
    assert_eq!(crate::support::decide(&again).object, None);
    let partitioned = json!({"tasks": [{"name": "a", "replicas": 6, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}}]});
    let first = crate::support::decide(&row("", "", false, partitioned, None))
        .object
        .expect("filled in");
    assert_eq!(first["spec"]["minAvailable"], json!(4));
    again.object = Some(first);
    assert_eq!(crate::support::decide(&again).object, None);
}
