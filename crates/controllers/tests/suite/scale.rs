//! Scaling, and what stands beside the pods: claims and what plugins want.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::script::{check, job, play, task, with};

const STARTED: &str = "let-in\n run\n = phase Running\n note-group\n";

fn elastic() -> Value {
    json!({"minAvailable": 2, "tasks": [task("w", 3)], "plugins": {"svc": [], "env": []}})
}

fn hosts(stage: &crate::script::Stage) -> usize {
    let map = stage.cluster.get("ConfigMap", "n", "train-svc").expect("the hosts");
    map["data"]["w.host"].as_str().expect("hosts").lines().count()
}

#[test]
fn scaling_goes_through_plugins_group_and_pods_in_this_order() {
    let stage = check(
        &elastic(),
        &format!(
            "{STARTED} scale w 5 4
             = pods w-0 w-1 w-2 w-3 w-4
             = group same
             run
             = counts 0 5 0 0
             = phase Running"
        ),
    );
    assert_eq!(hosts(&stage), 5);
    let group = stage.cluster.names("PodGroup")[0].to_owned();
    let spec = &stage.cluster.get("PodGroup", "n", &group).expect("the group")["spec"];
    assert_eq!(
        (&spec["minMember"], &spec["minTaskMember"], &spec["minResources"]["cpu"]),
        (&json!(4), &json!({"w": 5}), &json!("4"))
    );
    let log = &stage.cluster.log;
    let at = |line: &str| {
        log.iter()
            .rposition(|known| known == line)
            .unwrap_or_else(|| panic!("{line} in {log:?}"))
    };
    assert!(at("patch train-svc") < at(&format!("patch {group}")));
    assert!(at(&format!("patch {group}")) < at("create Pod train-w-3"));
}

#[test]
fn scaling_down_takes_the_highest_indices() {
    let stage = check(
        &elastic(),
        &format!("{STARTED} scale w 2\n = leaving w-2\n = pods w-0 w-1\n reap\n = counts 0 2 0 0\n = phase Running"),
    );
    assert_eq!(hosts(&stage), 2);
    check(
        &elastic(),
        &format!("{STARTED} scale w 2 1\n scale w 4\n reap\n = pods w-0 w-1 w-2 w-3"),
    );
    check(
        &elastic(),
        &format!("{STARTED} down\n scale w 2\n gone w-0\n up\n reap\n = pods w-0 w-1"),
    );
}

#[test]
fn a_policy_for_updates_runs_when_the_update_is_done() {
    let spec = with(
        elastic(),
        &json!({"policies": [{"event": "JobUpdated", "action": "RestartJob"}]}),
    );
    let stage = check(
        &spec,
        &format!(
            "{STARTED} = retry 0
             scale w 4
             = retry 1
             = version 1
             reap
             let-in
             = pods w-0 w-1 w-2 w-3
             run
             = phase Running
             = retry 1"
        ),
    );
    let log = &stage.cluster.log;
    let created = log
        .iter()
        .position(|line| line == "create Pod train-w-3")
        .expect("made");
    let stopped = log
        .iter()
        .position(|line| line == "delete Pod train-w-0")
        .expect("stopped");
    assert!(created < stopped, "first the update, then the policy: {log:?}");
}

