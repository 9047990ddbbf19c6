//! The API in memory: one thread, no clock of its own, every request done when the call returns.
//!
//! It answers as the embedded server's face does for the kinds and the verbs that the simulated parts use: admission
//! decides on what is stored, uid and resourceVersion are conditions, status and object are apart, generations count,
//! finalizers hold what is deleted. It does not validate schemas. A test holds it against the real face.

mod kind;
pub(crate) mod meta;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use basalt_admission::View;
use basalt_api::slim::{Node, Pod};
use basalt_api::{Command, Job, PodGroup, Queue};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

pub use basalt_api::json::string_at as meta_text;
pub use kind::{Key, Kind};

/// A write request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Make an object.
    Create {
        /// Where it goes; the name in the object counts.
        key: Key,
        /// The object.
        object: Value,
    },
    /// Change an object by a merge patch. A uid or resourceVersion in its metadata is a condition.
    Patch {
        /// Which.
        key: Key,
        /// Whether the status is meant.
        status: bool,
        /// The patch.
        merge: Value,
    },
    /// Change an object by a strategic merge patch: lists of conditions are merged by type. A uid in its metadata is a
    /// condition.
    Strategic {
        /// The object.
        key: Key,
        /// Whether the status is meant.
        status: bool,
        /// The patch.
        patch: Value,
    },
    /// Remove an object.
    Delete {
        /// Which.
        key: Key,
        /// Only the object with this uid.
        uid: Option<String>,
        /// Only this version of it.
        revision: Option<String>,
        /// Grace in seconds, where not the object's own.
        grace: Option<i64>,
    },
    /// Give pods their nodes: all of them or none.
    Bind {
        /// Whose pods.
        namespace: String,
        /// Name, uid and node of each.
        binds: Vec<(String, String, String)>,
    },
    /// Tell people. Nothing is stored: nobody decides by events.
    Event {
        /// About what.
        key: Key,
        /// One word.
        reason: String,
    },
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Create { key, .. } => write!(f, "create {key}"),
            Self::Patch { key, status, merge }
            | Self::Strategic {
                key,
                status,
                patch: merge,
            } => {
                let part = if *status { " status" } else { "" };
                write!(f, "patch {key}{part} {merge}")
            }
            Self::Delete { key, .. } => write!(f, "delete {key}"),
            Self::Bind { namespace, binds } => {
                write!(f, "bind")?;
                binds
                    .iter()
                    .try_for_each(|(name, _, node)| write!(f, " {namespace}/{name} to {node}"))
            }
            Self::Event { key, reason } => write!(f, "event {key} {reason}"),
        }
    }
}

/// A request that was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// Kubernetes' word for it.
    pub reason: String,
    /// Why.
    pub message: String,
}

/// The object as it is now, or why nothing was done.
pub type Answer = Result<Arc<Value>, Refusal>;

/// An object as its readers have it.
#[derive(Clone, Debug)]
pub enum Typed {
    /// A queue.
    Queue(Box<Queue>),
    /// A Job.
    Job(Box<Job>),
    /// A PodGroup.
    PodGroup(Box<PodGroup>),
    /// A pod.
    Pod(Box<Pod>),
    /// A node.
    Node(Box<Node>),
    /// A Command.
    Command(Box<Command>),
    /// Something beside the pods of a Job.
    Companion(Box<ObjectMeta>),
    /// What nobody reads.
    Other,
}

impl Typed {
    /// Reads an object. What the API stored can be read: it came from the same types, or was written by us.
    pub fn read(kind: Kind, object: &Value) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            Kind::Queue => Self::Queue(Box::deserialize(object)?),
            Kind::Job => Self::Job(Box::deserialize(object)?),
            Kind::PodGroup => Self::PodGroup(Box::deserialize(object)?),
            Kind::Pod => Self::Pod(Box::deserialize(object)?),
            Kind::Node => Self::Node(Box::deserialize(object)?),
            Kind::Command => Self::Command(Box::deserialize(object)?),
            Kind::PersistentVolumeClaim | Kind::Service | Kind::ConfigMap | Kind::Secret | Kind::NetworkPolicy => {
                Self::Companion(Box::deserialize(object.get("metadata").unwrap_or(&Value::Null))?)
            }
            Kind::Namespace => Self::Other,
        })
    }
}

/// One change, as a watch tells it.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of what.
    pub key: Key,
    /// The object; its last state if it is gone.
    pub object: Arc<Value>,
    /// The same, read.
    pub typed: Arc<Typed>,
    /// The object before; none if it is new.
    pub before: Option<Arc<Value>>,
    /// Whether it is gone.
    pub gone: bool,
}

/// An object, and the same read.
#[derive(Clone, Debug)]
struct Stored {
    object: Arc<Value>,
    typed: Arc<Typed>,
}

/// The objects of a cluster, and everything that ever happened to them.
#[derive(Clone, Debug, Default)]
pub struct Api {
    objects: BTreeMap<Key, Stored>,
    /// By kind: each watch sees one kind, in order.
    journal: [Vec<Report>; Kind::COUNT],
    /// The last changes, all kinds in order, until somebody takes them.
    news: Vec<Report>,
    revision: u64,
    uids: u64,
    now: Timestamp,
    stamp: String,
    /// What admission decides by.
    view: View,
}

/// What there was at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    objects: BTreeMap<Key, Stored>,
    revision: u64,
    uids: u64,
    now: Timestamp,
}

impl Snapshot {
    /// All objects, in order.
    pub fn objects(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter().map(|(key, stored)| (key, &stored.object))
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The same with the objects of a kind changed, to look at only.
    pub(crate) fn edited(mut self, kind: Kind, edit: impl Fn(&mut Value)) -> Self {
        for (_, stored) in self.objects.iter_mut().filter(|(key, _)| key.kind == kind) {
            edit(Arc::make_mut(&mut stored.object));
        }
        self
    }
}

impl Api {
    /// An API that begins with objects as another one had them, and with that one's counters.
    pub fn resumed(snapshot: &Snapshot) -> Self {
        let mut api = Self {
            objects: snapshot.objects.clone(),
            revision: snapshot.revision,
            uids: snapshot.uids,
            ..Self::default()
        };
        api.set_now(snapshot.now);
        for (key, stored) in &snapshot.objects {
            api.view.put(&key.kind.resource(), &stored.object);
            if let Some(journal) = api.journal.get_mut(key.kind.index()) {
                journal.push(Report {
                    key: key.clone(),
                    object: stored.object.clone(),
                    typed: stored.typed.clone(),
                    before: None,
                    gone: false,
                });
            }
        }
        api
    }

    /// What there is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            objects: self.objects.clone(),
            revision: self.revision,
            uids: self.uids,
            now: self.now,
        }
    }

    /// Counts the writes.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The time that objects get.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
        self.stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key).map(|stored| &stored.object)
    }

    /// All objects, in order.
    pub fn objects(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter().map(|(key, stored)| (key, &stored.object))
    }

    /// The objects of a kind, in order.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        let from = self.objects.range(Key::new(kind, "", "")..);
        from.take_while(move |(key, _)| key.kind == kind)
            .map(|(key, stored)| (key, &stored.object))
    }

    /// Everything that happened to a kind.
    pub fn journal(&self, kind: Kind) -> &[Report] {
        self.journal.get(kind.index()).map_or(&[], Vec::as_slice)
    }

    /// The changes that nobody has taken yet.
    pub fn news(&self) -> &[Report] {
        &self.news
    }

    /// The changes since the last call.
    pub fn take_news(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.news)
    }
}
