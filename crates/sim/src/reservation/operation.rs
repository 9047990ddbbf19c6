//! What users and machines do where nodes are locked.

use std::fmt;

use serde_json::{Value, json};

use super::{CORES, node, node_name};
use crate::api::{Api, Key, Kind, Request};
use crate::queues::operation::{finish, queue_name, unused};
use crate::queues::{self, NAMESPACE};

/// What a queue asks to be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Whether others may be evicted for it.
    pub guaranteed: bool,
    /// Cores, if any.
    pub cores: Option<u8>,
    /// Tenths of the nodes, if any.
    pub tenths: Option<u8>,
}

/// One thing that happens. Queues are named by number; the one after the last is `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Something that can be done to any queue.
    Queue(queues::Operation),
    /// A queue asks for a reservation.
    Reserve(u8, Ask),
    /// It asks for none any more.
    Release(u8),
    /// A job of so many pods of so many cores.
    Submit {
        /// To which queue.
        queue: u8,
        /// Pods.
        pods: u8,
        /// All of them must run together.
        gang: bool,
        /// Cores of each.
        cores: u8,
        /// It is not to be evicted.
        kept: bool,
    },
    /// The oldest pod of a queue ends.
    Finish(u8),
    /// A node takes no more pods, or does again.
    Cordon(u8, bool),
    /// A node is lost.
    Lose(u8),
    /// It comes back.
    Bring(u8),
}

fn name_of(queue: u8) -> String {
    if queue < 3 {
        queue_name(queue)
    } else {
        "default".to_owned()
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(operation) => operation.fmt(f),
            Self::Reserve(queue, ask) => write!(f, "reserve {} for {}", ask.guarantee(), name_of(*queue)),
            Self::Release(queue) => write!(f, "reserve nothing for {}", name_of(*queue)),
            Self::Submit {
                queue,
                pods,
                gang,
                cores,
                kept,
            } => {
                let gang = if *gang { "a gang of " } else { "" };
                let kept = if *kept { ", not preemptable," } else { "" };
                write!(
                    f,
                    "submit {gang}{pods} pods of {cores} cores{kept} to {}",
                    name_of(*queue)
                )
            }
            Self::Finish(queue) => write!(f, "finish in {}", name_of(*queue)),
            Self::Cordon(node, on) => write!(f, "n{node} {}", if *on { "is cordoned" } else { "is uncordoned" }),
            Self::Lose(node) => write!(f, "n{node} is lost"),
            Self::Bring(node) => write!(f, "n{node} comes back"),
        }
    }
}

impl Ask {
    fn guarantee(self) -> Value {
        let policy = if self.guaranteed { "Guaranteed" } else { "Best-Effort" };
        let percentage = self
            .tenths
            .map(|tenths| json!({"dimensions": ["cpu"], "value": f64::from(tenths) / 10.0}));
        let resource = self.cores.map(|cores| json!({"cpu": cores.to_string()}));
        json!({"policy": policy, "percentage": percentage, "resource": resource})
    }
}

impl Operation {
    /// The request, if there is anything to ask for.
    pub fn request(self, api: &Api) -> Option<Request> {
        let guarantee = |queue: u8, guarantee: Value| {
            Some(Request::Patch {
                key: Key::new(Kind::Queue, "", &name_of(queue)),
                status: false,
                merge: json!({"spec": {"guarantee": guarantee}}),
            })
        };
        match self {
            Self::Queue(operation) => operation.request(api),
            Self::Reserve(queue, ask) => guarantee(queue, ask.guarantee()),
            Self::Release(queue) => guarantee(queue, Value::Null),
            Self::Submit { .. } => self.submit(api),
            Self::Finish(queue) => finish(api, &name_of(queue)),
            Self::Cordon(node, on) => Some(Request::Patch {
                key: Key::new(Kind::Node, "", &node_name(usize::from(node))),
                status: false,
                merge: json!({"spec": {"unschedulable": on}}),
            }),
            Self::Lose(node) => Some(Request::Delete {
                key: Key::new(Kind::Node, "", &node_name(usize::from(node))),
                uid: None,
                revision: None,
                grace: None,
            }),
            Self::Bring(at) => {
                let at = usize::from(at);
                let (key, object) = node(at, CORES.get(at).copied()?);
                Some(Request::Create { key, object })
            }
        }
    }

    fn submit(self, api: &Api) -> Option<Request> {
        let Self::Submit {
            queue,
            pods,
            gang,
            cores,
            kept,
        } = self
        else {
            return None;
        };
        let name = unused(api, Kind::Job, "j");
        let key = Key::new(Kind::Job, NAMESPACE, &name);
        let pod = json!({"schedulerName": "volcano", "restartPolicy": "Never", "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cores.to_string()}}}]});
        let annotations = if kept {
            json!({"volcano.sh/preemptable": "false"})
        } else {
            json!({})
        };
        let template = json!({"metadata": {"annotations": annotations}, "spec": pod});
        let object = json!({"apiVersion": key.kind.api_version(), "kind": "Job",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"queue": name_of(queue), "minAvailable": if gang { pods } else { 1 }, "schedulerName": "volcano",
                "tasks": [{"name": "t", "replicas": pods, "template": template}]}});
        Some(Request::Create { key, object })
    }
}
