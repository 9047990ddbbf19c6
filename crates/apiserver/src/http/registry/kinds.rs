//! What the server serves: one [`Kind`] per resource of a group and version, built-in or custom.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use basalt_apimachinery::openapi;
use basalt_apimachinery::schema::Schema;
use basalt_apimachinery::table::Printer;

/// One resource of one group and version, as discovery lists it.
#[derive(Debug)]
pub struct Kind {
    /// API group, empty for core.
    pub group: Arc<str>,
    /// Version within the group.
    pub version: Arc<str>,
    /// `group/version`, or the bare version for core.
    pub api_version: Arc<str>,
    /// Kind, e.g. `Pod`.
    pub kind: Arc<str>,
    /// Kind of a list, e.g. `PodList`.
    pub list_kind: Arc<str>,
    /// Plural resource name, as in paths.
    pub plural: Arc<str>,
    /// Singular name.
    pub singular: Arc<str>,
    /// Short names for `kubectl`.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The store's word for the resource: `pods`, `queues.scheduling.volcano.sh`.
    pub resource: Arc<str>,
    /// The `apiVersion` of stored objects (another version of the same custom kind may be the stored one).
    pub stored_api_version: Arc<str>,
    /// What can be done with the resource.
    pub verbs: Verbs,
    /// Subresources by name.
    pub subresources: Vec<Sub>,
    /// Whether `metadata.generation` is kept.
    pub generation: bool,
    /// Where the object's shape comes from.
    pub shape: Shape,
}

/// Where an object's shape comes from.
#[derive(Debug)]
pub enum Shape {
    /// A kind that this server knows by heart; its schema is compiled at first use.
    BuiltIn(OnceLock<Option<Arc<Schema>>>),
    /// A kind of a CustomResourceDefinition.
    Custom(Box<CustomShape>),
}

/// The parts of a CustomResourceDefinition's version that requests need.
#[derive(Debug)]
pub struct CustomShape {
    /// Structural schema.
    pub schema: Schema,
    /// The same schema as the CRD's author wrote it, as JSON text, for OpenAPI.
    pub open_api: Arc<str>,
    /// Makes rows of objects, by `additionalPrinterColumns`.
    pub printer: Printer,
    /// Paths of `subresources.scale`, when declared.
    pub scale: Option<ScalePaths>,
    /// JSON paths that field selectors may name.
    pub selectable: Vec<String>,
    /// The definition is being deleted: nothing new is made.
    pub terminating: bool,
    /// A warning that each use of a deprecated version carries.
    pub deprecation: Option<String>,
}

/// Where a custom kind keeps its scale.
#[derive(Debug, Clone)]
pub struct ScalePaths {
    /// Desired replicas under `.spec`.
    pub spec: String,
    /// Observed replicas under `.status`.
    pub status: String,
    /// Label selector under `.status` or `.spec`.
    pub selector: Option<String>,
}

/// Which verbs a resource has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbs {
    /// Everything on stored objects.
    All,
    /// Only `create`: nothing is stored.
    CreateOnly,
}

/// A subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sub {
    /// `status`: get, update, patch.
    Status,
    /// `scale`: get, update, patch.
    Scale,
    /// `binding` of a pod: create.
    Binding,
    /// `eviction` of a pod: create.
    Eviction,
    /// `token` of a service account: create.
    Token,
    /// `finalize` of a namespace: update.
    Finalize,
    /// `log` of a pod: get.
    Log,
    /// `exec` of a pod: get, create.
    Exec,
}

impl Sub {
    /// The last segment of its path.
    pub fn name(self) -> &'static str {
        match self {
            Sub::Status => "status",
            Sub::Scale => "scale",
            Sub::Binding => "binding",
            Sub::Eviction => "eviction",
            Sub::Token => "token",
            Sub::Finalize => "finalize",
            Sub::Log => "log",
            Sub::Exec => "exec",
        }
    }

    /// Verbs for discovery.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Sub::Status | Sub::Scale => &["get", "patch", "update"],
            Sub::Binding | Sub::Eviction | Sub::Token => &["create"],
            Sub::Finalize => &["update"],
            Sub::Log => &["get"],
            Sub::Exec => &["create", "get"],
        }
    }

    /// Group, version and kind of what is sent and answered, where it is not the resource's own.
    pub fn own_kind(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Sub::Status | Sub::Finalize | Sub::Log => None,
            Sub::Scale => Some(("autoscaling", "v1", "Scale")),
            Sub::Binding => Some(("", "v1", "Binding")),
            Sub::Eviction => Some(("policy", "v1", "Eviction")),
            Sub::Token => Some(("authentication.k8s.io", "v1", "TokenRequest")),
            Sub::Exec => Some(("", "v1", "PodExecOptions")),
        }
    }
}

