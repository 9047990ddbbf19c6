//! The kinds that live in a simulated cluster.

use std::fmt;
use std::sync::Arc;

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
}

/// What the API has to know of a kind.
struct Facts {
    group: &'static str,
    api_version: &'static str,
    kind: &'static str,
    plural: &'static str,
    resource: &'static str,
    namespaced: bool,
    status: bool,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Namespace,
        Self::Node,
        Self::Queue,
        Self::Job,
        Self::PodGroup,
        Self::Pod,
        Self::Command,
    ];

    const fn facts(self) -> Facts {
        let (group, api_version, kind, plural, resource, namespaced, status) = match self {
            Self::Namespace => ("", "v1", "Namespace", "namespaces", "namespaces", false, true),
            Self::Node => ("", "v1", "Node", "nodes", "nodes", false, true),
            Self::Pod => ("", "v1", "Pod", "pods", "pods", true, true),
            Self::Queue => (
                "scheduling.volcano.sh",
                "scheduling.volcano.sh/v1beta1",
                "Queue",
                "queues",
                "queues.scheduling.volcano.sh",
                false,
                true,
            ),
            Self::PodGroup => (
                "scheduling.volcano.sh",
                "scheduling.volcano.sh/v1beta1",
                "PodGroup",
                "podgroups",
                "podgroups.scheduling.volcano.sh",
                true,
                false,
            ),
            Self::Job => (
                "batch.volcano.sh",
                "batch.volcano.sh/v1alpha1",
                "Job",
                "jobs",
                "jobs.batch.volcano.sh",
                true,
                true,
            ),
            Self::Command => (
                "bus.volcano.sh",
                "bus.volcano.sh/v1alpha1",
                "Command",
                "commands",
                "commands.bus.volcano.sh",
                true,
                false,
            ),
        };
        Facts {
            group,
            api_version,
            kind,
            plural,
            resource,
            namespaced,
            status,
        }
    }

    /// API group, empty for the core group.
    pub const fn group(self) -> &'static str {
        self.facts().group
    }

    /// Group and version as on the wire.
    pub const fn api_version(self) -> &'static str {
        self.facts().api_version
    }

    /// As on the wire: `PodGroup`.
    pub const fn name(self) -> &'static str {
        self.facts().kind
    }

    /// As in a path: `podgroups`.
    pub const fn plural(self) -> &'static str {
        self.facts().plural
    }

    /// As in storage: `podgroups.scheduling.volcano.sh`.
    pub const fn resource(self) -> &'static str {
        self.facts().resource
    }

    /// Whether its objects live in namespaces.
    pub const fn is_namespaced(self) -> bool {
        self.facts().namespaced
    }

    /// Whether its status is written on its own.
    pub const fn has_status(self) -> bool {
        self.facts().status
    }

    /// Whether it comes from a definition: such kinds count generations.
    pub const fn is_custom(self) -> bool {
        !self.facts().group.is_empty()
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
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind.name(), self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind.name(), self.name),
        }
    }
}
