//! The status that a pod or node shows at each step of its life.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::facts::{Container, NodeFacts, Shape};
use super::kubelet::Millis;
use super::template::Size;

/// A moment in a pod's life, with all that its status tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) uid: &'a str,
    pub(crate) shape: &'a Shape,
    pub(crate) address: Ipv4Addr,
    pub(crate) host: Ipv4Addr,
    pub(crate) scheduled: Millis,
    pub(crate) started: Millis,
    pub(crate) run_started: Millis,
    pub(crate) restarts: u32,
}

/// How a pod ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its containers came to their end.
    Exit,
    /// `activeDeadlineSeconds` ran out.
    Deadline,
}

impl Moment<'_> {
    /// Running: started at `run_started`; `ended` is the end of the run before this one, if there was one.
    pub(crate) fn running(&self, ended: Option<(Millis, Millis)>) -> Value {
        let last = ended.map_or_else(|| json!({}), |(from, to)| terminated(from, to, self.shape.exit_code));
        let containers = self.containers(|_| (running(self.run_started), last.clone(), true));
        let init = self.init_containers(|c| {
            if c.sidecar {
                (running(self.started), json!({}), true)
            } else {
                (terminated(self.started, self.started, 0), json!({}), true)
            }
        });
        let conditions = self.conditions("True", self.run_started, None);
        self.patch("Running", conditions, containers, init)
    }

    /// Succeeded or Failed at `ended`.
    pub(crate) fn finished(&self, ending: Ending, ended: Millis) -> Value {
        let code = if ending == Ending::Deadline {
            SIGKILL_CODE
        } else {
            self.shape.exit_code
        };
        let failed = ending == Ending::Deadline || code != 0;
        let containers = self.containers(|_| (terminated(self.run_started, ended, code), json!({}), false));
        let init = self.init_containers(|c| {
            let until = if c.sidecar { ended } else { self.started };
            (terminated(self.started, until, 0), json!({}), false)
        });
        let reason = if failed { "PodFailed" } else { "PodCompleted" };
        let conditions = self.conditions("False", ended, Some(reason));
        let mut patch = self.patch(
            if failed { "Failed" } else { "Succeeded" },
            conditions,
            containers,
            init,
        );
        if ending == Ending::Deadline {
            patch["status"]["reason"] = json!("DeadlineExceeded");
            patch["status"]["message"] = json!("Pod was active on the node longer than the specified deadline");
        }
        patch
    }

    fn patch(&self, phase: &str, conditions: Value, containers: Vec<Value>, init: Vec<Value>) -> Value {
        let mut status = json!({
            "phase": phase,
            "startTime": rfc3339(self.started),
            "hostIP": self.host.to_string(),
            "hostIPs": [{"ip": self.host.to_string()}],
            "podIP": self.address.to_string(),
            "podIPs": [{"ip": self.address.to_string()}],
            "conditions": conditions,
            "containerStatuses": containers,
        });
        if !init.is_empty() {
            status["initContainerStatuses"] = Value::Array(init);
        }
        // The uid makes the server refuse the patch for another pod of the same name.
        json!({"metadata": {"uid": self.uid}, "status": status})
    }

    fn conditions(&self, ready: &str, since: Millis, reason: Option<&str>) -> Value {
        let condition = |kind: &str, status: &str, since: Millis, reason: Option<&str>| {
            let mut value =
                json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": rfc3339(since)});
            if let Some(reason) = reason {
                value["reason"] = json!(reason);
            }
            value
        };
        json!([
            condition("PodReadyToStartContainers", ready, since, None),
            condition(
                "Initialized",
                "True",
                self.started,
                reason.filter(|r| *r == "PodCompleted")
            ),
            condition("Ready", ready, since, reason),
            condition("ContainersReady", ready, since, reason),
            condition("PodScheduled", "True", self.scheduled, None),
        ])
    }

    fn containers(&self, state: impl Fn(&Container) -> (Value, Value, bool)) -> Vec<Value> {
        self.shape
            .containers
            .iter()
            .map(|c| self.container(c, self.restarts, state(c)))
            .collect()
    }

    fn init_containers(&self, state: impl Fn(&Container) -> (Value, Value, bool)) -> Vec<Value> {
        self.shape.init.iter().map(|c| self.container(c, 0, state(c))).collect()
    }

    fn container(&self, container: &Container, restarts: u32, (state, last, ready): (Value, Value, bool)) -> Value {
        let started = state.get("running").is_some();
        json!({
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "containerID": format!("fake://{}/{}", self.uid, container.name),
            "ready": ready,
            "started": started,
            "restartCount": restarts,
            "state": state,
            "lastState": last,
        })
    }
}