impl Verbs {
    /// Verbs for discovery, sorted.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Verbs::All => &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ],
            Verbs::CreateOnly => &["create"],
        }
    }
}

impl Kind {
    /// `pods` or `queues.scheduling.volcano.sh`: how messages name the resource.
    pub fn group_resource(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    /// `Pod` or `Queue.scheduling.volcano.sh`: how messages name the kind.
    pub fn group_kind(&self) -> String {
        qualified(&self.kind, &self.group)
    }

    /// The subresource of that name, if the kind has it.
    pub fn subresource(&self, name: &str) -> Option<Sub> {
        self.subresources.iter().copied().find(|sub| sub.name() == name)
    }

    /// Whether `status` is a subresource, apart from the rest of the object.
    pub fn has_status(&self) -> bool {
        self.subresources.contains(&Sub::Status)
    }

    /// The custom part, for kinds of a CustomResourceDefinition.
    pub fn custom(&self) -> Option<&CustomShape> {
        match &self.shape {
            Shape::BuiltIn(_) => None,
            Shape::Custom(shape) => Some(shape),
        }
    }

    /// The schema of the kind, where there is one.
    pub fn schema(&self) -> Option<&Schema> {
        match &self.shape {
            Shape::Custom(shape) => Some(&shape.schema),
            Shape::BuiltIn(cell) => cell
                .get_or_init(|| openapi::compiled(&self.api_version, &self.kind))
                .as_deref(),
        }
    }

    /// Makes rows of the kind's objects.
    pub fn printer(&self) -> Cow<'_, Printer> {
        match self.custom() {
            Some(shape) => Cow::Borrowed(&shape.printer),
            None => Cow::Owned(Printer::builtin(&self.api_version, &self.kind)),
        }
    }

    /// Whether this is the built-in kind `kind` of `group`.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.group.as_ref() == group && self.kind.as_ref() == kind && matches!(self.shape, Shape::BuiltIn(_))
    }

    /// Whether the objects are served in another shape than they are stored in (events of `events.k8s.io`).
    pub fn converted(&self) -> bool {
        self.group.as_ref() == "events.k8s.io"
    }
}

/// `name` or `name.group`.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// `version` or `group/version`.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

struct BuiltIn {
    gv: (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    subs: &'static [Sub],
    generation: bool,
}

const fn row(
    gv: (&'static str, &'static str),
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
) -> BuiltIn {
    BuiltIn {
        gv,
        kind,
        plural,
        short,
        namespaced,
        subs: &[],
        generation: false,
    }
}

impl BuiltIn {
    const fn subs(mut self, subs: &'static [Sub]) -> Self {
        self.subs = subs;
        self
    }

