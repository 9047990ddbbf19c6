//! This machine as a node: real shims, real processes, the real API server in memory.

#[path = "shared/world.rs"]
mod world;

use std::path::{Path, PathBuf};

use basalt_node::local::agent::{self, LocalOptions};
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Event, Node, Pod, PodStatus};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use world::{PATIENCE, World, is_true, until, within};

const NODE: &str = "this-machine";

/// A running agent; to be stopped by hand.
struct Agent {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Agent {
    fn start(world: &World, data: &Path, change: impl FnOnce(&mut LocalOptions)) -> Self {
        let mut options = LocalOptions {
            name: Some(NODE.to_owned()),
            program: PathBuf::from(env!("CARGO_BIN_EXE_pod-shim")),
            backoff_ms: (20, 100),
            ..LocalOptions::new(data.to_owned())
        };
        change(&mut options);
        let (stop, stopped) = oneshot::channel();
        let client = world.client.clone();
        let task = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            agent::run(client, options, shutdown).await.expect("the agent runs");
        });
        Self { stop, task }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        within("the agent's end", self.task).await.expect("the agent ends");
    }
}

/// A world with one agent.
struct Scene {
    world: World,
    data: tempfile::TempDir,
    agent: Option<Agent>,
}

impl Scene {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut LocalOptions)) -> Self {
        let world = World::new().await;
        let data = tempfile::tempdir().expect("a folder");
        let agent = Some(Agent::start(&world, data.path(), change));
        Self { world, data, agent }
    }

    async fn stop_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.stop().await;
        }
    }

    fn start_agent(&mut self) {
        self.agent = Some(Agent::start(&self.world, self.data.path(), |_| {}));
    }

    async fn pod(&self, name: &str, spec: Value) -> Pod {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"nodeName": NODE, "restartPolicy": "Never"},
        });
        json_patch_merge(&mut pod["spec"], spec);
        let pod = serde_json::from_value(pod).expect("a pod");
        let created = self.world.pods().create(&PostParams::default(), &pod).await;
        created.expect("the pod is created")
    }

    /// A pod with one shell script.
    async fn script(&self, name: &str, text: &str) -> Pod {
        self.pod(name, json!({"containers": [shell(text)]})).await
    }

    fn folder(&self, pod: &Pod) -> PathBuf {
        self.data
            .path()
            .join("pods")
            .join(pod.metadata.uid.as_deref().expect("a uid"))
    }

    fn log(&self, pod: &Pod) -> String {
        let path = self.folder(pod).join("logs/main/0.log");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines()
            .map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n")
    }

    async fn until_log(&self, pod: &Pod, part: &str) {
        until_true(&format!("{part:?} in the log"), || self.log(pod).contains(part)).await;
    }

    async fn events(&self, pod: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.world.client.clone(), "default");
        let all = events.list(&ListParams::default()).await.expect("events");
        all.into_iter()
            .filter(|event| event.involved_object.name.as_deref() == Some(pod))
            .filter_map(|event| event.reason)
            .collect()
    }

    async fn until_event(&self, pod: &str, reason: &str) {
        let until = tokio::time::Instant::now() + PATIENCE;
        while !self.events(pod).await.iter().any(|found| found == reason) {
            assert!(
                tokio::time::Instant::now() < until,
                "{reason} on {pod}: {:?}",
                self.events(pod).await
            );
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    async fn delete(&self, name: &str) {
        self.world
            .pods()
            .delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
        self.world.until_gone(name).await;
    }

    async fn end(mut self) {
        self.stop_agent().await;
    }
}

fn json_patch_merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

fn shell(text: &str) -> Value {
    json!({"name": "main", "image": "whatever", "command": ["sh", "-c", text]})
}

async fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < until, "{what}: not in time");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

fn main_status(status: &PodStatus) -> &ContainerStatus {
    &status.container_statuses.as_ref().expect("statuses")[0]
}

