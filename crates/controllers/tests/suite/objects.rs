//! The objects that a Job makes, field by field as Volcano makes them.

use crate::world::{World, task};
use serde_json::{Value, json};

fn owner() -> Value {
    json!([{
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "uid-1",
        "controller": true, "blockOwnerDeletion": true,
    }])
}

#[test]
fn the_group() {
    let mut world =
        World::with_job(json!({"minAvailable": 3, "priorityClassName": "high", "tasks": [task("a", 1), task("b", 2)]}));
    let meta = &mut world.raw("Job", "train")["metadata"];
    meta["labels"] = json!({"team": "x"});
    meta["annotations"] =
        json!({"volcano.sh/preemptable": "true", "kubectl.kubernetes.io/last-applied-configuration": "{}"});
    world.settle();
    let group = world.raw("PodGroup", "train-uid-1");
    assert_eq!(group["metadata"]["labels"], json!({"team": "x"}));
    assert_eq!(
        group["metadata"]["annotations"],
        json!({"volcano.sh/preemptable": "true"})
    );
    assert_eq!(group["metadata"]["ownerReferences"], owner());
    assert_eq!(
        group["spec"],
        json!({
            "minMember": 3, "minTaskMember": {"a": 1, "b": 2}, "queue": "default", "priorityClassName": "high",
            "minResources": {
                "cpu": "3", "memory": "3Gi", "requests.cpu": "3", "requests.memory": "3Gi", "pods": "3", "count/pods": "3",
            },
        })
    );
}

fn min_resources(spec: Value) -> Value {
    let mut world = World::with_job(spec);
    world.settle();
    world.raw("PodGroup", "train-uid-1")["spec"]["minResources"].clone()
}

#[test]
fn min_resources_follow_priority_and_task_minimums() {
    let sized = |name: &str, replicas: i32, cpu: &str, class: &str, min: Option<i32>| {
        let mut task = task(name, replicas);
        task["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        task["template"]["spec"]["priorityClassName"] = json!(class);
        task["minAvailable"] = json!(min);
        task
    };
    let cpu = |spec: Value| min_resources(spec)["cpu"].clone();
    // Fewer than the tasks' minimums: the first pods in order of priority.
    let tasks = json!([sized("small", 2, "1", "", None), sized("large", 2, "10", "high", None)]);
    assert_eq!(cpu(json!({"minAvailable": 3, "tasks": tasks})), json!("21"));
    // The tasks' minimums, then filled up in order of priority.
    let tasks = json!([
        sized("small", 5, "1", "", Some(1)),
        sized("large", 5, "10", "high", Some(1))
    ]);
    assert_eq!(cpu(json!({"minAvailable": 2, "tasks": tasks.clone()})), json!("11"));
    assert_eq!(cpu(json!({"minAvailable": 4, "tasks": tasks})), json!("31"));
}

#[test]
fn min_resources_count_as_a_quota_does() {
    let mut gpu = task("a", 2);
    gpu["template"]["spec"]["containers"][0]["resources"] =
        json!({"requests": {"cpu": "500m", "nvidia.com/gpu": 1}, "limits": {"cpu": "1", "nvidia.com/gpu": 1}});
    assert_eq!(
        min_resources(json!({"minAvailable": 2, "tasks": [gpu]})),
        json!({
            "cpu": "1", "requests.cpu": "1", "limits.cpu": "2", "nvidia.com/gpu": "2", "requests.nvidia.com/gpu": "2",
            "pods": "2", "count/pods": "2",
        })
    );
}

#[test]
fn the_pods() {
    let mut worker = task("w", 2);
    worker["template"]["metadata"] = json!({"labels": {"app": "x"}, "annotations": {"note": "y"}});
    worker["topologyPolicy"] = json!("single-numa-node");
    let mut world =
        World::with_job(json!({"minAvailable": 2, "queue": "q", "priorityClassName": "high", "tasks": [worker]}));
    let meta = &mut world.raw("Job", "train")["metadata"];
    meta["labels"] = json!({"volcano.sh/preemptable": "true", "team": "x"});
    meta["annotations"] = json!({
        "volcano.sh/preemptable": "true", "volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "1", "other": "z",
    });
    world.settle();
    world.group_phase("Inqueue");
    world.settle();
    let pod = world.raw("Pod", "train-w-1");
    assert_eq!(pod["metadata"]["ownerReferences"], owner());
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "x", "volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default", "volcano.sh/task-spec": "w",
            "volcano.sh/task-index": "1", "volcano.sh/queue-name": "q", "volcano.sh/preemptable": "true",
        })
    );
    assert_eq!(
        pod["metadata"]["annotations"],
        json!({
            "note": "y", "volcano.sh/job-name": "train", "volcano.sh/task-spec": "w", "volcano.sh/task-index": "1",
            "volcano.sh/queue-name": "q", "volcano.sh/job-version": "0", "volcano.sh/job-retry-count": "0", "basalt.sh/job-generation": "0",
            "volcano.sh/template-uid": "train-w", "scheduling.k8s.io/group-name": "train-uid-1",
            "volcano.sh/numa-topology-policy": "single-numa-node", "volcano.sh/preemptable": "true",
            "volcano.sh/jdb-min-available": "1",
        })
    );
    assert_eq!(
        (&pod["spec"]["schedulerName"], &pod["spec"]["priorityClassName"]),
        (&json!("volcano"), &json!("high"))
    );
}

#[test]
fn partitions() {
    let mut worker = task("w", 6);
    worker["partitionPolicy"] = json!({"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2});
    let mut world = World::started(json!({"minAvailable": 4, "tasks": [worker]}));
    let partition =
        |world: &mut World, name: &str| world.raw("Pod", name)["metadata"]["labels"]["volcano.sh/partition-id"].clone();
    assert_eq!(partition(&mut world, "train-w-1"), json!("0"));
    assert_eq!(partition(&mut world, "train-w-5"), json!("2"));
    let spec = world.raw("PodGroup", "train-uid-1")["spec"].clone();
    assert_eq!(spec["minTaskMember"], json!({"w": 4}));
    assert_eq!(
        spec["subGroupPolicy"],
        json!([{
            "name": "w", "subGroupSize": 2, "minSubGroups": 2, "matchLabelKeys": ["volcano.sh/partition-id"],
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "w"}},
        }])
    );
}