    const fn generation(mut self) -> Self {
        self.generation = true;
        self
    }
}

const CORE: (&str, &str) = ("", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const STATUS: &[Sub] = &[Sub::Status];

/// The stored built-in kinds. `apps/v1` and `batch/v1` are deliberately absent: there are no controllers for them here.
const STORED: &[BuiltIn] = &[
    row(CORE, "ConfigMap", "configmaps", &["cm"], true),
    row(CORE, "Endpoints", "endpoints", &["ep"], true),
    row(CORE, "Event", "events", &["ev"], true),
    row(CORE, "LimitRange", "limitranges", &["limits"], true),
    row(CORE, "Namespace", "namespaces", &["ns"], false).subs(&[Sub::Finalize, Sub::Status]),
    row(CORE, "Node", "nodes", &["no"], false).subs(STATUS),
    row(CORE, "PersistentVolume", "persistentvolumes", &["pv"], false).subs(STATUS),
    row(CORE, "PersistentVolumeClaim", "persistentvolumeclaims", &["pvc"], true).subs(STATUS),
    row(CORE, "Pod", "pods", &["po"], true)
        .subs(&[Sub::Binding, Sub::Eviction, Sub::Exec, Sub::Log, Sub::Status])
        .generation(),
    row(CORE, "ResourceQuota", "resourcequotas", &["quota"], true).subs(STATUS),
    row(CORE, "Secret", "secrets", &[], true),
    row(CORE, "Service", "services", &["svc"], true).subs(STATUS),
    row(CORE, "ServiceAccount", "serviceaccounts", &["sa"], true).subs(&[Sub::Token]),
    row(
        ("apiextensions.k8s.io", "v1"),
        "CustomResourceDefinition",
        "customresourcedefinitions",
        &["crd", "crds"],
        false,
    )
    .subs(STATUS)
    .generation(),
    row(("coordination.k8s.io", "v1"), "Lease", "leases", &[], true),
    row(("events.k8s.io", "v1"), "Event", "events", &["ev"], true),
    row(
        ("networking.k8s.io", "v1"),
        "NetworkPolicy",
        "networkpolicies",
        &["netpol"],
        true,
    )
    .generation(),
    row(
        ("policy", "v1"),
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        &["pdb"],
        true,
    )
    .subs(STATUS)
    .generation(),
    row(RBAC, "ClusterRole", "clusterroles", &[], false),
    row(RBAC, "ClusterRoleBinding", "clusterrolebindings", &[], false),
    row(RBAC, "Role", "roles", &[], true),
    row(RBAC, "RoleBinding", "rolebindings", &[], true),
    row(
        ("scheduling.k8s.io", "v1"),
        "PriorityClass",
        "priorityclasses",
        &["pc"],
        false,
    ),
    row(
        ("storage.k8s.io", "v1"),
        "StorageClass",
        "storageclasses",
        &["sc"],
        false,
    ),
];

/// Kinds that are only posted and answered.
const REVIEWS: &[BuiltIn] = &[
    row(
        ("authentication.k8s.io", "v1"),
        "SelfSubjectReview",
        "selfsubjectreviews",
        &[],
        false,
    ),
    row(
        ("authentication.k8s.io", "v1"),
        "TokenReview",
        "tokenreviews",
        &[],
        false,
    ),
    row(
        ("authorization.k8s.io", "v1"),
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        &[],
        true,
    ),
    row(
        ("authorization.k8s.io", "v1"),
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        &[],
        false,
    ),
    row(
        ("authorization.k8s.io", "v1"),
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        &[],
        false,
    ),
    row(
        ("authorization.k8s.io", "v1"),
        "SubjectAccessReview",
        "subjectaccessreviews",
        &[],
        false,
    ),
    row(("basalt.sh", "v1alpha1"), "GangBinding", "gangbindings", &[], true),
];

/// All built-in kinds; the same ones in every table, so that their schemas are compiled once.
pub(crate) fn built_in() -> &'static [Arc<Kind>] {
    static KINDS: LazyLock<Vec<Arc<Kind>>> = LazyLock::new(|| {
        let stored = STORED.iter().map(|row| built(row, Verbs::All));
        let reviews = REVIEWS.iter().map(|row| built(row, Verbs::CreateOnly));
        stored.chain(reviews).map(Arc::new).collect()
    });
    &KINDS
}

fn built(row: &BuiltIn, verbs: Verbs) -> Kind {
    let (group, version) = row.gv;
    let api_version: Arc<str> = api_version(group, version).into();
    // Both groups of events are windows on the same objects, stored in the core shape.
    let is_event = group == "events.k8s.io";
    Kind {
        group: group.into(),
        version: version.into(),
        kind: row.kind.into(),
        list_kind: format!("{}List", row.kind).into(),
        plural: row.plural.into(),
        singular: row.kind.to_lowercase().into(),
        short_names: row.short.iter().map(ToString::to_string).collect(),
        categories: if matches!(row.plural, "pods" | "services") {
            vec!["all".to_owned()]
        } else {
            Vec::new()
        },
        namespaced: row.namespaced,
        resource: if is_event {
            "events".into()
        } else {
            qualified(row.plural, group).into()
        },
        stored_api_version: if is_event { "v1".into() } else { api_version.clone() },
        api_version,
        verbs,
        subresources: row.subs.to_vec(),
        generation: row.generation,
        shape: Shape::BuiltIn(OnceLock::new()),
    }
}
