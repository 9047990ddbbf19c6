//! The state machine of queues, tried: every short sequence of operations with a crash after every write, and any number
//! of long random ones.

pub(crate) mod canon;
mod explore;
pub(crate) mod operation;
pub(crate) mod random;
pub(crate) mod spread;

pub use explore::{Explored, explore};
pub use operation::{By, Operation, Work};
pub use random::{Failure, Ran, random, run_seed};

use basalt_engine::Conf;
use jiff::Timestamp;
use serde_json::json;

use crate::api::{Api, Key, Kind, Request, Snapshot};
use crate::kernel::{Kernel, Stuck};
use crate::whim::Whim;

/// The namespace of all work.
pub(crate) const NAMESPACE: &str = "default";

/// A cluster with a namespace, a node with room for everything, and the queues that always exist, at rest.
pub fn empty_cluster(conf: &Conf) -> Result<Snapshot, Stuck> {
    let mut api = Api::default();
    api.set_now(Timestamp::from_second(1_800_000_000).unwrap_or(Timestamp::UNIX_EPOCH));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let allocatable = json!({"cpu": "1000", "memory": "1000Gi", "pods": "1000"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"allocatable": allocatable, "capacity": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}]}});
    for (kind, name, object) in [(Kind::Namespace, NAMESPACE, namespace), (Kind::Node, "n1", node)] {
        let key = Key::new(kind, "", name);
        // Nothing is in the way of these: nobody else is there yet.
        let _made = api.handle(&Request::Create { key, object });
    }
    api.take_news();
    let mut kernel = Kernel::new(&api.snapshot(), conf, Whim::none());
    kernel.settle()?;
    Ok(kernel.api().snapshot())
}
