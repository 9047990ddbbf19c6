//! The life of a Job.

use crate::world::{World, task};
use basalt_controllers::{Change, EventType};
use serde_json::{Value, json};

fn gang() -> Value {
    json!({"minAvailable": 3, "tasks": [task("a", 1), task("b", 2)]})
}

#[test]
fn from_submission_to_completion() {
    let mut world = World::with_job(gang());
    world.settle();
    assert_eq!(world.phase(), "Pending");
    assert_eq!(world.names("PodGroup"), ["train-uid-1"]);
    assert_eq!(world.names("Pod"), [""; 0], "no pods before the group is let in");

    world.group_phase("Pending");
    world.settle();
    assert_eq!(world.names("Pod"), [""; 0]);
    world.group_phase("Inqueue");
    world.settle();
    assert_eq!(world.names("Pod"), ["train-a-0", "train-b-0", "train-b-1"]);
    assert_eq!(
        (world.phase().as_str(), world.job().status.expect("status").pending),
        ("Pending", 3)
    );

    world.pods("Running", &["train-a-0", "train-b-0"]);
    world.settle();
    assert_eq!(world.phase(), "Pending", "two of three are not enough");
    world.now = 10;
    world.all_pods("Running");
    world.settle();
    assert_eq!(world.phase(), "Running");

    world.now = 20;
    world.all_pods("Succeeded");
    world.settle();
    let status = world.job().status.expect("status");
    assert_eq!(status.state.phase.expect("phase").to_string(), "Completed");
    // Volcano #4616: a completed job still tells how it went.
    assert_eq!(
        (
            status.succeeded,
            status.running,
            status.task_status_count["b"].phase["Succeeded"]
        ),
        (3, 0, 2)
    );
    assert_eq!(status.running_duration.expect("set at the end").to_string(), "20s");
    let phases: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| condition.status.as_str())
        .collect();
    assert_eq!(phases, ["Pending", "Running", "Completed"]);
    assert_eq!(world.names("Pod").len(), 3, "ended pods stay for their logs");
    assert_eq!(world.names("PodGroup"), [""; 0], "a finished job holds no queue");
    assert_eq!(world.look().changes, []);
}

#[test]
fn the_time_of_a_phase_stays_when_counters_change() {
    let mut world = World::started(json!({"minAvailable": 1, "tasks": [task("a", 3)]}));
    world.now = 5;
    world.pods("Running", &["train-a-0"]);
    world.settle();
    let entered = world.job().status.expect("status").state.last_transition_time;
    world.now = 50;
    world.all_pods("Running");
    world.settle();
    assert_eq!(world.job().status.expect("status").state.last_transition_time, entered);
}

