//! What each part asks of a cluster's API: the one table from which the chart's roles are made.
//!
//! A right that is missing here fails on a cluster with 403; one that nothing uses is a gift to whoever breaks in. Both are
//! found by `cargo xtask rights`, which compares the roles with what an API server noted down.

use std::collections::BTreeMap;

use serde::Serialize;

/// A part of the system with an identity of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// `basalt scheduler`.
    Scheduler,
    /// `basalt controllers`.
    Controllers,
    /// `basalt webhook`.
    Webhook,
    /// `basalt uninstall`.
    Uninstall,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 4] = [Self::Scheduler, Self::Controllers, Self::Webhook, Self::Uninstall];

    /// The word of the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Controllers => "controllers",
            Self::Webhook => "webhook",
            Self::Uninstall => "uninstall",
        }
    }

    /// What it needs.
    pub fn rights(self) -> Vec<Right> {
        match self {
            Self::Scheduler => [SCHEDULER, &[EVENTS], &lease(&["volcano"])].concat(),
            Self::Controllers => [CONTROLLERS, &[EVENTS], &lease(&["vc-controller-manager"])].concat(),
            Self::Webhook => WEBHOOK.to_vec(),
            Self::Uninstall => UNINSTALL.to_vec(),
        }
    }
}

/// Where a right holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Everywhere.
    Cluster,
    /// In the namespace of the part's own pods.
    Namespace,
    /// In the namespace of the Leases.
    LeaseNamespace,
}

/// When a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum When {
    /// With any values.
    Always,
    /// Where the webhook makes its certificates itself; not with cert-manager.
    OwnCertificate,
}

/// Verbs on resources of one group.
#[derive(Clone, Copy, Debug)]
pub struct Right {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Resources, with subresources as `pods/binding`.
    pub resources: &'static [&'static str],
    /// What is done with them.
    pub verbs: &'static [&'static str],
    /// Only objects of these names; empty: of any.
    pub names: &'static [&'static str],
    /// Where.
    pub reach: Reach,
    /// When.
    pub when: When,
}

