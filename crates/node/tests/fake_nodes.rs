//! Fake nodes on the real API server, in memory and in this process.

#[path = "shared/world.rs"]
mod world;

use std::time::Duration;

use basalt_node::fake::{self, Created, FakeOptions, NodeTemplate, Size};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use world::{World, is_true, until};

/// A running fake kubelet; to be stopped by hand.
struct Kubelet {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Kubelet {
    fn start(client: Client) -> Self {
        let (stop, stopped) = oneshot::channel();
        let shutdown = async {
            let _ = stopped.await;
        };
        let options = FakeOptions {
            orphan_grace: Some(Duration::from_millis(50)),
            ..FakeOptions::default()
        };
        let task = tokio::spawn(async move { fake::run(client, options, shutdown).await.expect("the kubelet runs") });
        Self { stop, task }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.expect("the kubelet ends");
    }
}

/// Fake nodes and their pods in it.
impl World {
    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    async fn nodes_of_size(&self, count: u32) -> Created {
        let template = NodeTemplate::of_size(&Size::default());
        fake::create_nodes(self.client.clone(), count, &template)
            .await
            .expect("nodes")
    }

    /// A pod that is bound from the start.
    async fn pod(&self, name: &str, node: &str, annotations: Value) -> Pod {
        self.pod_on(name, Some(node), annotations).await
    }

    async fn pod_on(&self, name: &str, node: Option<&str>, annotations: Value) -> Pod {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "nodeName": node, "restartPolicy": "Never",
                "initContainers": [{"name": "init", "image": "busybox"}],
                "containers": [{"name": "main", "image": "busybox"}],
            },
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .expect("the pod is created")
    }
}

#[tokio::test]
async fn nodes_are_made_once() {
    let world = World::new().await;
    assert_eq!(world.nodes_of_size(3).await, Created { created: 3, kept: 0 });
    assert_eq!(world.nodes_of_size(5).await, Created { created: 2, kept: 3 });
    let nodes = world
        .nodes()
        .list(&ListParams::default().labels("basalt.sh/fake=true"))
        .await
        .unwrap();
    assert_eq!(nodes.items.len(), 5);
    for node in nodes {
        let status = node.status.unwrap();
        assert_eq!(status.allocatable.unwrap()["cpu"].0, "16");
        assert!(
            status
                .conditions
                .unwrap()
                .iter()
                .any(|c| c.type_ == "Ready" && c.status == "True")
        );
    }
}

#[tokio::test]
async fn a_pod_runs_until_it_is_deleted() {
    let world = World::new().await;
    world.nodes_of_size(1).await;
    let kubelet = Kubelet::start(world.client.clone());
    world.pod("p", "node-0", json!({})).await;
    let running = world.until_phase("p", "Running").await;
    assert_eq!(running.host_ip.as_deref(), Some("172.16.0.1"));
    assert!(running.start_time.is_some() && running.pod_ip.as_deref().is_some_and(|ip| ip.starts_with("10.")));
    for kind in ["PodScheduled", "Initialized", "ContainersReady", "Ready"] {
        assert!(is_true(Some(&running), kind), "{kind}");
    }
    let container = &running.container_statuses.unwrap()[0];
    assert!(container.ready && container.state.as_ref().unwrap().running.is_some());
    assert!(
        running.init_container_statuses.unwrap()[0]
            .state
            .as_ref()
            .unwrap()
            .terminated
            .is_some()
    );
    // The grace period is 30 s; a fake pod does not need it.
    world.pods().delete("p", &DeleteParams::default()).await.unwrap();
    world.until_gone("p").await;
    kubelet.stop().await;
}

#[tokio::test]
async fn a_pod_starts_when_it_is_bound_and_in_one_write() {
    let world = World::new().await;
    world.nodes_of_size(1).await;
    let kubelet = Kubelet::start(world.client.clone());
    let made = world.pod_on("p", None, json!({})).await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-0"}});
    let _: Value = world
        .pods()
        .create_subresource("binding", "p", &PostParams::default(), &binding)
        .await
        .unwrap();
    let bound = world.pods().get("p").await.unwrap();
    world.until_phase("p", "Running").await;
    let revision = |pod: &Pod| pod.resource_version().unwrap().parse::<u64>().unwrap();
    let running = world.pods().get("p").await.unwrap();
    // One for the binding, one for the start; nothing else writes here.
    assert!(
        revision(&running) <= revision(&made) + 2,
        "{} {}",
        revision(&made),
        revision(&running)
    );
    assert!(revision(&bound) > revision(&made));
    kubelet.stop().await;
}

