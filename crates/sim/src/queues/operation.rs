//! What users do to queues.

use std::fmt;

use basalt_api::json::string_at;
use serde_json::{Value, json};

use super::NAMESPACE;
use super::canon::Naming;
use crate::api::{Api, Key, Kind, Request};

/// How a queue is steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum By {
    /// By its spec.
    Spec,
    /// By a Command.
    Command,
}

/// What is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A Job of one pod.
    Job,
    /// A PodGroup, whose pods somebody else makes.
    Group,
    /// A pod that names the queue.
    Pod,
}

/// One thing that a user does. Queues are named by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Make a queue, under another or under root.
    Create {
        /// Which.
        queue: u8,
        /// Under which; none means root.
        parent: Option<u8>,
        /// Closed from the beginning.
        closed: bool,
    },
    /// Ask for it to be closed.
    Close(u8, By),
    /// Ask for it to be open.
    Open(u8, By),
    /// Delete it.
    Delete(u8),
    /// Deliver something.
    Submit(u8, Work),
    /// The oldest work of the queue that can end ends.
    Finish(u8),
    /// Move it under another, or under root.
    Reparent(u8, Option<u8>),
    /// Write a state into its status, as no user should.
    RawStatus(u8, &'static str),
}

/// The name of a queue by its number.
pub(crate) fn queue_name(queue: u8) -> String {
    format!("q{queue}")
}

fn parent_name(parent: Option<u8>) -> String {
    parent.map_or_else(|| "root".to_owned(), queue_name)
}

fn queue_key(queue: u8) -> Key {
    Key::new(Kind::Queue, "", &queue_name(queue))
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { queue, parent, closed } => {
                let closed = if *closed { " closed" } else { "" };
                write!(f, "create{closed} q{queue} under {}", parent_name(*parent))
            }
            Self::Close(queue, by) => write!(f, "close q{queue} by {by:?}"),
            Self::Open(queue, by) => write!(f, "open q{queue} by {by:?}"),
            Self::Delete(queue) => write!(f, "delete q{queue}"),
            Self::Submit(queue, work) => write!(f, "submit {work:?} to q{queue}"),
            Self::Finish(queue) => write!(f, "finish in q{queue}"),
            Self::Reparent(queue, to) => write!(f, "move q{queue} under {}", parent_name(*to)),
            Self::RawStatus(queue, state) => write!(f, "write {state} into the status of q{queue}"),
        }
    }
}

impl Operation {
    /// The same, done to the queues that these are called instead.
    pub(super) fn renamed(self, naming: Naming) -> Self {
        let new = |queue: u8| naming.get(usize::from(queue)).copied().unwrap_or(queue);
        match self {
            Self::Create { queue, parent, closed } => Self::Create {
                queue: new(queue),
                parent: parent.map(new),
                closed,
            },
            Self::Close(queue, by) => Self::Close(new(queue), by),
            Self::Open(queue, by) => Self::Open(new(queue), by),
            Self::Delete(queue) => Self::Delete(new(queue)),
            Self::Submit(queue, work) => Self::Submit(new(queue), work),
            Self::Finish(queue) => Self::Finish(new(queue)),
            Self::Reparent(queue, to) => Self::Reparent(new(queue), to.map(new)),
            Self::RawStatus(queue, state) => Self::RawStatus(new(queue), state),
        }
    }

    /// The request, if there is anything to ask for.
    pub fn request(self, api: &Api) -> Option<Request> {
        match self {
            Self::Create { queue, parent, closed } => {
                let state = if closed { "Closed" } else { "Open" };
                let key = queue_key(queue);
                let object = json!({"apiVersion": key.kind.api_version(), "kind": "Queue",
                    "metadata": {"name": queue_name(queue)},
                    "spec": {"weight": 1, "state": state, "parent": parent_name(parent)}});
                Some(Request::Create { key, object })
            }
            Self::Close(queue, by) => steer(api, queue, by, "Closed", "CloseQueue"),
            Self::Open(queue, by) => steer(api, queue, by, "Open", "OpenQueue"),
            Self::Delete(queue) => Some(Request::Delete {
                key: queue_key(queue),
                uid: None,
                revision: None,
                grace: None,
            }),
            Self::Submit(queue, work) => Some(submit(api, queue, work)),
            Self::Finish(queue) => finish(api, &queue_name(queue)),
            Self::Reparent(queue, to) => Some(Request::Patch {
                key: queue_key(queue),
                status: false,
                merge: json!({"spec": {"parent": parent_name(to)}}),
            }),
            Self::RawStatus(queue, state) => Some(Request::Patch {
                key: queue_key(queue),
                status: true,
                merge: json!({"status": {"state": state}}),
            }),
        }
    }
}

