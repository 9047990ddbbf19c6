//! `basalt nodes`: fake nodes on any cluster.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use basalt_node::fake::{self, FakeOptions, NodeTemplate, Size};
use kube::Client;

use crate::flags::connection::ConnectionFlags;
use basalt_runtime::process;

/// How long the cluster may take to accept all nodes.
const READY_MAX: Duration = Duration::from_mins(2);
const READY_POLL: Duration = Duration::from_millis(200);

/// How fake nodes look.
#[derive(Debug, clap::Args)]
pub struct NodeFlags {
    /// Cores of each fake node
    #[arg(long = "node-cpu", value_name = "QUANTITY", default_value = "16")]
    cpu: String,
    /// Memory of each fake node
    #[arg(long = "node-memory", value_name = "QUANTITY", default_value = "64Gi")]
    memory: String,
    /// GPUs (nvidia.com/gpu) of each fake node
    #[arg(long = "node-gpu", value_name = "N", default_value_t = 0)]
    gpu: u32,
    /// A Node manifest that the fake nodes are made after, instead of the three flags above
    #[arg(long = "node-template", value_name = "FILE", conflicts_with_all = ["cpu", "memory", "gpu"])]
    template: Option<PathBuf>,
}

impl NodeFlags {
    /// Reads the file that the flags name, if they name one.
    pub fn template(&self) -> anyhow::Result<NodeTemplate> {
        let gpu = (self.gpu > 0).then(|| self.gpu.to_string());
        let size = Size::new(&self.cpu, &self.memory, gpu.as_deref())?;
        let Some(path) = &self.template else {
            return Ok(NodeTemplate::of_size(&size));
        };
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading --node-template {}", path.display()))?;
        Ok(NodeTemplate::from_yaml(&text, &size)?)
    }
}

/// Serve fake nodes on any cluster: they run the pods bound to them without running anything.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The nodes node-0, node-1, … are registered if they do not exist, and every node with the label basalt.sh/fake=true is
served. Each has a Lease that is renewed, so that Kubernetes' node controller takes it for alive. How long a pod runs and how
it ends is said by its annotations: see docs/fake-nodes.md. When this process ends, the nodes stay, and a node controller
finds them lost after its grace period; the next start makes them Ready again.

It needs these rights: nodes create, get, list, watch, patch, delete; nodes/status patch; pods list, watch, delete;
pods/status patch; leases (in kube-node-lease) create, patch, delete; events create.

Examples:
  basalt nodes --kubeconfig ~/.kube/config --nodes 100
  basalt nodes --nodes 1000 --node-cpu 64 --node-memory 256Gi --node-gpu 8
  basalt nodes --nodes 10 --node-template node.yaml      labels, taints and sizes as in a manifest
  basalt nodes --nodes 3 --delete-on-exit
  basalt nodes --remove                                  delete node-0, node-1, … and what is bound to them")]
pub struct NodesArguments {
    #[command(flatten)]
    connection: ConnectionFlags,
    /// How many nodes to register, if they do not exist; 0 serves those that do
    #[arg(long, value_name = "N", default_value_t = 0)]
    nodes: u32,
    #[command(flatten)]
    looks: NodeFlags,
    /// How often the Lease of each node is renewed, in seconds; 0: never, for clusters without a node controller
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    heartbeat: u64,
    /// Requests that may be on their way at once
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    in_flight: u16,
    /// Delete the nodes, and the pods bound to them, when this process is told to end
    #[arg(long, conflicts_with = "remove")]
    delete_on_exit: bool,
    /// Delete all fake nodes of this name, and the pods bound to them, and end
    #[arg(long, conflicts_with = "nodes")]
    remove: bool,
}

/// Serves until it is told to stop.
pub fn main(arguments: NodesArguments) -> anyhow::Result<()> {
    process::run(|mut stop| async move {
        let template = arguments.looks.template()?;
        let client = arguments.connection.client().await?;
        if arguments.remove {
            return remove(client, &template).await;
        }
        let options = FakeOptions {
            requests_in_flight: arguments.in_flight.into(),
            // Other pods are others' business.
            orphan_grace: None,
            heartbeat: (arguments.heartbeat > 0).then(|| Duration::from_secs(arguments.heartbeat)),
            ..FakeOptions::default()
        };
        let (leave, left) = tokio::sync::oneshot::channel::<()>();
        let serving = fake::run(client.clone(), options, async {
            // An error means that the sender is gone, which is an end as well.
            let _ = left.await;
        });
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            () = stop.wished() => {}
            failure = &mut serving => return failure.context("the fake nodes failed"),
            failure = serve(&client, arguments.nodes, &template) => return failure,
        }
        drop(leave);
        serving.await?;
        if arguments.delete_on_exit {
            remove(client, &template).await?;
        }
        Ok(())
    })
}

/// Registers the nodes and says when they are ready; comes back only if that fails.
async fn serve(client: &Client, count: u32, template: &NodeTemplate) -> anyhow::Result<()> {
    let made = fake::create_nodes(client.clone(), count, template).await?;
    let begun = std::time::Instant::now();
    loop {
        let missing = fake::nodes_not_ready(client.clone(), count, template).await?;
        if missing == 0 {
            break;
        }
        ensure!(
            begun.elapsed() < READY_MAX,
            "{missing} of {count} nodes are not Ready after {} s: look at their conditions and taints with `kubectl describe \
             nodes`; a node of the same name without the label basalt.sh/fake=true is not ours",
            READY_MAX.as_secs()
        );
        tokio::time::sleep(READY_POLL).await;
    }
    println!(
        "basalt nodes is ready: {count} fake nodes ({} made, {} found)",
        made.created, made.kept
    );
    std::future::pending().await
}

async fn remove(client: Client, template: &NodeTemplate) -> anyhow::Result<()> {
    let removed = fake::remove_nodes(client, template).await?;
    println!(
        "{} fake nodes and {} pods that were bound to them are deleted",
        removed.nodes, removed.pods
    );
    Ok(())
}
