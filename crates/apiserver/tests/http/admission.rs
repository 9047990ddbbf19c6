//! Admission through the API server: what is decided still holds when it is stored.

use std::sync::Arc;

use basalt_apiserver::store::{Backend, Options};
use serde_json::{Value, json};

use crate::world::World;

const QUEUES: &str = "/apis/scheduling.volcano.sh/v1beta1/queues";
const JOBS: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs";

fn queue(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec})
}

fn job(name: &str, queue: &str) -> Value {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}});
    json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {"queue": queue, "tasks": [{"name": "a", "replicas": 1, "template": template}]}})
}

/// A server with our kinds, the queues `root` and `default`, and `more`.
async fn world(options: Options, more: &[Value]) -> World {
    let world = World::with(options).await;
    for crd in basalt_api::crd::all() {
        world
            .made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json!(crd))
            .await;
    }
    for name in ["root", "default"] {
        world.made(QUEUES, queue(name, json!({}))).await;
    }
    for object in more {
        world.made(QUEUES, object.clone()).await;
    }
    world
}

/// 64 clients create children of one parent at the same time, over and over: never more than it deserves,
/// and all of it is used.
async fn never_overrun(options: Options) {
    let parent = queue(
        "parent",
        json!({"deserved": {"cpu": "10"}, "guarantee": {"resource": {"cpu": "5"}}}),
    );
    let world = Arc::new(world(options, &[parent]).await);
    let clients = (0..64).map(|client| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let mut made = 0;
            for turn in 0..4 {
                let spec = json!({"parent": "parent", "deserved": {"cpu": "300m"}, "guarantee": {"resource": {"cpu": "100m"}}});
                let answer = world.post(QUEUES, queue(&format!("c{client}-{turn}"), spec)).await;
                match answer.code {
                    201 => made += 1,
                    403 => assert!(answer.message().contains("\"parent\", which is 10"), "{}", answer.body),
                    _ => panic!("{}", answer.body),
                }
            }
            made
        })
    });
    let mut made = 0;
    for client in futures::future::join_all(clients).await {
        made += client.expect("no client failed");
    }
    assert_eq!(made, 33, "33 times 300m fit into 10");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_at_once_never_overrun_a_parent() {
    never_overrun(Options::new(Backend::Memory)).await;
    let folder = tempfile::tempdir().expect("a folder");
    never_overrun(Options::new(Backend::Disk(folder.path().join("store")))).await;
}

/// A queue becomes a parent or takes a job, never both, however close the two writes are.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_queue_gets_a_child_or_a_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = Arc::new(world(Options::new(Backend::Disk(folder.path().join("store"))), &[]).await);
    for round in 0..24 {
        let leaf = format!("leaf{round}");
        world.made(QUEUES, queue(&leaf, json!({}))).await;
        let child = queue(&format!("{leaf}-child"), json!({"parent": leaf}));
        let (child, job) = tokio::join!(
            {
                let world = Arc::clone(&world);
                tokio::spawn(async move { world.post(QUEUES, child).await.code })
            },
            {
                let (world, job) = (Arc::clone(&world), job(&format!("job{round}"), &leaf));
                tokio::spawn(async move { world.post(JOBS, job).await.code })
            }
        );
        let mut codes = [child.expect("an answer"), job.expect("an answer")];
        codes.sort_unstable();
        assert_eq!(codes, [201, 403], "round {round}");
    }
}

/// Warnings reach the client, the finalizer is there, and a patch that does not fit names its numbers.
#[tokio::test]
async fn decisions_reach_the_client() {
    let reserved = queue(
        "q",
        json!({"guarantee": {"policy": "Guaranteed", "resource": {"cpu": "1"}}}),
    );
    let world = world(Options::new(Backend::Memory), &[reserved]).await;
    let path = format!("{QUEUES}/q");
    let mut stored = world.get(&path).await.body;
    assert_eq!(stored["metadata"]["finalizers"], json!(["basalt.sh/queue"]));
    assert_eq!(stored["spec"]["state"], "Open");
    stored["spec"] = json!({"guarantee": {"resource": {"cpu": "1"}}});
    let answer = world.put(&path, stored).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert!(
        answer.warnings.iter().any(|text| text.contains("guarantee.policy")),
        "{:?}",
        answer.warnings
    );
    let answer = world
        .merge(
            &path,
            json!({"spec": {"deserved": {"cpu": "3"}, "capability": {"cpu": "2"}}}),
        )
        .await;
    assert_eq!(answer.code, 422, "{}", answer.body);
    assert!(
        answer
            .message()
            .contains("is 3, more than spec.capability[cpu], which is 2"),
        "{}",
        answer.body
    );
    // A raw write of the status does not open the way to deletion.
    let answer = world
        .merge(&format!("{path}/status"), json!({"status": {"state": "Closed"}}))
        .await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let answer = world.delete(&path, json!({})).await;
    assert_eq!(answer.code, 403, "{}", answer.body);
}
