//! `vcctl job` and `vcctl pod` against the real API server; no controller and no scheduler, so the test writes what they would.

use basalt_api::{Command, Job, PodGroup};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::world::World;

/// Two jobs in a tree of queues: `train` with two tasks, and `hello`.
async fn world() -> World {
    let world = World::new().await;
    for line in [
        "queue create root",
        "queue create default",
        "queue create ml --capability cpu=8",
        "queue create vision --parent ml",
        "job run hello -q default -r 2",
    ] {
        world.say(line).await;
    }
    let task = |name: &str, replicas: i32| {
        json!({
            "name": name, "replicas": replicas,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "2"}}}]}},
        })
    };
    let train = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train", "labels": {"team": "a"}},
        "spec": {"queue": "vision", "minAvailable": 3, "schedulerName": "volcano", "tasks": [task("ps", 1), task("worker", 4)]},
    });
    let jobs: Api<Job> = world.api();
    let train = serde_json::from_value(train).expect("a job");
    jobs.create(&PostParams::default(), &train).await.expect("a job");
    world
}

impl World {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::default_namespaced(self.client.clone())
    }

    async fn job(&self, name: &str) -> Value {
        serde_json::from_str(&self.good(&["job", "get", name, "-o", "json"]).await).expect("JSON")
    }

    /// What the job controller would write.
    async fn set_phase(&self, name: &str, phase: &str, conditions: &[&str]) {
        let time = "2026-11-15T10:00:00Z";
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|phase| json!({"status": phase, "lastTransitionTime": time}))
            .collect();
        let status =
            json!({"status": {"state": {"phase": phase, "lastTransitionTime": time}, "conditions": conditions}});
        let jobs: Api<Job> = self.api();
        jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("a status");
    }

    /// What the job controller and the scheduler would write: a PodGroup that waits.
    async fn hold(&self, job: &str, reasons: Value) {
        let uid = self.job(job).await["metadata"]["uid"].clone();
        let group = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {
                "name": format!("{job}-{}", uid.as_str().expect("a uid")),
                "ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": uid, "controller": true}],
            },
            "spec": {"minMember": 3, "queue": "vision"},
            "status": {"phase": "Pending", "reasons": reasons, "conditions": [{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "no room"}]},
        });
        let groups: Api<PodGroup> = self.api();
        let group = serde_json::from_value(group).expect("a group");
        groups.create(&PostParams::default(), &group).await.expect("a group");
    }
}

fn reasons() -> Value {
    json!([
        {"code": "AncestorOverCapability", "queue": "ml", "dimension": "cpu", "need": "10", "have": "8"},
        {"code": "NotEnoughResources", "dimension": "cpu", "need": "2", "have": "500m", "nodes": {"not enough cpu": 3}},
    ])
}

#[tokio::test]
async fn jobs_that_wait_are_listed_viewed_and_explained() {
    let world = world().await;
    world.set_phase("train", "Pending", &["Pending"]).await;
    world.hold("train", reasons()).await;
    let table = world.say("job list").await;
    let row = table.lines().find(|line| line.starts_with("train ")).expect("a row");
    assert!(
        row.contains(" vision ") && row.ends_with(" AncestorOverCapability,NotEnoughResources"),
        "{row}"
    );
    for (line, expected) in [
        ("job list -o name -q vision", "job.batch.volcano.sh/train\n"),
        (
            "job list -o name --phase pending -l team=a",
            "job.batch.volcano.sh/train\n",
        ),
        (
            "job list -A -o name --selector hel -S volcano",
            "job.batch.volcano.sh/hello\n",
        ),
    ] {
        assert_eq!(world.say(line).await, expected, "{line}");
    }
    let text = world.say("job explain train").await;
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].contains("  queue root/ml/vision (0 waiting)  0 of 5 pods run, 3 needed"),
        "{text}"
    );
    assert_eq!(
        lines[1..],
        [
            " held back by 2 checks that must pass:",
            "  1 queue     root/ml capability cpu: would hold 10 of 8",
            "  2 nodes     3 nodes tried: 3 not enough cpu; a pod needs 2 cpu, the best node has 500m",
        ]
    );
    let data: Value = serde_json::from_str(&world.say("job explain -N train -n default -o json").await).unwrap();
    assert_eq!(data["queue"]["path"], json!(["root", "ml", "vision"]));
    assert_eq!(
        (&data["checks"][1]["code"], &data["checks"][1]["nodes"]),
        (&json!("NotEnoughResources"), &json!({"not enough cpu": 3}))
    );
    viewed(&world).await;
    let err = world.bad(1, &["job", "explain", "nobody"]).await;
    assert_eq!(
        err,
        "error: job default/nobody not found\nhint: `vcctl job list` shows what there is\n"
    );
}

