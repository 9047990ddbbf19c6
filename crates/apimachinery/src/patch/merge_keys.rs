//! How lists and structures of Kubernetes' own types merge in a strategic merge patch.

/// How one field merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// `merge`, `replace` or `merge,retainKeys`, as in the OpenAPI extension.
    pub strategy: &'static str,
    /// The field that identifies an item; none for lists of plain values.
    pub key: Option<&'static str>,
}

impl Rule {
    /// Whether items merge one by one.
    pub fn merges(&self) -> bool {
        self.strategy.starts_with("merge")
    }

    /// Whether the patch replaces the field as a whole.
    pub fn replaces(&self) -> bool {
        self.strategy == "replace"
    }
}

/// Type, field, strategy, key. Sorted by type and field.
const RULES: &[(&str, &str, &str, &str)] = &[
    ("CSINodeSpec", "drivers", "merge", "name"),
    ("Container", "env", "merge", "name"),
    ("Container", "ports", "merge", "containerPort"),
    ("Container", "volumeDevices", "merge", "devicePath"),
    ("Container", "volumeMounts", "merge", "mountPath"),
    ("ContainerStatus", "allocatedResourcesStatus", "merge", "name"),
    ("ContainerStatus", "volumeMounts", "merge", "mountPath"),
    ("EphemeralContainer", "env", "merge", "name"),
    ("EphemeralContainer", "ports", "merge", "containerPort"),
    ("EphemeralContainer", "volumeDevices", "merge", "devicePath"),
    ("EphemeralContainer", "volumeMounts", "merge", "mountPath"),
    ("MutatingWebhookConfiguration", "webhooks", "merge", "name"),
    ("NamespaceStatus", "conditions", "merge", "type"),
    ("NodeSpec", "podCIDRs", "merge", ""),
    ("NodeStatus", "addresses", "merge", "type"),
    ("NodeStatus", "conditions", "merge", "type"),
    ("ObjectMeta", "finalizers", "merge", ""),
    ("ObjectMeta", "ownerReferences", "merge", "uid"),
    ("PersistentVolumeClaimStatus", "conditions", "merge", "type"),
    ("PodDisruptionBudgetSpec", "selector", "replace", ""),
    ("PodDisruptionBudgetStatus", "conditions", "merge", "type"),
    ("PodSpec", "containers", "merge", "name"),
    ("PodSpec", "ephemeralContainers", "merge", "name"),
    ("PodSpec", "hostAliases", "merge", "ip"),
    ("PodSpec", "imagePullSecrets", "merge", "name"),
    ("PodSpec", "initContainers", "merge", "name"),
    ("PodSpec", "resourceClaims", "merge,retainKeys", "name"),
    ("PodSpec", "schedulingGates", "merge", "name"),
    ("PodSpec", "topologySpreadConstraints", "merge", "topologyKey"),
    ("PodSpec", "volumes", "merge,retainKeys", "name"),
    ("PodStatus", "conditions", "merge", "type"),
    ("PodStatus", "hostIPs", "merge", "ip"),
    ("PodStatus", "podIPs", "merge", "ip"),
    ("PodStatus", "resourceClaimStatuses", "merge,retainKeys", "name"),
    ("ServiceAccount", "secrets", "merge", "name"),
    ("ServiceSpec", "ports", "merge", "port"),
    ("ServiceStatus", "conditions", "merge", "type"),
    ("ValidatingWebhookConfiguration", "webhooks", "merge", "name"),
];

/// The rule of a field of a type (its short name, e.g. `PodSpec`), if it has one.
pub fn rule(short_type: &str, field: &str) -> Option<Rule> {
    let found = RULES
        .binary_search_by(|(name, entry, ..)| (*name, *entry).cmp(&(short_type, field)))
        .ok()?;
    let (_, _, strategy, key) = RULES.get(found)?;
    Some(Rule {
        strategy,
        key: Some(*key).filter(|key| !key.is_empty()),
    })
}
