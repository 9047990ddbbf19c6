//! Nodes that are locked for queues, tried: random histories with every decision of the scheduler judged on the view that it was
//! made on, and a gang that waits for 64 nodes beside an endless stream of small jobs.

mod operation;
mod random;
mod stream;

pub use operation::{Ask, Operation};
pub use random::{History, histories, run_seed};
pub use stream::{Curve, Stream, run_stream};

use jiff::Timestamp;
use serde_json::json;

use crate::api::{Api, Key, Kind, Request, Snapshot};
use crate::kernel::{Kernel, Stuck};
use crate::queues::NAMESPACE;
use crate::whim::Whim;
use basalt_engine::Conf;

/// Cores of the nodes of a small cluster.
const CORES: [u32; 7] = [4, 4, 4, 4, 8, 8, 2];

fn node_name(node: usize) -> String {
    format!("n{node}")
}

fn node(node: usize, cores: u32) -> (Key, serde_json::Value) {
    let name = node_name(node);
    let allocatable = json!({"cpu": cores.to_string(), "memory": format!("{}Gi", cores * 4), "pods": "110"});
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {}},
        "status": {"allocatable": allocatable, "capacity": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}]}});
    (Key::new(Kind::Node, "", &name), object)
}

/// A cluster with nodes of these many cores and the queues that always exist, at rest.
fn cluster(conf: &Conf, cores: &[u32]) -> Result<Snapshot, Stuck> {
    let mut api = Api::default();
    api.set_now(Timestamp::from_second(1_800_000_000).unwrap_or(Timestamp::UNIX_EPOCH));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let namespace = (Key::new(Kind::Namespace, "", NAMESPACE), namespace);
    let nodes = cores.iter().enumerate().map(|(at, cores)| node(at, *cores));
    for (key, object) in std::iter::once(namespace).chain(nodes) {
        // Nothing is in the way of these: nobody else is there yet.
        let _made = api.handle(&Request::Create { key, object });
    }
    api.take_news();
    let mut kernel = Kernel::new(&api.snapshot(), conf, Whim::none());
    kernel.settle()?;
    Ok(kernel.api().snapshot())
}

/// A small cluster of seven nodes, at rest.
pub fn small_cluster(conf: &Conf) -> Result<Snapshot, Stuck> {
    cluster(conf, &CORES)
}