#[tokio::test]
async fn annotations_say_how_a_pod_ends() {
    let world = World::new().await;
    world.nodes_of_size(1).await;
    let kubelet = Kubelet::start(world.client.clone());
    for (name, annotations, phase, code, reason) in [
        (
            "good",
            json!({"basalt.sh/run-time": "100ms"}),
            "Succeeded",
            0,
            "Completed",
        ),
        (
            "bad",
            json!({"basalt.sh/run-time": "100ms", "basalt.sh/exit-code": "3"}),
            "Failed",
            3,
            "Error",
        ),
    ] {
        world.pod(name, "node-0", annotations).await;
        let status = world.until_phase(name, phase).await;
        let state = status.container_statuses.as_ref().unwrap()[0].state.clone().unwrap();
        let end = state.terminated.unwrap();
        assert_eq!(
            (end.exit_code, end.reason.as_deref(), state.running),
            (code, Some(reason), None)
        );
        assert!(!is_true(Some(&status), "Ready") && is_true(Some(&status), "PodScheduled"));
        world.pods().delete(name, &DeleteParams::default()).await.unwrap();
        world.until_gone(name).await;
    }
    world.pod("odd", "node-0", json!({"basalt.sh/run-time": "soon"})).await;
    world.until_phase("odd", "Running").await;
    let events: Api<Event> = Api::namespaced(world.client.clone(), "default");
    let warned = events.list(&ListParams::default()).await.unwrap();
    assert!(
        warned.iter().any(|e| e.reason.as_deref() == Some("InvalidAnnotation")),
        "{warned:?}"
    );
    kubelet.stop().await;
}

#[tokio::test]
async fn nodes_come_and_go_at_run_time() {
    let world = World::new().await;
    let kubelet = Kubelet::start(world.client.clone());
    let bare = json!({"metadata": {"name": "late", "labels": {"basalt.sh/fake": "true"}}});
    world
        .nodes()
        .create(&PostParams::default(), &serde_json::from_value(bare).unwrap())
        .await
        .unwrap();
    let ready = |node: Option<&Node>| {
        let conditions = node
            .and_then(|n| n.status.as_ref()?.conditions.as_deref())
            .unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
    };
    let node = until(world.nodes(), "late", ready).await.unwrap();
    assert_eq!(node.labels()["kubernetes.io/hostname"], "late");
    assert_eq!(node.status.unwrap().allocatable.unwrap()["memory"].0, "64Gi");

    world.pod("p", "late", json!({})).await;
    world.until_phase("p", "Running").await;
    world.nodes().delete("late", &DeleteParams::default()).await.unwrap();
    world.until_gone("p").await;

    // Bound to a node that never was: gone after the grace of orphans.
    world.pod("orphan", "never", json!({})).await;
    world.until_gone("orphan").await;
    kubelet.stop().await;
}

#[tokio::test]
async fn a_restart_changes_nothing() {
    let world = World::new().await;
    world.nodes_of_size(1).await;
    let kubelet = Kubelet::start(world.client.clone());
    world.pod("long", "node-0", json!({})).await;
    world.pod("short", "node-0", json!({"basalt.sh/run-time": "2s"})).await;
    world.until_phase("long", "Running").await;
    world.until_phase("short", "Running").await;
    kubelet.stop().await;
    world.pods().delete("long", &DeleteParams::default()).await.unwrap();
    world.pod("new", "node-0", json!({})).await;

    let kubelet = Kubelet::start(world.client.clone());
    world.until_gone("long").await;
    let new = world.until_phase("new", "Running").await;
    let short = world.until_phase("short", "Succeeded").await;
    assert_ne!(new.pod_ip, short.pod_ip);
    let end = short.container_statuses.unwrap()[0]
        .state
        .clone()
        .unwrap()
        .terminated
        .unwrap();
    assert_eq!(end.started_at.map(|t| t.0), short.start_time.map(|t| t.0));
    kubelet.stop().await;
}

