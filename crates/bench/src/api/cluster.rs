//! The cluster that is measured: what is ours in it, and requests in the fewest words.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use basalt_api::resource_kind;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::{Method, Request};
use kube::Client;
use kube::core::WatchEvent;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const POLL: Duration = Duration::from_millis(200);
/// How soon a watch that ended is resumed, and how often at most.
const RESUME: Duration = Duration::from_millis(5);
const ENDS_MAX: u32 = 1_000;
/// How long a queue may take to open or close.
const QUEUE_MAX: Duration = Duration::from_secs(20);
/// How long what we made may take to go.
const GONE_MAX: Duration = Duration::from_mins(5);
/// Where there is no namespace controller, a namespace never goes.
const NAMESPACE_MAX: Duration = Duration::from_secs(30);

/// What is watched.
pub(super) trait Versioned: Clone + DeserializeOwned + Send + 'static {
    /// Its resourceVersion.
    fn version(&self) -> &str;
}

/// What a watch tells.
pub(super) type Events<T> = BoxStream<'static, anyhow::Result<WatchEvent<T>>>;

/// A watch that goes on where it ended: a server drops watchers that are slow for a moment, and nothing is lost by that.
struct Watch<T> {
    client: Client,
    path: String,
    version: String,
    stream: Option<Events<T>>,
    ends: u32,
}

impl<T: Versioned> Watch<T> {
    async fn next(mut self) -> anyhow::Result<Option<(WatchEvent<T>, Self)>> {
        loop {
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None => open(self.client.clone(), self.address()).await?,
            };
            let Some(Ok(event)) = stream.next().await else {
                self.ends += 1;
                ensure!(
                    self.ends < ENDS_MAX,
                    "the watch of {} ended {ENDS_MAX} times",
                    self.path
                );
                tokio::time::sleep(RESUME).await;
                continue;
            };
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) = &event {
                object.version().clone_into(&mut self.version);
            }
            self.stream = Some(stream);
            return Ok(Some((event, self)));
        }
    }

    fn address(&self) -> String {
        format!(
            "{}?watch=true&resourceVersion={}&timeoutSeconds=86400",
            self.path, self.version
        )
    }
}

async fn open<T: Versioned>(client: Client, address: String) -> anyhow::Result<Events<T>> {
    let request = Request::get(address).body(Vec::new())?;
    let stream = client.request_events::<T>(request).await?;
    Ok(stream.map(|event| event.map_err(Into::into)).boxed())
}

/// The cluster, with a namespace and a queue of ours.
#[derive(Clone)]
pub(super) struct Cluster {
    client: Client,
    name: String,
    nodes: Vec<String>,
}