fn steer(api: &Api, queue: u8, by: By, state: &str, action: &str) -> Option<Request> {
    let key = queue_key(queue);
    if by == By::Spec {
        return Some(Request::Patch {
            key,
            status: false,
            merge: json!({"spec": {"state": state}}),
        });
    }
    let uid = string_at(api.get(&key)?, "/metadata/uid").to_owned();
    let name = unused(api, Kind::Command, "c");
    let target = json!({"apiVersion": key.kind.api_version(), "kind": "Queue", "name": queue_name(queue), "uid": uid});
    let key = Key::new(Kind::Command, NAMESPACE, &name);
    let object = json!({"apiVersion": key.kind.api_version(), "kind": "Command",
        "metadata": {"name": name}, "action": action, "target": target});
    Some(Request::Create { key, object })
}

/// The first name with a number that is free.
pub(crate) fn unused(api: &Api, kind: Kind, prefix: &str) -> String {
    let mut name = String::new();
    for number in 1..=api.objects().count().saturating_add(1) {
        name = format!("{prefix}{number}");
        if api.get(&Key::new(kind, NAMESPACE, &name)).is_none() {
            break;
        }
    }
    name
}

fn pod_spec() -> Value {
    json!({"schedulerName": "volcano", "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]})
}

fn submit(api: &Api, queue: u8, work: Work) -> Request {
    let queue = queue_name(queue);
    let (kind, prefix) = match work {
        Work::Job => (Kind::Job, "j"),
        Work::Group => (Kind::PodGroup, "g"),
        Work::Pod => (Kind::Pod, "p"),
    };
    let name = unused(api, kind, prefix);
    let key = Key::new(kind, NAMESPACE, &name);
    let metadata = json!({"name": name, "namespace": NAMESPACE});
    let mut object = match work {
        Work::Job => json!({"spec": {"queue": queue, "minAvailable": 1, "schedulerName": "volcano",
            "tasks": [{"name": "t", "replicas": 1, "template": {"spec": pod_spec()}}]}}),
        Work::Group => json!({"spec": {"queue": queue, "minMember": 1}}),
        Work::Pod => json!({"spec": pod_spec()}),
    };
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.name());
    object["metadata"] = metadata;
    if work == Work::Pod {
        object["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": queue});
    }
    Request::Create { key, object }
}

/// The oldest running pod of a queue ends well; else its oldest group that nobody owns is deleted.
pub(crate) fn finish(api: &Api, queue: &str) -> Option<Request> {
    let group_of = |pod: &Value| string_at(pod, "/metadata/annotations/scheduling.k8s.io~1group-name").to_owned();
    let of_queue = |pod: &Value| {
        let group = api.get(&Key::new(Kind::PodGroup, NAMESPACE, &group_of(pod)));
        group.is_some_and(|group| string_at(group, "/spec/queue") == queue)
    };
    let runs = |pod: &Value| string_at(pod, "/status/phase") == "Running" && of_queue(pod);
    let age = |object: &Value| {
        string_at(object, "/metadata/uid")
            .get(1..)
            .and_then(|n| n.parse::<u64>().ok())
    };
    let pods = api.of_kind(Kind::Pod).filter(|(_, pod)| runs(pod));
    if let Some((key, _)) = pods.min_by_key(|(_, pod)| age(pod)) {
        return Some(Request::Patch {
            key: key.clone(),
            status: true,
            merge: json!({"status": {"phase": "Succeeded"}}),
        });
    }
    let lone = |group: &Value| {
        string_at(group, "/spec/queue") == queue && group.pointer("/metadata/ownerReferences").is_none()
    };
    let groups = api.of_kind(Kind::PodGroup).filter(|(_, group)| lone(group));
    groups
        .min_by_key(|(_, group)| age(group))
        .map(|(key, _)| Request::Delete {
            key: key.clone(),
            uid: None,
            revision: None,
            grace: None,
        })
}
