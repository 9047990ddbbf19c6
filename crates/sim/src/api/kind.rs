//! The kinds that live in a simulated cluster.

use std::fmt;
use std::sync::Arc;

use basalt_api::{ObjectRef, ResourceKind, resource_kind};

/// A kind of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A namespace.
    Namespace,
    /// A node.
    Node,
    /// A queue.
    Queue,
    /// A Volcano Job.
    Job,
    /// A PodGroup.
    PodGroup,
    /// A pod.
    Pod,
    /// An order to a queue or a job.
    Command,
    /// A claim on storage.
    PersistentVolumeClaim,
    /// A Service.
    Service,
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// A NetworkPolicy.
    NetworkPolicy,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Namespace,
        Self::Node,
        Self::Queue,
        Self::Job,
        Self::PodGroup,
        Self::Pod,
        Self::Command,
        Self::PersistentVolumeClaim,
        Self::Service,
        Self::ConfigMap,
        Self::Secret,
        Self::NetworkPolicy,
    ];
    /// How many there are.
    pub(crate) const COUNT: usize = Self::ALL.len();

    /// Returns the kind's row in the table of all kinds.
    pub const fn resource_kind(self) -> ResourceKind {
        match self {
            Self::Namespace => resource_kind::NAMESPACE,
            Self::Node => resource_kind::NODE,
            Self::Queue => resource_kind::QUEUE,
            Self::Job => resource_kind::JOB,
            Self::PodGroup => resource_kind::POD_GROUP,
            Self::Pod => resource_kind::POD,
            Self::Command => resource_kind::COMMAND,
            Self::PersistentVolumeClaim => resource_kind::PERSISTENT_VOLUME_CLAIM,
            Self::Service => resource_kind::SERVICE,
            Self::ConfigMap => resource_kind::CONFIG_MAP,
            Self::Secret => resource_kind::SECRET,
            Self::NetworkPolicy => resource_kind::NETWORK_POLICY,
        }
    }

    /// API group, empty for the core group.
    pub fn group(self) -> &'static str {
        self.resource_kind().group()
    }

    /// Group and version as on the wire.
    pub const fn api_version(self) -> &'static str {
        self.resource_kind().api_version
    }

    /// As on the wire: `PodGroup`.
    pub const fn name(self) -> &'static str {
        self.resource_kind().kind
    }

    /// As in a path: `podgroups`.
    pub const fn plural(self) -> &'static str {
        self.resource_kind().plural
    }

    /// As in storage: `podgroups.scheduling.volcano.sh`.
    pub fn resource(self) -> String {
        self.resource_kind().group_resource()
    }

    /// Whether its objects live in namespaces.
    pub const fn is_namespaced(self) -> bool {
        self.resource_kind().namespaced
    }

    /// Whether its status is written on its own.
    pub const fn has_status(self) -> bool {
        matches!(
            self,
            Self::Namespace
                | Self::Node
                | Self::Pod
                | Self::PersistentVolumeClaim
                | Self::Service
                | Self::Queue
                | Self::Job
        )
    }

    /// Whether it is beside the pods of Jobs: of such objects only the metadata is read.
    pub const fn is_companion(self) -> bool {
        matches!(
            self,
            Self::PersistentVolumeClaim | Self::Service | Self::ConfigMap | Self::Secret | Self::NetworkPolicy
        )
    }

    /// Whether its objects count generations, as those of all groups but the core do.
    pub fn is_custom(self) -> bool {
        !self.group().is_empty()
    }

    /// The kind of that name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind that is stored under that name: `queues.scheduling.volcano.sh`.
    pub fn stored_as(resource: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.resource() == resource)
    }

    /// Its place in [`Kind::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// Where an object is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace, empty for kinds without.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// The place of `namespace/name`.
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// Returns the place of the object that `reference` names; nothing for a kind that is not simulated.
    pub fn of(reference: &ObjectRef) -> Option<Self> {
        Some(Self {
            kind: Kind::of(&reference.kind)?,
            namespace: Arc::clone(&reference.namespace),
            name: Arc::clone(&reference.name),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind.name(), self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind.name(), self.name),
        }
    }
}