#[test]
fn a_deleted_job_asks_for_nothing() {
    // Volcano #3357: pods were made again while the job was being deleted.
    let mut world = World::started(gang());
    world.raw("Job", "train")["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    world.objects.retain(|key, _| key.0 == "Job");
    assert_eq!(world.look().changes, []);
}

#[test]
fn a_new_job_of_the_same_name_waits_for_the_old_pods_and_never_counts_them() {
    // Volcano #5973: the job recreated under the old name was stuck or took the old pods for its own.
    let mut world = World::started(gang());
    world.all_pods("Running");
    world.settle();
    world.objects.remove(&("Job".to_owned(), "train".to_owned()));
    world.objects.retain(|key, _| key.0 != "PodGroup");
    world.submit(gang());
    world.settle();
    world.group_phase("Inqueue");
    world.settle();
    let status = world.job().status.expect("status");
    assert_eq!(
        (world.phase().as_str(), status.running, status.pending),
        ("Pending", 0, 0)
    );
    assert_eq!(world.names("Pod").len(), 3, "the old ones");

    world.objects.remove(&("Pod".to_owned(), "train-b-1".to_owned()));
    world.settle();
    assert_eq!(world.job().status.expect("status").pending, 1);
    world.objects.retain(|key, _| key.0 != "Pod");
    world.settle();
    assert_eq!(world.job().status.expect("status").pending, 3);
}

#[test]
fn pods_of_others_that_hold_wanted_names_are_told_of() {
    let mut world = World::with_job(gang());
    world.settle();
    // One in the way, one beyond the replicas, one that only looks similar.
    for name in ["train-b-1", "train-b-2", "train-c-0", "other"] {
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name}});
        world.objects.insert(("Pod".to_owned(), name.to_owned()), pod);
    }
    assert_eq!(world.look().changes, [], "no word before pods are to be made");
    world.group_phase("Inqueue");
    world.settle();
    let changes = world.look().changes;
    let [
        Change::Event {
            reason,
            message,
            event_type,
            regarding,
            ..
        },
    ] = changes.as_slice()
    else {
        panic!("one event: {changes:?}");
    };
    assert_eq!(
        (reason.as_str(), *event_type, &*regarding.name),
        ("FailedCreate", EventType::Warning, "train")
    );
    assert!(message.starts_with("Pod train-b-1 cannot be made"), "{message}");
    world.raw("Pod", "train-b-1")["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(world.look().changes, [], "it goes by itself");
    world.objects.remove(&("Pod".to_owned(), "train-b-1".to_owned()));
    world.settle();
    assert_eq!(world.look().changes, []);
    assert_eq!(world.job().status.expect("status").pending, 3);
}