fn exit_code(status: &PodStatus) -> Option<i32> {
    main_status(status)
        .state
        .as_ref()?
        .terminated
        .as_ref()
        .map(|t| t.exit_code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_run_and_end_as_they_do() {
    let scene = Scene::new().await;
    for (name, script, phase, code) in [
        ("well", "echo hello; exit 0", "Succeeded", 0),
        ("ill", "echo bad >&2; exit 7", "Failed", 7),
        ("killed", "kill -9 $$$$", "Failed", 137),
    ] {
        let pod = scene.script(name, script).await;
        let status = scene.world.until_phase(name, phase).await;
        assert_eq!(exit_code(&status), Some(code), "{name}");
        assert!(
            status.pod_ip.as_deref().is_some_and(|ip| ip.starts_with("127.64.")),
            "{status:?}"
        );
        assert!(is_true(Some(&status), "PodScheduled") && !is_true(Some(&status), "Ready"));
        assert_eq!(status.qos_class.as_deref(), Some("BestEffort"));
        assert!(scene.folder(&pod).exists(), "logs stay until the object goes");
        scene.until_event(name, "ImageNotPulled").await;
        scene.delete(name).await;
        let folder = scene.folder(&pod);
        until_true("the folder's end", || !folder.exists()).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_tells_what_the_machine_has() {
    let scene = Scene::new().await;
    let ready = |node: Option<&Node>| {
        let status = node.and_then(|n| n.status.as_ref());
        let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
    };
    let nodes: Api<Node> = Api::all(scene.world.client.clone());
    let node = until(nodes.clone(), NODE, ready).await.expect("the node");
    let allocatable = node.status.and_then(|s| s.allocatable).expect("allocatable");
    assert_eq!(allocatable["pods"].0, "500");
    assert!(
        allocatable.contains_key("cpu") && allocatable.contains_key("memory"),
        "{allocatable:?}"
    );
    // Somebody deletes it: it comes back, for the machine is still there.
    nodes.delete(NODE, &DeleteParams::default()).await.expect("deleted");
    until(nodes, NODE, ready).await.expect("the node again");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_pod_ends_within_its_grace() {
    let scene = Scene::new().await;
    let pod = scene
        .script(
            "long",
            "trap 'echo term; exit 3' TERM; echo up; while :; do sleep 0.05; done",
        )
        .await;
    scene.world.until_phase("long", "Running").await;
    scene.until_log(&pod, "up").await;
    scene.delete("long").await;
    // A pod that does not listen is killed.
    let deaf = scene
        .pod(
            "deaf",
            json!({"containers": [shell("trap '' TERM; echo up; sleep 60")], "terminationGracePeriodSeconds": 1}),
        )
        .await;
    scene.until_log(&deaf, "up").await;
    scene.delete("deaf").await;
    let folders = scene.data.path().join("pods");
    until_true("no folders", || std::fs::read_dir(&folders).expect("pods").count() == 0).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_pod_is_given() {
    let scene = Scene::new().await;
    let maps: Api<ConfigMap> = Api::namespaced(scene.world.client.clone(), "default");
    let map = |text: &str| json!({"metadata": {"name": "m"}, "data": {"key": text}});
    let pod = scene
        .pod(
            "given",
            json!({
                "volumes": [
                    {"name": "files", "configMap": {"name": "m"}},
                    {"name": "empty", "emptyDir": {}},
                    {"name": "labels", "downwardAPI": {"items": [{"path": "app", "fieldRef": {"fieldPath": "metadata.labels['app']"}}]}},
                ],
                "hostname": "given-host", "subdomain": "group",
                "containers": [{
                    "name": "main", "image": "x",
                    "command": ["sh", "-c", "echo \"$A|$B|$IP|$(cat /files/key)|$(cat /labels/app)|$(hostname)|$HOME\"; touch /empty/x && echo wrote; id -u; grep -c group.default.svc.cluster.local /etc/hosts; while [ \"$(cat /files/key)\" = one ]; do sleep 0.02; done; cat /files/key"],
                    "env": [
                        {"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"},
                        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    ],
                    "volumeMounts": [
                        {"name": "files", "mountPath": "/files"}, {"name": "empty", "mountPath": "/empty"},
                        {"name": "labels", "mountPath": "/labels"},
                    ],
                }],
            }),
        )
        .await;
    // It waits for the ConfigMap, and says so.
    scene.until_event("given", "FailedMount").await;
    let one = serde_json::from_value(map("one")).expect("a map");
    maps.create(&PostParams::default(), &one).await.expect("created");
    scene.until_log(&pod, "wrote").await;
    let status = scene.world.until_phase("given", "Running").await;
    let address = status.pod_ip.expect("an address");
    // The file follows the object.
    maps.patch("m", &PatchParams::default(), &Patch::Merge(map("two")))
        .await
        .expect("patched");
    scene.world.until_phase("given", "Succeeded").await;
    let user = if rustix::process::geteuid().is_root() {
        "65534".to_owned()
    } else {
        rustix::process::geteuid().as_raw().to_string()
    };
    assert_eq!(
        scene.log(&pod),
        format!("1|12|{address}|one|given|given-host|/tmp\nwrote\n{user}\n1\ntwo")
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_is_refused_with_a_reason() {
    let scene = Scene::new().await;
    let with_volume = |volume: Value| json!({"volumes": [volume], "containers": [shell("true")]});
    for (name, spec, reason) in [
        (
            "no-command",
            json!({"containers": [{"name": "main", "image": "nginx"}]}),
            "NoCommand",
        ),
        (
            "host-path",
            with_volume(json!({"name": "v", "hostPath": {"path": "/etc"}})),
            "HostPathNotAllowed",
        ),
        (
            "nfs",
            with_volume(json!({"name": "v", "nfs": {"server": "s", "path": "/"}})),
            "UnsupportedVolume",
        ),
        (
            "large",
            json!({"containers": [{"name": "main", "image": "x", "command": ["true"], "resources": {"requests": {"cpu": "100000"}}}]}),
            "OutOfcpu",
        ),
        (
            "gpu",
            json!({"containers": [{"name": "main", "image": "x", "command": ["true"], "resources": {"limits": {"nvidia.com/gpu": "1000"}}}]}),
            "OutOfnvidia.com/gpu",
        ),
    ] {
        let pod = scene.pod(name, spec).await;
        let status = scene.world.until_phase(name, "Failed").await;
        assert_eq!(status.reason.as_deref(), Some(reason), "{status:?}");
        assert!(status.message.is_some_and(|m| !m.is_empty()));
        scene.until_event(name, reason).await;
        assert!(!scene.folder(&pod).exists());
        scene.delete(name).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_outlive_the_agent() {
    let mut scene = Scene::new().await;
    let go = scene.data.path().join("go");
    let wait = "echo began; while [ ! -e /work/go ]; do sleep 0.02; done; echo done";
    let mounted = |claim: &str| {
        json!({
            "volumes": [{"name": "work", "persistentVolumeClaim": {"claimName": claim}}],
            "containers": [{"name": "main", "image": "x", "command": ["sh", "-c", wait], "volumeMounts": [{"name": "work", "mountPath": "/work"}]}],
        })
    };
    let claims: Api<k8s_openapi::api::core::v1::PersistentVolumeClaim> =
        Api::namespaced(scene.world.client.clone(), "default");
    for name in ["slow", "stopped"] {
        let claim = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})).expect("a claim");
        claims.create(&PostParams::default(), &claim).await.expect("created");
    }
    let slow = scene.pod("slow", mounted("slow")).await;
    let ends = scene.pod("ends", mounted("stopped")).await;
    let gone = scene.script("gone", "echo began; sleep 60").await;
    for pod in [&slow, &ends, &gone] {
        scene.until_log(pod, "began").await;
    }
    let before = scene.world.until_phase("slow", "Running").await;
    scene.stop_agent().await;
    assert!(!go.exists());
    // One ends meanwhile, one's object goes meanwhile.
    let folders = scene.data.path().join("volumes/default");
    std::fs::write(folders.join("stopped/go"), "").expect("written");
    scene.until_log(&ends, "done").await;
    let now = DeleteParams::default().grace_period(0);
    scene.world.pods().delete("gone", &now).await.expect("deleted");
    scene.start_agent();
    let status = scene.world.until_phase("ends", "Succeeded").await;
    assert_eq!((exit_code(&status), main_status(&status).restart_count), (Some(0), 0));
    let gone_folder = scene.folder(&gone);
    until_true("the folder of the pod that is gone", || !gone_folder.exists()).await;
    std::fs::write(folders.join("slow/go"), "").expect("written");
    let after = scene.world.until_phase("slow", "Succeeded").await;
    assert_eq!(before.pod_ip, after.pod_ip);
    assert_eq!(scene.log(&slow), "began\ndone", "it ran once");
    assert!(folders.join("slow/go").exists(), "a claim's contents stay");
    scene.end().await;
}