#[tokio::test]
async fn many_pods_run_at_once() {
    const PODS: usize = 500;
    let world = World::new().await;
    world.nodes_of_size(50).await;
    for i in 0..PODS {
        world
            .pod(
                &format!("p{i}"),
                &format!("node-{}", i % 50),
                json!({"basalt.sh/run-time": "1ms"}),
            )
            .await;
    }
    let kubelet = Kubelet::start(world.client.clone());
    for i in 0..PODS {
        world.until_phase(&format!("p{i}"), "Succeeded").await;
    }
    let pods = world.pods().list(&ListParams::default()).await.unwrap();
    let mut addresses: Vec<String> = pods.into_iter().filter_map(|p| p.status?.pod_ip).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), PODS);
    kubelet.stop().await;
}

#[tokio::test]
async fn nodes_with_a_heartbeat_have_leases_and_all_goes_with_them() {
    let world = World::new().await;
    world.nodes_of_size(3).await;
    let options = FakeOptions {
        heartbeat: Some(Duration::from_millis(100)),
        ..FakeOptions::default()
    };
    let serving = tokio::spawn(fake::run(world.client.clone(), options, std::future::pending()));
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-node-lease");
    let renewed = |lease: Option<&Lease>| Some(lease?.spec.as_ref()?.renew_time.as_ref()?.0);
    let first = until(leases.clone(), "node-2", move |l: Option<&Lease>| renewed(l).is_some()).await;
    let first = first.expect("a lease");
    assert_eq!(first.owner_references()[0].name, "node-2");
    let before = renewed(Some(&first));
    until(leases.clone(), "node-2", move |l: Option<&Lease>| renewed(l) > before).await;
    serving.abort();

    world.pod("p", "node-1", json!({})).await;
    let other = json!({"metadata": {"name": "other-1", "labels": {"basalt.sh/fake": "true"}}});
    let other = serde_json::from_value(other).unwrap();
    world.nodes().create(&PostParams::default(), &other).await.unwrap();
    let template = NodeTemplate::of_size(&Size::default());
    let removed = fake::remove_nodes(world.client.clone(), &template).await.unwrap();
    assert_eq!((removed.nodes, removed.pods), (3, 1));
    let names = |list: kube::api::ObjectList<Node>| list.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    let all = ListParams::default();
    assert_eq!(names(world.nodes().list(&all).await.unwrap()), ["other-1"]);
    assert!(world.pods().list(&all).await.unwrap().items.is_empty());
    assert!(leases.list(&all).await.unwrap().items.is_empty());
    // Nothing is left to remove.
    let removed = fake::remove_nodes(world.client.clone(), &template).await.unwrap();
    assert_eq!((removed.nodes, removed.pods), (0, 0));
}

#[tokio::test]
async fn a_node_that_was_tainted_as_lost_is_ready_again() {
    let world = World::new().await;
    world.nodes_of_size(1).await;
    let taints = json!({"spec": {"taints": [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "gpu", "effect": "NoSchedule"},
    ]}});
    let patch = Patch::Merge(taints);
    world
        .nodes()
        .patch("node-0", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let template = NodeTemplate::of_size(&Size::default());
    let missing = fake::nodes_not_ready(world.client.clone(), 2, &template).await.unwrap();
    assert_eq!(missing, 2);
    let kubelet = Kubelet::start(world.client.clone());
    let keys = |node: Option<&Node>| -> Vec<String> {
        let taints = node.and_then(|n| n.spec.as_ref()?.taints.clone()).unwrap_or_default();
        taints.into_iter().map(|t| t.key).collect()
    };
    until(world.nodes(), "node-0", move |n: Option<&Node>| keys(n) == ["gpu"]).await;
    let missing = fake::nodes_not_ready(world.client.clone(), 2, &template).await.unwrap();
    assert_eq!(missing, 1);
    kubelet.stop().await;
}