impl Right {
    const fn new(group: &'static str, resources: &'static [&'static str], verbs: &'static [&'static str]) -> Self {
        Self {
            group,
            resources,
            verbs,
            names: &[],
            reach: Reach::Cluster,
            when: When::Always,
        }
    }

    const fn named(self, names: &'static [&'static str]) -> Self {
        Self { names, ..self }
    }

    const fn within(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    const fn own_certificate(self) -> Self {
        Self {
            when: When::OwnCertificate,
            ..self
        }
    }
}

/// How a watch begins: with a list, or with one in the stream.
const WATCH: &[&str] = &["list", "watch"];
/// Looking after an object that is known by its name.
const REPAIR: &[&str] = &["get", "list", "patch", "watch"];

/// An event is made, and counted when it happens again.
const EVENTS: Right = Right::new("", &["events"], &["create", "get", "patch"]);

/// One of several replicas works, the others stand by. Where an object is made, names are not looked at.
const fn lease(names: &'static [&'static str]) -> [Right; 2] {
    let leases: &[&str] = &["leases"];
    [
        Right::new("coordination.k8s.io", leases, &["create"]).within(Reach::LeaseNamespace),
        Right::new("coordination.k8s.io", leases, &["get", "update"])
            .named(names)
            .within(Reach::LeaseNamespace),
    ]
}

const SCHEDULER: &[Right] = &[
    Right::new("", &["nodes", "pods"], WATCH),
    Right::new(
        "",
        &[
            "namespaces",
            "persistentvolumeclaims",
            "persistentvolumes",
            "resourcequotas",
        ],
        WATCH,
    ),
    Right::new("policy", &["poddisruptionbudgets"], WATCH),
    Right::new("scheduling.k8s.io", &["priorityclasses"], WATCH),
    Right::new("storage.k8s.io", &["storageclasses"], WATCH),
    Right::new("scheduling.volcano.sh", &["podgroups", "queues"], WATCH),
    // Placing a pod; and looking what became of a bind whose answer was a conflict.
    Right::new("", &["pods/binding"], &["create"]),
    Right::new("", &["pods"], &["get"]),
    // Making room; and letting go of a gang of which only a part could be bound.
    Right::new("", &["pods/eviction"], &["create"]),
    Right::new("", &["pods"], &["delete"]),
    // Saying why something waits, where it will go, what a queue has.
    Right::new("", &["pods/status"], &["patch"]),
    Right::new("scheduling.volcano.sh", &["podgroups", "queues/status"], &["patch"]),
];

const CONTROLLERS: &[Right] = &[
    Right::new("", &["nodes", "pods"], WATCH),
    Right::new("scheduling.k8s.io", &["priorityclasses"], WATCH),
    Right::new("batch.volcano.sh", &["jobs"], WATCH),
    Right::new("bus.volcano.sh", &["commands"], WATCH),
    Right::new("scheduling.volcano.sh", &["podgroups", "queues"], WATCH),
    // Whose pods are plain ones, and how many there will be.
    Right::new("apps", &["daemonsets", "replicasets", "statefulsets"], WATCH),
    Right::new("batch", &["jobs"], WATCH),
    // Jobs: pods, groups, status; away when their time is over.
    Right::new("", &["pods"], &["create", "delete", "patch"]),
    Right::new("batch.volcano.sh", &["jobs/status"], &["patch"]),
    Right::new("batch.volcano.sh", &["jobs"], &["delete"]),
    Right::new("bus.volcano.sh", &["commands"], &["delete"]),
    Right::new("scheduling.volcano.sh", &["podgroups"], &["create", "delete", "patch"]),
    // What job plugins and volumes make beside the pods.
    Right::new("", &["configmaps", "secrets"], &["create", "list", "patch", "watch"]),
    Right::new(
        "",
        &["persistentvolumeclaims", "services"],
        &["create", "list", "watch"],
    ),
    Right::new("networking.k8s.io", &["networkpolicies"], &["create", "list", "watch"]),
    // Queues: the two that always exist, finalizers, Commands, children before parents.
    Right::new("scheduling.volcano.sh", &["queues"], &["create", "delete", "patch"]),
    Right::new("scheduling.volcano.sh", &["queues/status"], &["patch"]),
];

/// The Deployments that write: what uninstalling stops.
pub const DEPLOYMENTS: [&str; 3] = ["basalt-controllers", "basalt-manager", "basalt-webhook"];
/// The Secret with the webhook's authority and certificate.
pub const WEBHOOK_SECRET: &str = "basalt-webhook-tls";
/// The ValidatingWebhookConfiguration.
pub const WEBHOOK_VALIDATE: &str = "basalt-validate";
/// The MutatingWebhookConfiguration.
pub const WEBHOOK_MUTATE: &str = "basalt-mutate";

const WEBHOOK: &[Right] = &[
    Right::new("", &["namespaces", "nodes", "pods"], WATCH),
    Right::new("batch.volcano.sh", &["jobs"], WATCH),
    Right::new("scheduling.volcano.sh", &["podgroups", "queues"], WATCH),
    // Whether the user may do to a queue what a Command would do, or use it.
    Right::new("authorization.k8s.io", &["subjectaccessreviews"], &["create"]),
    // An authority of its own, and its certificate where the API server looks for it.
    Right::new("", &["secrets"], &["create"])
        .within(Reach::Namespace)
        .own_certificate(),
    Right::new("", &["secrets"], &["get", "list", "update", "watch"])
        .named(&[WEBHOOK_SECRET])
        .within(Reach::Namespace)
        .own_certificate(),
    Right::new(
        "admissionregistration.k8s.io",
        &["validatingwebhookconfigurations"],
        REPAIR,
    )
    .named(&[WEBHOOK_VALIDATE])
    .own_certificate(),
    Right::new(
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations"],
        REPAIR,
    )
    .named(&[WEBHOOK_MUTATE])
    .own_certificate(),
];

const UNINSTALL: &[Right] = &[
    Right::new(
        "admissionregistration.k8s.io",
        &["validatingwebhookconfigurations"],
        &["delete"],
    )
    .named(&[WEBHOOK_VALIDATE]),
    Right::new(
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations"],
        &["delete"],
    )
    .named(&[WEBHOOK_MUTATE]),
    // Queues keep what they hold, without anybody who would let go of them.
    Right::new("scheduling.volcano.sh", &["queues"], &["list", "patch"]),
    // The controllers would put the finalizers back, and the webhook its Secret, as long as a pod of theirs runs.
    Right::new("apps", &["deployments"], &["patch"])
        .named(&DEPLOYMENTS)
        .within(Reach::Namespace),
    Right::new("", &["pods"], &["list"]).within(Reach::Namespace),
    Right::new("", &["secrets"], &["delete", "get"])
        .named(&[WEBHOOK_SECRET])
        .within(Reach::Namespace),
];

/// A rule of a role, as Kubernetes writes it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    api_groups: [&'static str; 1],
    resources: Vec<&'static str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    resource_names: &'static [&'static str],
    verbs: Vec<&'static str>,
}

/// The rules of one part: when, where, which.
type Rules = BTreeMap<&'static str, BTreeMap<&'static str, Vec<Rule>>>;

/// Resources with the same verbs are one rule, so that people can read it.
fn rules(part: Part) -> Rules {
    let mut verbs: BTreeMap<_, Vec<&'static str>> = BTreeMap::new();
    for right in part.rights() {
        for resource in right.resources {
            let key = (right.when, right.reach, right.group, right.names, *resource);
            verbs.entry(key).or_default().extend(right.verbs);
        }
    }
    let mut merged: BTreeMap<_, Vec<&'static str>> = BTreeMap::new();
    for ((when, reach, group, names, resource), mut verbs) in verbs {
        verbs.sort_unstable();
        verbs.dedup();
        let key = (when, reach, group, names, verbs);
        merged.entry(key).or_default().push(resource);
    }
    let mut rules = Rules::new();
    for ((when, reach, group, resource_names, verbs), resources) in merged {
        let when = match when {
            When::Always => "always",
            When::OwnCertificate => "ownCertificate",
        };
        let reach = match reach {
            Reach::Cluster => "cluster",
            Reach::Namespace => "namespace",
            Reach::LeaseNamespace => "leaseNamespace",
        };
        rules.entry(when).or_default().entry(reach).or_default().push(Rule {
            api_groups: [group],
            resources,
            resource_names,
            verbs,
        });
    }
    rules
}

/// All rules as a YAML document, for the chart: part, when, where, rules.
pub fn yaml() -> Result<String, serde_saphyr::SerializeError> {
    let all: BTreeMap<&str, Rules> = Part::ALL.map(|part| (part.name(), rules(part))).into();
    serde_saphyr::to_string(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_granted_wholesale() {
        for part in Part::ALL {
            for right in part.rights() {
                let all = right.resources.iter().chain(right.verbs).chain(right.names);
                assert!(all.clone().all(|word| !word.contains('*')), "{right:?}");
                assert!(!right.group.contains('*'), "{right:?}");
                assert!(!right.verbs.is_empty() && !right.resources.is_empty(), "{right:?}");
                // Kubernetes knows no name where an object is made: such a rule would grant nothing.
                let nameless = |verb: &&str| ["create", "deletecollection"].contains(verb);
                assert!(right.names.is_empty() || !right.verbs.iter().any(nameless), "{right:?}");
            }
        }
    }

    #[test]
    fn what_has_the_same_verbs_is_one_rule() {
        let rules = rules(Part::Scheduler);
        let pods: Vec<&Rule> = rules["always"]["cluster"]
            .iter()
            .filter(|rule| rule.resources.contains(&"pods"))
            .collect();
        assert_eq!(pods.len(), 1, "{pods:?}");
        assert_eq!(pods[0].verbs, ["delete", "get", "list", "watch"]);
        let creates: Vec<&Rule> = rules["always"]["cluster"]
            .iter()
            .filter(|rule| rule.verbs == ["create"])
            .collect();
        assert_eq!(creates.len(), 1, "{creates:?}");
        assert_eq!(creates[0].resources, ["pods/binding", "pods/eviction"]);
    }
}