/// In Volcano the number of partitions is fixed, and with it the number of pods.
#[test]
fn a_partitioned_task_can_be_scaled() {
    let workers = with(
        task("w", 4),
        &json!({"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}),
    );
    let spec = json!({"minAvailable": 4, "tasks": [workers]});
    let stage = check(&spec, &format!("{STARTED} scale w 6\n = pods w-0 w-1 w-2 w-3 w-4 w-5"));
    let pod = stage.cluster.get("Pod", "n", "train-w-5").expect("the pod");
    assert_eq!(pod["metadata"]["labels"]["volcano.sh/partition-id"], "2");
    check(&spec, &format!("{STARTED} scale w 2 2\n reap\n = pods w-0 w-1"));
}

#[test]
fn what_plugins_want_is_there_before_the_group_and_stays_over_restarts() {
    let more = json!({"policies": [{"event": "PodFailed", "action": "RestartJob"}], "plugins": {"ssh": []}});
    let script = format!("{STARTED} fail w-0\n reap\n let-in\n run\n = phase Running");
    let stage = play(&with(elastic(), &more), &script, None);
    let log = &stage.cluster.log;
    let made = |line: &str| log.iter().filter(|known| *known == line).count();
    for line in [
        "create ConfigMap train-svc",
        "create Service train",
        "create Secret train-ssh",
        "create NetworkPolicy train",
    ] {
        assert_eq!(made(line), 1, "{line} in {log:?}");
    }
    assert_eq!(
        stage.job()["status"]["controlledResources"],
        json!({"plugin-env": "env", "plugin-ssh": "ssh", "plugin-svc": "svc"})
    );
    let pod = stage.cluster.get("Pod", "n", "train-w-1").expect("the pod");
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("train-w-1"), &json!("train"))
    );
}

#[test]
fn what_is_taken_away_is_made_again() {
    let stage = play(&elastic(), STARTED, None);
    let mut cluster = stage.cluster;
    cluster.force_remove("ConfigMap", "n", "train-svc");
    cluster.settle();
    assert!(cluster.get("ConfigMap", "n", "train-svc").is_some());
    // Nobody looked when it went.
    cluster.go_down();
    cluster.force_remove("Service", "n", "train");
    cluster.come_up();
    cluster.settle();
    assert!(cluster.get("Service", "n", "train").is_some());
}

#[test]
fn what_an_earlier_job_left_is_waited_for() {
    let owner = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "earlier", "controller": true});
    let left = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "train", "namespace": "n", "ownerReferences": [owner]}});
    let mut cluster = Cluster::with_jobs(vec![left, job(elastic())]);
    cluster.settle();
    assert_eq!(cluster.names("PodGroup"), [""; 0]);
    assert!(
        cluster
            .events
            .iter()
            .any(|event| event.contains("Service train belongs to an earlier job"))
    );
    cluster.force_remove("Service", "n", "train");
    cluster.settle();
    assert_eq!(
        (cluster.names("PodGroup").len(), cluster.names("Service").len()),
        (1, 1)
    );
}

#[test]
fn an_unknown_plugin_is_told_of() {
    let spec = json!({"minAvailable": 1, "tasks": [task("w", 1)], "plugins": {"nonsense": []}});
    let stage = check(&spec, "= phase Pending\n = group none");
    assert!(
        stage.cluster.events.iter().any(|event| event.contains("PluginError")),
        "{:?}",
        stage.cluster.events
    );
}

