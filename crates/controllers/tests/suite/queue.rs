//! Queues: derived state and counters.

use basalt_api::{Job, PodGroup, Queue};
use basalt_controllers::Change;
use basalt_controllers::queue::{GroupFacts, QueueView, bootstrap, reconcile};
use serde_json::{Value, json};

fn queue(name: &str, wanted: &str, state: &str) -> Queue {
    let status = if state.is_empty() {
        json!(null)
    } else {
        json!({"state": state})
    };
    let object =
        json!({"metadata": {"name": name, "uid": name}, "spec": {"state": wanted, "parent": "root"}, "status": status});
    serde_json::from_value(object).expect("a queue")
}

fn job(uid: &str, phase: &str) -> Job {
    let object = json!({"metadata": {"name": uid, "uid": uid}, "spec": {}, "status": {"state": {"phase": phase}}});
    serde_json::from_value(object).expect("a job")
}

/// A PodGroup of a Job (by uid), or of nobody.
fn group(job: &str, phase: &str) -> PodGroup {
    let owner = json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": job, "controller": true}]);
    let owners = if job.is_empty() { json!([]) } else { owner };
    let object = json!({"metadata": {"name": "pg", "ownerReferences": owners}, "spec": {}, "status": {"phase": phase}});
    serde_json::from_value(object).expect("a group")
}

#[derive(Default)]
struct Facts {
    ancestors: Vec<Queue>,
    children: Vec<Queue>,
    jobs: Vec<Job>,
    groups: Vec<(PodGroup, usize, usize)>,
}

fn look(queue: &Queue, facts: &Facts) -> Vec<Change> {
    let groups = facts.groups.iter().map(|(group, pods, living)| GroupFacts {
        group,
        pods: *pods,
        living: *living,
    });
    reconcile(&QueueView {
        queue,
        ancestors: facts.ancestors.iter().collect(),
        children: facts.children.iter().collect(),
        jobs: facts.jobs.iter().collect(),
        groups: groups.collect(),
    })
    .changes
}

fn status(changes: &[Change]) -> &Value {
    match changes.first() {
        Some(Change::Patch { merge, subresource, .. }) => {
            assert_eq!(subresource.as_deref(), Some("status"));
            &merge["status"]
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn root_and_default_are_made_once() {
    let made = |existing: &[&str]| -> Vec<(String, Value)> {
        let outcome = bootstrap(|name| existing.contains(&name));
        let creates = outcome.changes.into_iter().map(|change| match change {
            Change::Create { target, object } => (target.name, object["spec"].clone()),
            other => panic!("{other:?}"),
        });
        creates.collect()
    };
    let names = |made: Vec<(String, Value)>| made.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(made(&[])), ["root", "default"]);
    assert_eq!(names(made(&["root"])), ["default"]);
    assert_eq!(names(made(&["root", "default"])), [""; 0]);
    let specs = made(&[]);
    assert_eq!(
        (&specs[0].1["reclaimable"], &specs[1].1["reclaimable"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(
        (&specs[0].1["parent"], &specs[1].1["parent"]),
        (&json!(null), &json!("root"))
    );
}

fn check(title: &str, wanted: &str, facts: Facts, expected: &str) {
    let changes = look(&queue("q", wanted, ""), &facts);
    assert_eq!(status(&changes)["state"], json!(expected), "{title}");
}

#[test]
fn a_queue_is_closed_by_itself_or_from_above() {
    let below = |ancestor: Queue| Facts {
        ancestors: vec![ancestor],
        ..Facts::default()
    };
    check("open", "Open", Facts::default(), "Open");
    check("closed and empty", "Closed", Facts::default(), "Closed");
    check("closed from above", "Open", below(queue("top", "Closed", "")), "Closed");
    check(
        "a root that says Closed",
        "Open",
        below(queue("root", "Closed", "")),
        "Open",
    );
}

#[test]
fn a_queue_is_closing_until_its_jobs_have_ended() {
    let with = |phases: &[&str]| Facts {
        jobs: phases.iter().map(|phase| job("j", phase)).collect(),
        ..Facts::default()
    };
    check("a job runs", "Closed", with(&["Completed", "Running"]), "Closing");
    check("an aborted job can resume", "Closed", with(&["Aborted"]), "Closing");
    check(
        "jobs have ended",
        "Closed",
        with(&["Completed", "Failed", "Terminated"]),
        "Closed",
    );
}

#[test]
fn a_queue_is_closing_until_its_groups_are_done() {
    let with = |phase: &str, pods, living| Facts {
        groups: vec![(group("", phase), pods, living)],
        ..Facts::default()
    };
    check("no pods yet", "Closed", with("Pending", 0, 0), "Closing");
    check("completed", "Closed", with("Completed", 0, 0), "Closed");
    check(
        "completed, but a pod lives",
        "Closed",
        with("Completed", 2, 1),
        "Closing",
    );
    check("all pods have ended", "Closed", with("Running", 2, 0), "Closed");
}

#[test]
fn children_close_first() {
    let with = |state: &str| Facts {
        children: vec![queue("c", "Open", state)],
        ..Facts::default()
    };
    check("a child still closes", "Closed", with("Closing"), "Closing");
    check("a child was not looked at", "Closed", with(""), "Closing");
    check("a child is closed", "Closed", with("Closed"), "Closed");
}

#[test]
fn counters_follow_jobs_and_groups() {
    let jobs = [
        "Pending",
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
    let facts = Facts {
        jobs: jobs
            .iter()
            .enumerate()
            .map(|(index, phase)| job(&format!("j{index}"), phase))
            .collect(),
        groups: vec![
            (group("j0", "Inqueue"), 1, 1),
            (group("j1", "Pending"), 0, 0),
            (group("", "Running"), 1, 1),
        ],
        ..Facts::default()
    };
    let changes = look(&queue("q", "Open", ""), &facts);
    assert_eq!(
        status(&changes),
        &json!({"state": "Open", "inqueue": 1, "pending": 1, "running": 5, "completed": 1, "failed": 2, "aborted": 1, "unknown": 1})
    );
}

#[test]
fn nothing_is_written_where_nothing_changed() {
    let mut settled = queue("q", "Open", "Open");
    assert_eq!(look(&settled, &Facts::default()), []);
    // What the scheduler writes is left alone.
    settled.status.as_mut().expect("status").share = "0.500000".to_owned();
    let changes = look(
        &settled,
        &Facts {
            jobs: vec![job("j", "Running")],
            ..Facts::default()
        },
    );
    assert_eq!(status(&changes), &json!({"running": 1}));
    assert_eq!(changes.len(), 1, "no event without a change of state: {changes:?}");
}

#[test]
fn a_change_of_state_is_told() {
    let changes = look(
        &queue("q", "Closed", "Open"),
        &Facts {
            jobs: vec![job("j", "Running")],
            ..Facts::default()
        },
    );
    let [_, Change::Event { reason, message, .. }] = changes.as_slice() else {
        panic!("{changes:?}")
    };
    assert_eq!(reason, "CloseQueue");
    assert!(message.contains("queue q"), "{message}");
}
