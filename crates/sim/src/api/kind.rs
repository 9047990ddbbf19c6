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

/// A kind of the core group.
const fn core(kind: &'static str, plural: &'static str, namespaced: bool, status: bool) -> Facts {
    Facts {
        group: "",
        api_version: "v1",
        kind,
        plural,
        resource: plural,
        namespaced,
        status,
    }
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

    const fn facts(self) -> Facts {
        match self {
            Self::Namespace => core("Namespace", "namespaces", false, true),
            Self::Node => core("Node", "nodes", false, true),
            Self::Pod => core("Pod", "pods", true, true),
            Self::PersistentVolumeClaim => core("PersistentVolumeClaim", "persistentvolumeclaims", true, true),
            Self::Service => core("Service", "services", true, true),
            Self::ConfigMap => core("ConfigMap", "configmaps", true, false),
            Self::Secret => core("Secret", "secrets", true, false),
            Self::Queue => Facts {
                group: "scheduling.volcano.sh",
                api_version: "scheduling.volcano.sh/v1beta1",
                resource: "queues.scheduling.volcano.sh",
                ..core("Queue", "queues", false, true)
            },
            Self::PodGroup => Facts {
                group: "scheduling.volcano.sh",
                api_version: "scheduling.volcano.sh/v1beta1",
                resource: "podgroups.scheduling.volcano.sh",
                ..core("PodGroup", "podgroups", true, false)
            },
            Self::Job => Facts {
                group: "batch.volcano.sh",
                api_version: "batch.volcano.sh/v1alpha1",
                resource: "jobs.batch.volcano.sh",
                ..core("Job", "jobs", true, true)
            },
            Self::Command => Facts {
                group: "bus.volcano.sh",
                api_version: "bus.volcano.sh/v1alpha1",
                resource: "commands.bus.volcano.sh",
                ..core("Command", "commands", true, false)
            },
            Self::NetworkPolicy => Facts {
                group: "networking.k8s.io",
                api_version: "networking.k8s.io/v1",
                resource: "networkpolicies.networking.k8s.io",
                ..core("NetworkPolicy", "networkpolicies", true, false)
            },
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

    /// Whether it is beside the pods of Jobs: of such objects only the metadata is read.
    pub const fn is_companion(self) -> bool {
        matches!(
            self,
            Self::PersistentVolumeClaim | Self::Service | Self::ConfigMap | Self::Secret | Self::NetworkPolicy
        )
    }

    /// Whether its objects count generations, as those of all groups but the core do.
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
