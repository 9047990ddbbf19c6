//! A world with one agent of this machine.

use std::path::{Path, PathBuf};

use basalt_node::local::agent::{self, LocalOptions};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod, PodStatus};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::world::{PATIENCE, World, within};

pub(crate) const NODE: &str = "this-machine";

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
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) data: tempfile::TempDir,
    agent: Option<Agent>,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut LocalOptions)) -> Self {
        let world = World::new().await;
        let data = tempfile::tempdir().expect("a folder");
        let agent = Some(Agent::start(&world, data.path(), change));
        Self { world, data, agent }
    }

    pub(crate) async fn stop_agent(&mut self) {
        if let Some(agent) = self.agent.take() {
            agent.stop().await;
        }
    }

    pub(crate) fn start_agent(&mut self) {
        self.agent = Some(Agent::start(&self.world, self.data.path(), |_| {}));
    }

    pub(crate) async fn pod(&self, name: &str, spec: Value) -> Pod {
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
    pub(crate) async fn script(&self, name: &str, text: &str) -> Pod {
        self.pod(name, json!({"containers": [shell(text)]})).await
    }

    pub(crate) fn folder(&self, pod: &Pod) -> PathBuf {
        self.data
            .path()
            .join("pods")
            .join(pod.metadata.uid.as_deref().expect("a uid"))
    }

    pub(crate) fn log(&self, pod: &Pod) -> String {
        let path = self.folder(pod).join("logs/main/0.log");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines()
            .map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default())
            .collect::<Vec<_>>()
            .join("\n")
    }

    pub(crate) async fn until_log(&self, pod: &Pod, part: &str) {
        until_true(&format!("{part:?} in the log"), || self.log(pod).contains(part)).await;
    }

    pub(crate) async fn events(&self, pod: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.world.client.clone(), "default");
        let all = events.list(&ListParams::default()).await.expect("events");
        all.into_iter()
            .filter(|event| event.involved_object.name.as_deref() == Some(pod))
            .filter_map(|event| event.reason)
            .collect()
    }

    pub(crate) async fn until_event(&self, pod: &str, reason: &str) {
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

    pub(crate) async fn delete(&self, name: &str) {
        self.world
            .pods()
            .delete(name, &DeleteParams::default())
            .await
            .expect("deleted");
        self.world.until_gone(name).await;
    }

    pub(crate) async fn end(mut self) {
        self.stop_agent().await;
    }
}

fn json_patch_merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

pub(crate) fn shell(text: &str) -> Value {
    json!({"name": "main", "image": "whatever", "command": ["sh", "-c", text]})
}

pub(crate) async fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < until, "{what}: not in time");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

pub(crate) fn main_status(status: &PodStatus) -> &ContainerStatus {
    &status.container_statuses.as_ref().expect("statuses")[0]
}

pub(crate) fn exit_code(status: &PodStatus) -> Option<i32> {
    main_status(status)
        .state
        .as_ref()?
        .terminated
        .as_ref()
        .map(|t| t.exit_code)
}
