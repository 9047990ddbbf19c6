//! What a shim is to run: everything resolved, nothing left to look up.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One pod, as the agent wrote it into `plan.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPlan {
    /// Form of this file; a shim refuses another than its own.
    pub version: u32,
    /// Who the pod is.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where the agent listens.
    pub socket: PathBuf,
    /// Host name that the processes see.
    pub hostname: String,
    /// The pod's own address on the loopback network; probes go there.
    pub address: Ipv4Addr,
    /// When containers are started again.
    pub restart: Restart,
    /// When the pod is ended as `DeadlineExceeded`.
    pub deadline: Option<Timestamp>,
    /// How long containers have between SIGTERM and SIGKILL when the shim ends them by itself (deadline, liveness).
    pub grace_seconds: u32,
    /// Run one after another before the others; a sidecar (see [`ContainerPlan::sidecar`]) goes on beside them.
    pub init: Vec<ContainerPlan>,
    /// Run together.
    pub containers: Vec<ContainerPlan>,
    /// What the machine permits, found out by the agent once at its start.
    pub isolation: Isolation,
    /// Kept in the cgroup of the whole pod, if there are cgroups.
    pub limits: Limits,
    /// Back-off before a restart, in milliseconds: the first; doubled each time, up to the second; forgotten after a run of 10 minutes.
    pub backoff_ms: (u64, u64),
}

/// `spec.restartPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restart {
    /// Whatever the exit code.
    Always,
    /// After an exit code other than 0.
    OnFailure,
    /// Not at all.
    Never,
}

/// What separates the pod's processes from the rest of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Isolation {
    /// How volumes, hosts file and host name become visible to the processes.
    pub view: View,
    /// Cgroups of this pod, made by the shim and removed by it at the end; empty where the machine has none to give.
    pub cgroups: Vec<Cgroup>,
}

/// How a container gets a file system view of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum View {
    /// Own mount (and UTS) namespace, made as root.
    Namespaces,
    /// The same inside a user namespace, made without root.
    UserNamespaces,
    /// None: volumes cannot be shown at their paths, so a plan with mounts is refused by the agent.
    Shared,
}

/// One cgroup folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cgroup {
    /// The pod's folder in that hierarchy, such as `/sys/fs/cgroup/memory/basalt/<uid>`; containers get folders below it.
    pub folder: PathBuf,
    /// Which files it has.
    pub version: CgroupVersion,
}

/// The two interfaces of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupVersion {
    /// One hierarchy per controller.
    V1,
    /// The unified one.
    V2,
}

/// Bounds; absent: none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u64>,
    /// Weight of the container's CPU request, in thousandths of a core.
    pub cpu_request_millis: Option<u64>,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPlan {
    /// Its name.
    pub name: String,
    /// Program and arguments; never empty. The program is looked up in the `PATH` of `env`.
    pub command: Vec<String>,
    /// The whole environment, resolved, `$(NAME)` included; nothing else is inherited.
    pub env: Vec<(String, String)>,
    /// Where it starts; absent: a scratch folder of the pod's own.
    pub working_folder: Option<PathBuf>,
    /// Who it runs as; absent: as the server (single-trust mode).
    pub user: Option<User>,
    /// Bounds of this container.
    pub limits: Limits,
    /// Volumes at their paths, in the order in which they are mounted.
    pub mounts: Vec<Mount>,
    /// Where it leaves its last words.
    pub message_path: PathBuf,
    /// Whether the end of the log serves as message after a failure that left none.
    pub message_from_log: bool,
    /// An init container that goes on beside the others and is started again whenever it ends.
    pub sidecar: bool,
    /// Holds back liveness and readiness until it succeeded.
    pub startup: Option<Probe>,
    /// Restarts the container when it fails.
    pub liveness: Option<Probe>,
    /// Says whether the container is ready.
    pub readiness: Option<Probe>,
    /// Run right after the start.
    pub post_start: Option<Action>,
    /// Run before SIGTERM, within the grace period.
    pub pre_stop: Option<Action>,
}

/// Ids of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// A file or folder that is shown at another path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// What exists (made by the agent), as a path without links.
    pub source: PathBuf,
    /// The part of it that is shown; absent: all. It is looked up at each start and never outside of `source`, whatever links
    /// the pod has made there meanwhile.
    #[serde(default)]
    pub beneath: Option<PathBuf>,
    /// Where the processes see it.
    pub target: PathBuf,
    /// Whether they may only read.
    pub read_only: bool,
}

/// How often something is asked, and what the answers mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Probe {
    /// What is asked.
    pub action: Action,
    /// Before the first time.
    pub initial_delay_seconds: u32,
    /// Between two times; at least 1.
    pub period_seconds: u32,
    /// For an answer; at least 1.
    pub timeout_seconds: u32,
    /// Good answers in a row that make it good.
    pub success_threshold: u32,
    /// Bad answers in a row that make it bad.
    pub failure_threshold: u32,
    /// Grace period of the restart after a failed startup or liveness probe, instead of the pod's.
    pub grace_seconds: Option<u32>,
}

/// What a probe asks or a hook does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// A command inside the container's view; 0 is good.
    Exec(Vec<String>),
    /// GET; 200 to 399 is good.
    Http {
        /// Host, or address.
        host: String,
        /// Port.
        port: u16,
        /// Path and query.
        path: String,
        /// Whether it is TLS (the certificate is not verified, as in Kubernetes).
        tls: bool,
        /// Further headers.
        headers: Vec<(String, String)>,
    },
    /// A connection that opens is good.
    Tcp {
        /// Host, or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// Does nothing for so many seconds.
    Sleep(u32),
}
