//! Fake nodes: Ready nodes that run bound pods without running anything.
//!
//! A pod that is bound to a node labelled `basalt.sh/fake=true` becomes Running in one status write and stays so until it is
//! deleted, unless its annotations say otherwise:
//!
//! - `basalt.sh/run-time: 30s` – how long its containers run (a Go duration), counted from `status.startTime`, so that a restart of
//!   this process changes nothing. Then the pod is Succeeded, or Failed with an exit code other than 0. Under
//!   `restartPolicy: Always` its containers are started again instead, at most every 10 s, and `restartCount` grows.
//!   `OnFailure` ends like `Never`: a fake container would fail again in the same way.
//! - `basalt.sh/exit-code: "1"` – the exit code of all its containers at the end of the run time; `"1,0"`: 1 before its
//!   Job was restarted, 0 after.
//! - `basalt.sh/stop-time: 5s` – how long it takes to end after it was deleted. Otherwise that is at once, whatever its grace
//!   period; the grace period is not consulted either way.
//!
//! A value that makes no sense counts as absent, with a Warning event on the pod. Init containers end at once.
//! `activeDeadlineSeconds` is kept. Pods that are bound to a node that does not exist are deleted, as Kubernetes' pod garbage
//! collector does: at once if the node was a fake one, else after a grace.
//!
//! Nodes are written only when something is lacking. Where a node controller watches them, each has a Lease that is renewed
//! ([`FakeOptions::heartbeat`]); elsewhere there are no heartbeats, for 10,000 nodes would mean 1,000 writes a second that tell
//! nothing. A node that was marked or tainted as lost is made Ready again.

mod driver;
pub mod facts;
mod heartbeat;
mod intern;
pub mod kubelet;
mod removal;
mod status;
pub mod template;
mod timers;
mod wire;

use std::time::Duration;

pub use driver::run;
pub use removal::{Removed, remove_nodes};
pub use template::{Created, NodeTemplate, Size, create_nodes, nodes_not_ready};

/// Selects the nodes that are served.
const FAKE_SELECTOR: &str = "basalt.sh/fake=true";

/// How fake nodes are served.
#[derive(Debug, Clone)]
pub struct FakeOptions {
    /// The size of a fake node that states none.
    pub defaults: Size,
    /// How many requests may be on their way at once.
    pub requests_in_flight: usize,
    /// How long a pod may be bound to a node that does not exist before it is deleted; absent: for ever.
    pub orphan_grace: Option<Duration>,
    /// How often the Lease of each node is renewed; absent: there are no Leases, for nobody looks at them.
    pub heartbeat: Option<Duration>,
}

impl Default for FakeOptions {
    fn default() -> Self {
        Self {
            defaults: Size::default(),
            requests_in_flight: 128,
            orphan_grace: Some(Duration::from_secs(10)),
            heartbeat: None,
        }
    }
}