async fn viewed(world: &World) {
    let page = world.say("job view train").await;
    for part in [
        "Queue:        vision",
        "Pods:         5, 3 must run together",
        "a queue above would pass its capability",
        "worker   4          4",
        "cpu=2",
        "Unschedulable   True",
    ] {
        assert!(page.contains(part), "{part} is not in\n{page}");
    }
    for word in ["view", "describe", "get"] {
        assert_eq!(
            world.good(&["job", word, "train", "-o", "name"]).await,
            "job.batch.volcano.sh/train\n"
        );
    }
    assert!(
        world
            .say("job view train -o wide")
            .await
            .contains("would pass its capability")
    );
    world.bad(1, &["job", "view", "nobody", "-n", "ml"]).await;
}

#[tokio::test]
async fn orders_are_commands_to_this_job() {
    let world = world().await;
    assert_eq!(world.say("job suspend train").await, "suspend job train successfully\n");
    let commands: Api<Command> = world.api();
    let sent = commands.list(&ListParams::default()).await.expect("commands").items;
    let sent: Vec<Value> = sent.iter().map(|command| json!(command)).collect();
    let [command] = sent.as_slice() else { panic!("{sent:?}") };
    let uid = world.job("train").await["metadata"]["uid"].clone();
    assert_eq!(
        (
            &command["action"],
            &command["target"]["uid"],
            &command["metadata"]["ownerReferences"][0]["uid"]
        ),
        (&json!("AbortJob"), &uid, &uid)
    );
    let name = command["metadata"]["name"].as_str().unwrap_or_default();
    assert!(name.starts_with("train-abortjob-") && name.len() > 15, "{name}");
    let (code, out, err) = world
        .run_as("vresume", &["-n", "train", "-N", "default", "-o", "json"])
        .await;
    assert_eq!((code, err.as_str()), (0, "Warning: job train is not suspended\n"));
    let made: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&made["kind"], &made["action"]),
        (&json!("Command"), &json!("ResumeJob"))
    );
    world.set_phase("train", "Completed", &[]).await;
    let (code, out, err) = world.run(&["job", "suspend", "train", "hello"]).await;
    assert_eq!((code, out.as_str()), (1, "suspend job hello successfully\n"));
    assert_eq!(
        err,
        "error: cannot suspend job default/train: it has ended, it is Completed\nerror: 1 of 2 failed\n"
    );
    world.bad(1, &["job", "resume", "-N", "nobody"]).await;
    world.bad(2, &["job", "resume"]).await;
}

#[tokio::test]
async fn jobs_are_scaled_by_one_patch() {
    let world = world().await;
    assert_eq!(
        world
            .say("job scale train --replicas ps=2,worker=6 --min-available 7")
            .await,
        "scale job train successfully: ps 1 -> 2, worker 4 -> 6, min available 3 -> 7\n"
    );
    let job = world.job("train").await;
    assert_eq!(
        (
            &job["spec"]["minAvailable"],
            &job["spec"]["tasks"][1]["replicas"],
            &job["metadata"]["generation"]
        ),
        (&json!(7), &json!(6), &json!(2))
    );
    assert_eq!(
        job["spec"]["tasks"][1]["template"]["spec"]["containers"][0]["image"],
        "busybox"
    );
    assert_eq!(
        world.say("job scale train -r worker=6").await,
        "job train is so already\n"
    );
    assert_eq!(
        world.say("job scale hello --replicas 1 -o name").await,
        "job.batch.volcano.sh/hello\n"
    );
    let err = world.bad(1, &["job", "scale", "train", "-r", "workr=1"]).await;
    assert_eq!(
        err,
        "error: cannot scale job default/train: it has no task \"workr\"; its tasks are ps, worker\n"
    );
    world.bad(1, &["job", "scale", "nobody", "-m", "1"]).await;
    for line in [
        &["train"][..],
        &["-r", "a=1"],
        &["train", "-r", "worker=-1"],
        &["train", "-m", "0"],
    ] {
        world.bad(2, &[&["job", "scale"], line].concat()).await;
    }
}