/// Volcano terminates a job after fifteen tries when its claim is missing.
#[test]
fn a_missing_claim_is_waited_for() {
    let spec = with(
        json!({"minAvailable": 1, "tasks": [task("w", 1)]}),
        &json!({"volumes": [{"mountPath": "/data", "volumeClaimName": "data"}]}),
    );
    let stage = check(
        &spec,
        "= phase Pending\n = group none\n pass 10000\n = phase Pending\n claim data\n let-in\n run\n = phase Running",
    );
    assert!(
        stage
            .cluster
            .events
            .iter()
            .any(|event| event.contains("PVCError: volume claim data does not exist"))
    );
    let pod = stage.cluster.get("Pod", "n", "train-w-0").expect("the pod");
    assert_eq!(
        pod["spec"]["volumes"][0]["persistentVolumeClaim"],
        json!({"claimName": "data"})
    );
    assert_eq!(pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"], "/data");
    assert_eq!(
        stage.job()["status"]["controlledResources"],
        json!({"volume-pvc-data": "data"})
    );
}

#[test]
fn a_claim_of_the_job_is_made_once_and_owned() {
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let spec = with(
        json!({"minAvailable": 1, "tasks": [task("w", 1)]}),
        &json!({"volumes": [{"mountPath": "/data", "volumeClaim": claim}]}),
    );
    let stage = check(&spec, STARTED);
    let claims = stage.cluster.names("PersistentVolumeClaim");
    assert_eq!(claims.len(), 1);
    assert!(
        claims[0].starts_with("train-pvc-") && claims[0].len() == "train-pvc-".len() + 12,
        "{claims:?}"
    );
    let object = stage
        .cluster
        .get("PersistentVolumeClaim", "n", claims[0])
        .expect("the claim");
    assert_eq!(object["metadata"]["ownerReferences"][0]["name"], "train");
    assert_eq!(object["spec"]["resources"]["requests"]["storage"], "1Gi");
}

/// What plugins made follows the spec when the job goes on, if it was scaled while it rested.
#[test]
fn hosts_follow_a_job_that_was_scaled_while_it_rested() {
    let script =
        format!("{STARTED} command AbortJob\n reap\n = phase Aborted\n scale w 5\n command ResumeJob\n let-in");
    let stage = check(&elastic(), &format!("{script}\n = pods w-0 w-1 w-2 w-3 w-4"));
    assert_eq!(hosts(&stage), 5);
    let resumes = json!({"policies": [{"event": "JobUpdated", "action": "ResumeJob"}]});
    let script =
        format!("{STARTED} command AbortJob\n reap\n = phase Aborted\n scale w 5\n = phase Pending\n let-in\n run");
    let stage = check(&with(elastic(), &resumes), &format!("{script}\n = phase Running"));
    assert_eq!(hosts(&stage), 5);
    // A policy for updates has its say once.
    let aborts = json!({"policies": [{"event": "JobUpdated", "action": "AbortJob"}]});
    let script = format!("{STARTED} scale w 5\n = phase Aborting\n reap\n command ResumeJob\n let-in\n run");
    check(&with(elastic(), &aborts), &format!("{script}\n = phase Running"));
}

#[test]
fn what_goes_goes_before_what_comes() {
    let spec = json!({"minAvailable": 1, "tasks": [task("a", 3), task("b", 1)]});
    let stage = check(
        &spec,
        &format!("{STARTED} down\n scale a 1\n scale b 2\n up\n = leaving a-1 a-2"),
    );
    let log = &stage.cluster.log;
    let at = |line: &str| {
        log.iter()
            .position(|known| known == line)
            .unwrap_or_else(|| panic!("{line} in {log:?}"))
    };
    assert!(at("delete Pod train-a-1") < at("create Pod train-b-1"), "{log:?}");
}

/// That one thing is there again says nothing about another.
#[test]
fn each_of_two_things_that_were_taken_away_is_made_again() {
    let mut cluster = play(&elastic(), STARTED, None).cluster;
    let mut map = cluster.get("ConfigMap", "n", "train-svc").expect("the hosts").clone();
    cluster.force_remove("Service", "n", "train");
    cluster.force_remove("ConfigMap", "n", "train-svc");
    map["metadata"]["uid"] = json!("another");
    cluster.put(map);
    cluster.settle();
    assert!(cluster.get("Service", "n", "train").is_some(), "{:?}", cluster.log);
}

#[test]
fn what_somebody_else_made_is_told_of_and_used() {
    let theirs = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "train", "namespace": "n"}});
    let mut cluster = Cluster::with_jobs(vec![theirs, job(elastic())]);
    cluster.settle();
    let status = &cluster.get("Job", "n", "train").expect("the job")["status"];
    assert_eq!(status["observedGeneration"], 1);
    let told = |event: &&String| event.contains("Service train belongs to somebody else");
    assert!(cluster.events.iter().any(|event| told(&event)));
}

/// A pod of somebody else is told of, and when it goes its name is used.
#[test]
fn a_name_that_a_stranger_holds_is_waited_for() {
    let spec = json!({"minAvailable": 2, "tasks": [task("w", 3)]});
    let stage = check(
        &spec,
        "stranger w-1\n let-in\n run w-0\n run w-2\n = phase Running\n gone w-1\n = pods w-0 w-1 w-2",
    );
    let told = |event: &String| event.contains("FailedCreate: Pod train-w-1 cannot be made");
    assert!(stage.cluster.events.iter().any(told), "{:?}", stage.cluster.events);
    assert!(stage.cluster.log.contains(&"create Pod train-w-1".to_owned()));
}