/// What a process killed by SIGKILL leaves.
const SIGKILL_CODE: u8 = 137;

fn running(since: Millis) -> Value {
    json!({"running": {"startedAt": rfc3339(since)}})
}

fn terminated(from: Millis, to: Millis, code: u8) -> Value {
    json!({"terminated": {
        "exitCode": code,
        "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": rfc3339(from),
        "finishedAt": rfc3339(to),
    }})
}

/// What a served node's status lacks, as a patch of `status`.
pub(crate) fn node_status(facts: &NodeFacts, address: Ipv4Addr, defaults: &Size, now: Millis) -> Value {
    let capacity = [&facts.capacity, &facts.allocatable, defaults.resources()]
        .into_iter()
        .find(|r| !r.is_empty());
    let allocatable = if facts.allocatable.is_empty() {
        capacity
    } else {
        Some(&facts.allocatable)
    };
    let conditions: Vec<Value> = NODE_CONDITIONS
        .iter()
        .map(|(kind, status, reason, message)| {
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": rfc3339(now), "lastTransitionTime": rfc3339(now),
            })
        })
        .collect();
    json!({"status": {
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": conditions,
        "addresses": [{"type": "InternalIP", "address": address.to_string()}, {"type": "Hostname", "address": facts.name}],
        "nodeInfo": node_info(),
    }})
}

const NODE_CONDITIONS: [(&str, &str, &str, &str); 4] = [
    (
        "MemoryPressure",
        "False",
        "KubeletHasSufficientMemory",
        "the fake kubelet has enough memory",
    ),
    (
        "DiskPressure",
        "False",
        "KubeletHasNoDiskPressure",
        "the fake kubelet has no disk pressure",
    ),
    (
        "PIDPressure",
        "False",
        "KubeletHasSufficientPID",
        "the fake kubelet has enough process ids",
    ),
    ("Ready", "True", "KubeletReady", "the fake kubelet is ready"),
];

fn node_info() -> Value {
    let mut info = Map::new();
    for key in ["machineID", "systemUUID", "bootID", "kernelVersion", "osImage"] {
        info.insert(key.to_owned(), json!("fake"));
    }
    info.insert("containerRuntimeVersion".to_owned(), json!("fake://0"));
    info.insert(
        "kubeletVersion".to_owned(),
        json!(concat!("v", env!("CARGO_PKG_VERSION"), "-basalt-fake")),
    );
    info.insert("kubeProxyVersion".to_owned(), json!(""));
    info.insert("operatingSystem".to_owned(), json!("linux"));
    info.insert("architecture".to_owned(), json!("amd64"));
    Value::Object(info)
}

/// Taints that a node gets when it is created and when it is lost. Where a node controller runs, it takes them away from a Ready
/// node; where none runs, nobody would.
pub(crate) const LOST: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// The labels that every kubelet sets on its node.
pub(crate) fn node_labels(name: &str) -> [(&'static str, String); 3] {
    [
        ("kubernetes.io/hostname", name.to_owned()),
        ("kubernetes.io/os", "linux".to_owned()),
        ("kubernetes.io/arch", "amd64".to_owned()),
    ]
}

/// Kubernetes' time format: whole seconds.
fn rfc3339(at: Millis) -> String {
    Timestamp::from_second(at.div_euclid(1_000))
        .unwrap_or(Timestamp::MAX)
        .to_string()
}