#[tokio::test]
async fn waiting_ends_when_it_is_so_or_cannot_be() {
    let world = world().await;
    let wait = ["job", "wait", "train", "--for", "Running", "--timeout", "30s"];
    let (waited, ()) = tokio::join!(world.good(&wait), async {
        world.set_phase("train", "Pending", &[]).await;
        world.set_phase("train", "Running", &["Pending", "Running"]).await;
    });
    assert_eq!(waited, "job train is Running\n");
    let err = world.bad(1, &["job", "wait", "train", "--timeout", "0"]).await;
    assert_eq!(
        err,
        "error: job default/train is Running, not Completed: gave up after 0ns\n"
    );
    world.set_phase("train", "Failed", &["Running"]).await;
    let err = world.bad(1, &["job", "wait", "train"]).await;
    assert_eq!(err, "error: job default/train is Failed, and will not be Completed\n");
    assert_eq!(
        world.say("job wait train --for finished").await,
        "job train is Failed\n"
    );
    assert_eq!(
        world.say("job wait -N train --for condition=Running").await,
        "job train is Failed\n"
    );
    let gone = ["job", "wait", "train", "--for", "delete", "--timeout", "30"];
    let (waited, deleted) = tokio::join!(world.good(&gone), world.good(&["job", "delete", "train"]));
    assert_eq!(
        (waited.as_str(), deleted.as_str()),
        ("job train is gone\n", "delete job train successfully\n")
    );
    assert_eq!(world.good(&gone).await, "job train is gone\n");
    world.bad(1, &["job", "wait", "train"]).await;
    world.bad(2, &["job", "wait", "train", "--for", "Flying"]).await;
    world.bad(2, &["job", "wait", "train", "--timeout", "soon"]).await;
}

#[tokio::test]
async fn pods_are_listed_by_job_and_queue() {
    let world = world().await;
    let pods: Api<Pod> = world.api();
    for (name, labels, annotations) in [
        (
            "train-w-10",
            json!({"volcano.sh/job-name": "train", "volcano.sh/queue-name": "vision"}),
            json!({}),
        ),
        (
            "train-w-9",
            json!({"volcano.sh/job-name": "train", "volcano.sh/queue-name": "vision"}),
            json!({}),
        ),
        (
            "plain",
            json!({}),
            json!({"scheduling.volcano.sh/queue-name": "vision"}),
        ),
        ("other", json!({}), json!({})),
    ] {
        let pod = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}});
        let pod = serde_json::from_value(pod).expect("a pod");
        pods.create(&PostParams::default(), &pod).await.expect("a pod");
    }
    for (line, expected) in [
        ("pod list -j train -o name", "pod/train-w-9\npod/train-w-10\n"),
        (
            "pod list -q vision -A -o name",
            "pod/plain\npod/train-w-9\npod/train-w-10\n",
        ),
        (
            "pod list -q vision -j train -n default -o name",
            "pod/train-w-9\npod/train-w-10\n",
        ),
    ] {
        assert_eq!(world.say(line).await, expected, "{line}");
    }
    assert_eq!(world.say("pod list").await.lines().count(), 5);
    world.bad(2, &["pod", "list", "-j", "a=b,c"]).await;
}

#[tokio::test]
async fn jobs_are_deleted_all_at_once_only_when_that_is_said() {
    let world = world().await;
    world.bad(2, &["job", "delete"]).await;
    let out = world.say("job delete --all --wait").await;
    assert_eq!(out, "delete job hello successfully\ndelete job train successfully\n");
    let nothing = (0, String::new(), "No resources found\n".to_owned());
    assert_eq!(world.run(&["job", "delete", "--all"]).await, nothing);
}

#[tokio::test]
async fn small_tools_are_the_same_commands() {
    let world = world().await;
    let run = |program: &'static str, line: &'static str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let world = &world;
        async move {
            let (code, out, err) = world.run_as(program, &words).await;
            assert_eq!((code, err.as_str()), (0, ""), "{program} {line}");
            out
        }
    };
    run("/usr/bin/vsub", "-n small -N default -c sleep").await;
    assert_eq!(run("vjobs", "-o name").await.lines().count(), 3);
    assert!(run("vjobs", "-n small").await.starts_with("Name:         small\n"));
    assert_eq!(
        run("vqueues", "-n ml -o name").await,
        "queue.scheduling.volcano.sh/ml\n"
    );
    assert_eq!(run("vqueues", "").await.lines().count(), 5);
    assert_eq!(run("vsuspend", "-n small").await, "suspend job small successfully\n");
    assert_eq!(
        run("vcancel", "-n small -N default").await,
        "delete job small successfully\n"
    );
    for program in ["vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume"] {
        assert!(run(program, "--help").await.contains("Examples:"), "{program}");
    }
    let (code, _, err) = world.run_as("vcancel", &[]).await;
    assert!(code == 2 && err.contains("vcancel"), "{err}");
}