impl Cluster {
    /// Makes a namespace and a queue of the same name.
    pub(super) async fn prepare(client: Client, selector: Option<&str>) -> anyhow::Result<Self> {
        let now = jiff::Timestamp::now().as_millisecond();
        let mut cluster = Self {
            client,
            name: format!("basalt-bench-{now}"),
            nodes: Vec::new(),
        };
        cluster.nodes = cluster.schedulable(selector).await?;
        ensure!(
            !cluster.nodes.is_empty(),
            "no node is Ready and schedulable: `basalt nodes --nodes 100` serves fake ones"
        );
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.name}});
        cluster
            .send(Method::POST, &resource_kind::NAMESPACE.collection_path(""), &namespace)
            .await
            .context("creating a namespace")?;
        let queue = json!({
            "apiVersion": resource_kind::QUEUE.api_version, "kind": resource_kind::QUEUE.kind,
            "metadata": {"name": cluster.name}, "spec": {"weight": 1},
        });
        let made = cluster
            .send(Method::POST, &resource_kind::QUEUE.collection_path(""), &queue)
            .await;
        if let Err(error) = made {
            cluster.clean_up().await?;
            return Err(error).context("creating a queue; are the custom resources installed?");
        }
        if let Err(error) = cluster.until_queue_is("Open").await {
            cluster.clean_up().await?;
            return Err(error);
        }
        Ok(cluster)
    }

    /// The nodes that take pods, by name.
    async fn schedulable(&self, selector: Option<&str>) -> anyhow::Result<Vec<String>> {
        let selector = selector.map(|s| format!("?labelSelector={}", s.replace('=', "%3D").replace(',', "%2C")));
        let path = resource_kind::NODE.collection_path("") + &selector.unwrap_or_default();
        let list = self.get(&path).await.context("listing nodes")?;
        let takes_pods = |node: &&Value| {
            let conditions = node["status"]["conditions"].as_array();
            let ready = conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"));
            ready && node["spec"]["unschedulable"] != true
        };
        let nodes = list["items"].as_array().into_iter().flatten().filter(takes_pods);
        let mut names: Vec<String> = nodes
            .filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The name of our namespace and of our queue.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The nodes that take pods.
    pub(super) fn nodes(&self) -> &[String] {
        &self.nodes
    }

    fn of_pods(&self) -> String {
        resource_kind::POD.collection_path(&self.name)
    }

    fn of_jobs(&self) -> String {
        resource_kind::JOB.collection_path(&self.name)
    }

    fn of_groups(&self) -> String {
        resource_kind::POD_GROUP.collection_path(&self.name)
    }

    /// All pods of ours from now on.
    pub(super) async fn watch_pods<T: Versioned>(&self) -> anyhow::Result<Events<T>> {
        self.watch(self.of_pods()).await
    }

    /// All PodGroups of ours from now on.
    pub(super) async fn watch_groups<T: Versioned>(&self) -> anyhow::Result<Events<T>> {
        self.watch(self.of_groups()).await
    }

    async fn watch<T: Versioned>(&self, path: String) -> anyhow::Result<Events<T>> {
        let list = self.get(&format!("{path}?limit=1")).await?;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0").to_owned();
        let watch = Watch {
            client: self.client.clone(),
            path,
            version,
            stream: None,
            ends: 0,
        };
        Ok(stream::try_unfold(watch, Watch::next).boxed())
    }

    /// Creates a Job of ours.
    pub(super) async fn create_job(&self, job: &Value) -> anyhow::Result<()> {
        self.send(Method::POST, &self.of_jobs(), job).await.map(drop)
    }

    /// Merges into a PodGroup of ours.
    pub(super) async fn patch_group(&self, name: &str, patch: &Value) -> anyhow::Result<()> {
        let path = format!("{}/{name}", self.of_groups());
        self.send(Method::PATCH, &path, patch).await.map(drop)
    }

    /// Asks for the end of all Jobs of ours and what they made. Without a garbage collector nobody else would delete it.
    pub(super) async fn delete_jobs(&self) -> anyhow::Result<()> {
        let at_once = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        for path in [self.of_jobs(), self.of_groups(), self.of_pods()] {
            self.send(Method::DELETE, &path, &at_once).await?;
        }
        Ok(())
    }

    /// Waits until nothing is left of our Jobs.
    pub(super) async fn until_empty(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let mut left = 0;
            for path in [self.of_jobs(), self.of_groups(), self.of_pods()] {
                let list = self.get(&format!("{path}?limit=1")).await?;
                left += list["items"].as_array().map_or(0, Vec::len);
            }
            if left == 0 {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < GONE_MAX,
                "Jobs, PodGroups or pods of namespace {} do not go",
                self.name
            );
            // A controller may have made a pod after we deleted all.
            self.delete_jobs().await?;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Deletes all that is ours.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        self.delete_jobs().await?;
        self.until_empty().await?;
        self.delete_queue()
            .await
            .with_context(|| format!("deleting the queue {}", self.name))?;
        let path = resource_kind::NAMESPACE.object_path("", &self.name);
        self.send(Method::DELETE, &path, &json!({})).await?;
        let begun = Instant::now();
        while self.exists(&path).await? {
            if begun.elapsed() > NAMESPACE_MAX {
                eprintln!("the namespace {} is still being deleted", self.name);
                break;
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Queues are deleted when they are closed; a Command closes them with any of the controllers.
    async fn delete_queue(&self) -> anyhow::Result<()> {
        let path = resource_kind::QUEUE.object_path("", &self.name);
        if !self.exists(&path).await? {
            return Ok(());
        }
        let queue = self.get(&path).await?;
        let target = json!({
            "apiVersion": resource_kind::QUEUE.api_version, "kind": resource_kind::QUEUE.kind, "name": self.name, "uid": queue["metadata"]["uid"],
        });
        let command = json!({
            "apiVersion": resource_kind::COMMAND.api_version, "kind": resource_kind::COMMAND.kind, "metadata": {"name": format!("close-{}", self.name)},
            "action": "CloseQueue", "target": target,
        });
        let commands = resource_kind::COMMAND.collection_path(&self.name);
        self.send(Method::POST, &commands, &command).await?;
        self.until_queue_is("Closed").await?;
        self.send(Method::DELETE, &path, &json!({})).await?;
        let begun = Instant::now();
        while self.exists(&path).await? {
            ensure!(begun.elapsed() < QUEUE_MAX, "it is still being deleted");
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    async fn until_queue_is(&self, state: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let queue = self.get(&resource_kind::QUEUE.object_path("", &self.name)).await?;
            if queue["status"]["state"] == state {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < QUEUE_MAX,
                "the queue {} does not become {state}: do controllers run (`basalt controllers`)?",
                self.name
            );
            tokio::time::sleep(POLL).await;
        }
    }

    async fn exists(&self, path: &str) -> anyhow::Result<bool> {
        match self.client.request::<Value>(Request::get(path).body(Vec::new())?).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let request = Request::get(path).body(Vec::new())?;
        self.client
            .request(request)
            .await
            .with_context(|| format!("reading {path}"))
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let kind = if method == Method::PATCH {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let text = format!("{method} {path}");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, kind)
            .body(body.to_string().into_bytes())?;
        self.client.request(request).await.context(text)
    }
}