#[test]
fn scaling_down_removes_the_highest_indices_highest_first() {
    let mut world = World::started(json!({"minAvailable": 1, "tasks": [task("a", 12), task("b", 2)]}));
    world.all_pods("Running");
    world.settle();
    world.raw("Job", "train")["spec"]["tasks"][0]["replicas"] = json!(9);
    let deleted: Vec<String> = world
        .look()
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Delete { target, .. } => Some(target.name.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(deleted, ["train-a-11", "train-a-10", "train-a-9"]);
    world.settle();
    assert_eq!(world.names("Pod").len(), 11);
    assert_eq!(world.job().status.expect("status").running, 11);
    let group = &world.names("PodGroup")[0].clone();
    assert_eq!(
        world.raw("PodGroup", group)["spec"]["minTaskMember"],
        json!({"a": 9, "b": 2})
    );
}

#[test]
fn scaling_up_makes_the_missing_pods_and_grows_the_group() {
    let mut world = World::started(json!({"minAvailable": 2, "tasks": [task("a", 2)]}));
    world.all_pods("Running");
    world.group_phase("Running");
    world.settle();
    let job = world.raw("Job", "train");
    job["spec"]["tasks"][0]["replicas"] = json!(4);
    job["spec"]["minAvailable"] = json!(3);
    world.settle();
    assert_eq!(world.names("Pod"), ["train-a-0", "train-a-1", "train-a-2", "train-a-3"]);
    let group = &world.names("PodGroup")[0].clone();
    let spec = &world.raw("PodGroup", group)["spec"];
    assert_eq!(
        (&spec["minMember"], &spec["minResources"]["cpu"]),
        (&json!(3), &json!("3"))
    );
}

#[test]
fn a_lost_pod_is_made_again_alone() {
    let mut world = World::started(gang());
    world.all_pods("Running");
    world.group_phase("Running");
    world.settle();
    world.objects.remove(&("Pod".to_owned(), "train-b-0".to_owned()));
    world.settle();
    assert_eq!(world.names("Pod"), ["train-a-0", "train-b-0", "train-b-1"]);
    assert_eq!(world.phase(), "Pending", "below minAvailable until it runs again");
    world.all_pods("Running");
    world.settle();
    let conditions = world.job().status.expect("status").conditions;
    let phases: Vec<_> = conditions.iter().map(|condition| condition.status.as_str()).collect();
    assert_eq!(
        phases,
        ["Pending", "Running"],
        "one entry for each phase, the latest last"
    );
}

#[test]
fn enough_successes_end_the_job_and_stop_the_rest() {
    let mut world = World::started(json!({"minAvailable": 3, "minSuccess": 1, "tasks": [task("a", 3)]}));
    world.all_pods("Running");
    world.pods("Succeeded", &["train-a-1"]);
    world.step();
    // What the stopping pods hold is accounted for by the group until they are gone.
    assert_eq!(world.names("PodGroup").len(), 1);
    world.settle();
    assert_eq!(world.phase(), "Completed");
    assert_eq!(world.names("Pod"), ["train-a-1"]);
    assert_eq!(world.names("PodGroup"), [""; 0]);
}

#[test]
fn a_finished_job_remembers_how_it_ended_when_its_pods_are_cleaned_away() {
    let mut world = World::started(gang());
    world.all_pods("Succeeded");
    world.settle();
    world.objects.retain(|key, _| key.0 == "Job");
    assert_eq!(world.look().changes, []);
    assert_eq!(world.job().status.expect("status").succeeded, 3);
}

#[test]
fn a_finished_job_is_deleted_when_its_time_is_over() {
    let mut world = World::started(json!({"minAvailable": 1, "ttlSecondsAfterFinished": 30, "tasks": [task("a", 1)]}));
    world.now = 100;
    world.all_pods("Failed");
    world.settle();
    assert_eq!(world.phase(), "Failed");
    assert_eq!(world.look().wake_at.map(jiff::Timestamp::as_second), Some(130));
    world.now = 129;
    assert_eq!(world.look().changes, []);
    world.now = 130;
    world.settle();
    assert_eq!(world.names("Job"), [""; 0]);
}

#[test]
fn a_task_waits_for_the_task_it_depends_on() {
    let mut second = task("b", 1);
    second["dependsOn"] = json!({"name": ["a"]});
    let mut world = World::started(json!({"minAvailable": 2, "tasks": [task("a", 2), second]}));
    assert_eq!(world.names("Pod"), ["train-a-0", "train-a-1"]);
    world.pods("Running", &["train-a-0"]);
    world.settle();
    assert_eq!(world.names("Pod").len(), 2);
    world.pods("Running", &["train-a-1"]);
    world.settle();
    assert_eq!(world.names("Pod"), ["train-a-0", "train-a-1", "train-b-0"]);
}

/// The controller dies after its k-th change, for every k: the end is always the same.
#[test]
fn a_crash_after_any_change_changes_nothing_in_the_end() {
    let run = |crash_after: Option<usize>| {
        let mut world = World::with_job(gang());
        world.crash_after = crash_after;
        world.settle();
        world.group_phase("Inqueue");
        world.settle();
        world.all_pods("Running");
        world.settle();
        world.raw("Job", "train")["spec"]["tasks"][1]["replicas"] = json!(4);
        world.settle();
        world.all_pods("Running");
        world.settle();
        world.raw("Job", "train")["spec"]["tasks"][1]["replicas"] = json!(2);
        world.settle();
        world.all_pods("Succeeded");
        world.settle();
        world
    };
    let undisturbed = run(None);
    assert_eq!(undisturbed.phase(), "Completed");
    for k in 1..=undisturbed.executed {
        let crashed = run(Some(k));
        assert_eq!(
            crashed.names("Pod"),
            undisturbed.names("Pod"),
            "killed after change {k}"
        );
        assert_eq!(
            crashed.job().status,
            undisturbed.job().status,
            "killed after change {k}"
        );
    }
}

/// 10,000 pods are made in one pass, each once; the second pass finds nothing to do.
#[test]
fn a_large_gang_is_made_in_one_pass() {
    let mut world = World::with_job(json!({"minAvailable": 10_000, "tasks": [task("a", 10_000)]}));
    world.settle();
    world.group_phase("Inqueue");
    assert_eq!(world.look().changes.len(), 10_000);
    world.settle();
    assert_eq!(world.names("Pod").len(), 10_000);
}
