//! The table of resource kinds: API version, kind, plural and scope of everything that Basalt reads or writes, and the
//! one builder of request paths.

/// A kind of objects that an API server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKind {
    /// Group and version as on the wire: `v1`, `batch.volcano.sh/v1alpha1`.
    pub api_version: &'static str,
    /// Kind as on the wire: `PodGroup`.
    pub kind: &'static str,
    /// Name of the resource in paths: `podgroups`.
    pub plural: &'static str,
    /// Whether objects of this kind live in a namespace.
    pub namespaced: bool,
}

const fn namespaced(api_version: &'static str, kind: &'static str, plural: &'static str) -> ResourceKind {
    ResourceKind {
        api_version,
        kind,
        plural,
        namespaced: true,
    }
}

const fn cluster_scoped(api_version: &'static str, kind: &'static str, plural: &'static str) -> ResourceKind {
    ResourceKind {
        namespaced: false,
        ..namespaced(api_version, kind, plural)
    }
}

/// Declares every kind as a constant, and the table of all of them.
macro_rules! resource_kinds {
    ($($(#[$doc:meta])* $constant:ident = $scope:ident($api_version:literal, $kind:literal, $plural:literal);)*) => {
        $($(#[$doc])* pub const $constant: ResourceKind = $scope($api_version, $kind, $plural);)*

        /// All kinds of the table.
        pub const ALL_KINDS: &[ResourceKind] = &[$($constant),*];
    };
}

resource_kinds! {
    /// Kubernetes' ConfigMap.
    CONFIG_MAP = namespaced("v1", "ConfigMap", "configmaps");
    /// Kubernetes' Event of the core group.
    EVENT = namespaced("v1", "Event", "events");
    /// Kubernetes' Namespace.
    NAMESPACE = cluster_scoped("v1", "Namespace", "namespaces");
    /// Kubernetes' Node.
    NODE = cluster_scoped("v1", "Node", "nodes");
    /// Kubernetes' PersistentVolume.
    PERSISTENT_VOLUME = cluster_scoped("v1", "PersistentVolume", "persistentvolumes");
    /// Kubernetes' PersistentVolumeClaim.
    PERSISTENT_VOLUME_CLAIM = namespaced("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
    /// Kubernetes' Pod.
    POD = namespaced("v1", "Pod", "pods");
    /// Kubernetes' ResourceQuota.
    RESOURCE_QUOTA = namespaced("v1", "ResourceQuota", "resourcequotas");
    /// Kubernetes' Secret.
    SECRET = namespaced("v1", "Secret", "secrets");
    /// Kubernetes' Service.
    SERVICE = namespaced("v1", "Service", "services");

    /// Kubernetes' MutatingWebhookConfiguration.
    MUTATING_WEBHOOK_CONFIGURATION =
        cluster_scoped("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations");
    /// Kubernetes' ValidatingWebhookConfiguration.
    VALIDATING_WEBHOOK_CONFIGURATION =
        cluster_scoped("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations");
    /// Kubernetes' CustomResourceDefinition.
    CUSTOM_RESOURCE_DEFINITION =
        cluster_scoped("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions");
    /// Kubernetes' DaemonSet.
    DAEMON_SET = namespaced("apps/v1", "DaemonSet", "daemonsets");
    /// Kubernetes' Deployment.
    DEPLOYMENT = namespaced("apps/v1", "Deployment", "deployments");
    /// Kubernetes' ReplicaSet.
    REPLICA_SET = namespaced("apps/v1", "ReplicaSet", "replicasets");
    /// Kubernetes' StatefulSet.
    STATEFUL_SET = namespaced("apps/v1", "StatefulSet", "statefulsets");
    /// Kubernetes' SubjectAccessReview.
    SUBJECT_ACCESS_REVIEW = cluster_scoped("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews");
    /// Kubernetes' own Job, not Volcano's.
    BATCH_JOB = namespaced("batch/v1", "Job", "jobs");
    /// Kubernetes' Lease.
    LEASE = namespaced("coordination.k8s.io/v1", "Lease", "leases");
    /// Kubernetes' NetworkPolicy.
    NETWORK_POLICY = namespaced("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies");
    /// Kubernetes' PodDisruptionBudget.
    POD_DISRUPTION_BUDGET = namespaced("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets");
    /// Kubernetes' PriorityClass.
    PRIORITY_CLASS = cluster_scoped("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses");
    /// Kubernetes' StorageClass.
    STORAGE_CLASS = cluster_scoped("storage.k8s.io/v1", "StorageClass", "storageclasses");

    /// Volcano's CronJob.
    CRON_JOB = namespaced("batch.volcano.sh/v1alpha1", "CronJob", "cronjobs");
    /// Volcano's Job.
    JOB = namespaced("batch.volcano.sh/v1alpha1", "Job", "jobs");
    /// Volcano's Command.
    COMMAND = namespaced("bus.volcano.sh/v1alpha1", "Command", "commands");
    /// Volcano's JobFlow.
    JOB_FLOW = namespaced("flow.volcano.sh/v1alpha1", "JobFlow", "jobflows");
    /// Volcano's JobTemplate.
    JOB_TEMPLATE = namespaced("flow.volcano.sh/v1alpha1", "JobTemplate", "jobtemplates");
    /// Volcano's Numatopology.
    NUMATOPOLOGY = cluster_scoped("nodeinfo.volcano.sh/v1alpha1", "Numatopology", "numatopologies");
    /// Volcano's PodGroup.
    POD_GROUP = namespaced("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups");
    /// Volcano's Queue.
    QUEUE = cluster_scoped("scheduling.volcano.sh/v1beta1", "Queue", "queues");
    /// Volcano's NodeShard.
    NODE_SHARD = cluster_scoped("shard.volcano.sh/v1alpha1", "NodeShard", "nodeshards");
    /// Volcano's HyperNode.
    HYPER_NODE = cluster_scoped("topology.volcano.sh/v1alpha1", "HyperNode", "hypernodes");

    /// The bindings of a whole gang in one request, which only the embedded API server offers.
    GANG_BINDING = namespaced("basalt.sh/v1alpha1", "GangBinding", "gangbindings");
}

impl ResourceKind {
    /// Finds the kind with this API version and name.
    pub fn find(api_version: &str, kind: &str) -> Option<Self> {
        let is_it = |known: &&Self| known.api_version == api_version && known.kind == kind;
        ALL_KINDS.iter().find(is_it).copied()
    }

    /// The API group; empty for the core group.
    pub fn group(&self) -> &'static str {
        split_api_version(self.api_version).0
    }

    /// The version within the group.
    pub fn version(&self) -> &'static str {
        split_api_version(self.api_version).1
    }

    /// The kind in small letters, as command lines spell it: `podgroup`.
    pub fn singular(&self) -> String {
        self.kind.to_ascii_lowercase()
    }

    /// Plural and group, as `kubectl` and the store name a resource: `queues.scheduling.volcano.sh`, and `pods` alone.
    pub fn group_resource(&self) -> String {
        self.with_group(self.plural)
    }

    /// Adds the group to a word: `job.batch.volcano.sh`; the core group has no name to add.
    pub fn with_group(&self, word: &str) -> String {
        match self.group() {
            "" => word.to_owned(),
            group => format!("{word}.{group}"),
        }
    }

    /// The path of all objects of this kind in `namespace`; those of every namespace if it is empty.
    pub fn collection_path(&self, namespace: &str) -> String {
        collection_path(self.api_version, self.plural, namespace)
    }

    /// The path of one object; the namespace of a cluster-scoped object is empty.
    pub fn object_path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{name}", self.collection_path(namespace))
    }

    /// The path of a subresource of one object, such as `status` or `binding`.
    pub fn subresource_path(&self, namespace: &str, name: &str, subresource: &str) -> String {
        format!("{}/{name}/{subresource}", self.collection_path(namespace))
    }
}

/// Splits `group/version`; the core group has an empty name.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The path of an API version, under which its resources are found: `/api/v1`, `/apis/batch.volcano.sh/v1alpha1`.
pub fn api_version_path(api_version: &str) -> String {
    let prefix = if split_api_version(api_version).0.is_empty() {
        "api"
    } else {
        "apis"
    };
    format!("/{prefix}/{api_version}")
}

/// The path of a collection, for resources that the table does not list as well.
pub fn collection_path(api_version: &str, plural: &str, namespace: &str) -> String {
    let root = api_version_path(api_version);
    if namespace.is_empty() {
        format!("{root}/{plural}")
    } else {
        format!("{root}/namespaces/{namespace}/{plural}")
    }
}

#[cfg(test)]
mod tests {
    use kube::Resource;

    use super::*;
    use crate::names;

    fn check_type<K: Resource<DynamicType = ()>>(kind: ResourceKind) {
        assert_eq!(K::api_version(&()), kind.api_version);
        assert_eq!(K::kind(&()), kind.kind);
        assert_eq!(K::plural(&()), kind.plural);
        assert_eq!(K::group(&()), kind.group());
        assert_eq!(K::version(&()), kind.version());
    }

    #[test]
    fn the_table_agrees_with_the_types() {
        check_type::<crate::Job>(JOB);
        check_type::<crate::CronJob>(CRON_JOB);
        check_type::<crate::Command>(COMMAND);
        check_type::<crate::JobFlow>(JOB_FLOW);
        check_type::<crate::JobTemplate>(JOB_TEMPLATE);
        check_type::<crate::Numatopology>(NUMATOPOLOGY);
        check_type::<crate::PodGroup>(POD_GROUP);
        check_type::<crate::Queue>(QUEUE);
        check_type::<crate::NodeShard>(NODE_SHARD);
        check_type::<crate::HyperNode>(HYPER_NODE);
        check_type::<crate::slim::Pod>(POD);
        check_type::<crate::slim::Node>(NODE);
        check_type::<k8s_openapi::api::batch::v1::Job>(BATCH_JOB);
        check_type::<k8s_openapi::api::coordination::v1::Lease>(LEASE);
        check_type::<k8s_openapi::api::networking::v1::NetworkPolicy>(NETWORK_POLICY);
        check_type::<k8s_openapi::api::policy::v1::PodDisruptionBudget>(POD_DISRUPTION_BUDGET);
    }

    #[test]
    fn every_kind_stands_in_the_table_once_with_the_usual_plural() {
        for kind in ALL_KINDS {
            assert_eq!(ResourceKind::find(kind.api_version, kind.kind).as_ref(), Some(kind));
            let guess = kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
                kind.group(),
                kind.version(),
                kind.kind,
            ));
            assert_eq!(guess.plural, kind.plural);
        }
        let groups = [
            (JOB, names::BATCH_GROUP),
            (QUEUE, names::SCHEDULING_GROUP),
            (COMMAND, names::BUS_GROUP),
            (JOB_FLOW, names::FLOW_GROUP),
            (HYPER_NODE, names::TOPOLOGY_GROUP),
            (NUMATOPOLOGY, names::NODEINFO_GROUP),
            (NODE_SHARD, names::SHARD_GROUP),
        ];
        for (kind, group) in groups {
            assert_eq!(kind.group(), group);
        }
    }

    #[test]
    fn paths_are_those_of_kubernetes() {
        assert_eq!(POD.collection_path(""), "/api/v1/pods");
        assert_eq!(POD.collection_path("a"), "/api/v1/namespaces/a/pods");
        assert_eq!(POD.object_path("a", "b"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(
            POD.subresource_path("a", "b", "binding"),
            "/api/v1/namespaces/a/pods/b/binding"
        );
        assert_eq!(
            JOB.subresource_path("a", "b", "status"),
            "/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs/b/status"
        );
        assert_eq!(
            QUEUE.object_path("", "q"),
            "/apis/scheduling.volcano.sh/v1beta1/queues/q"
        );
        assert_eq!(NAMESPACE.object_path("", "a"), "/api/v1/namespaces/a");
        assert_eq!(
            (QUEUE.singular(), QUEUE.group_resource()),
            ("queue".into(), "queues.scheduling.volcano.sh".into())
        );
        assert_eq!(POD.group_resource(), "pods");
        assert_eq!(api_version_path(GANG_BINDING.api_version), "/apis/basalt.sh/v1alpha1");
    }
}
