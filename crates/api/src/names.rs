//! Every well-known label, annotation, finalizer and name, once.

/// Group of Queue and PodGroup.
pub const SCHEDULING_GROUP: &str = "scheduling.volcano.sh";
/// Group of Job and CronJob.
pub const BATCH_GROUP: &str = "batch.volcano.sh";
/// Group of Command.
pub const BUS_GROUP: &str = "bus.volcano.sh";
/// Group of JobFlow and JobTemplate.
pub const FLOW_GROUP: &str = "flow.volcano.sh";
/// Group of HyperNode.
pub const TOPOLOGY_GROUP: &str = "topology.volcano.sh";
/// Group of Numatopology.
pub const NODEINFO_GROUP: &str = "nodeinfo.volcano.sh";
/// Group of NodeShard.
pub const SHARD_GROUP: &str = "shard.volcano.sh";

/// The scheduler that serves our jobs, unless told otherwise.
pub const SCHEDULER_NAME: &str = "volcano";
/// The names that our scheduler answers to, unless told otherwise.
pub const SCHEDULER_NAMES: [&str; 2] = [SCHEDULER_NAME, "basalt"];
/// Kubernetes' own scheduler's name; embedded, its pods are ours too.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";
/// The queue above all others.
pub const ROOT_QUEUE: &str = "root";
/// The queue of those who name none.
pub const DEFAULT_QUEUE: &str = "default";
/// Finalizer that lets the queue controller empty a queue before it goes.
pub const QUEUE_FINALIZER: &str = "basalt.sh/queue";
/// Resource name that counts pods.
pub const PODS: &str = "pods";

/// Pod annotation: the PodGroup that the pod belongs to.
pub const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
/// Pod annotation: declared alias of [`GROUP_NAME`].
pub const GROUP_NAME_ALIAS: &str = "scheduling.volcano.sh/group-name";
/// Annotation of a pod, its owner or its namespace: the queue of plain pods.
pub const QUEUE_NAME: &str = "scheduling.volcano.sh/queue-name";
/// Owner annotation: `minMember` of the PodGroup made for it.
pub const GROUP_MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
/// Owner annotation: `minResources` of the PodGroup made for it (declared by Volcano, unused there).
pub const GROUP_MIN_RESOURCES: &str = "scheduling.volcano.sh/group-min-resources";
/// Pod annotation and scheduling gate: hold the pod until its queue has room.
pub const QUEUE_ALLOCATION_GATE: &str = "scheduling.volcano.sh/queue-allocation-gate";

/// Pod label and annotation: name of the Job.
pub const JOB_NAME: &str = "volcano.sh/job-name";
/// Pod label: namespace of the Job.
pub const JOB_NAMESPACE: &str = "volcano.sh/job-namespace";
/// Pod label and annotation: name of the task.
pub const TASK_SPEC: &str = "volcano.sh/task-spec";
/// Pod annotation: its order among the pods of its group, in place of its priority.
pub const TASK_PRIORITY: &str = "volcano.sh/task-priority";
/// Pod label and annotation: index of the pod in its task.
pub const TASK_INDEX: &str = "volcano.sh/task-index";
/// Pod label and annotation: queue of the Job.
pub const JOB_QUEUE_NAME: &str = "volcano.sh/queue-name";
/// Pod annotation: version of the Job; events of older versions are stale.
pub const JOB_VERSION: &str = "volcano.sh/job-version";
/// Pod annotation: how often the Job had been retried when the pod was made.
pub const JOB_RETRY_COUNT: &str = "volcano.sh/job-retry-count";
/// Pod annotation: the generation of the Job's spec that the pod was made for. Not in Volcano.
pub const JOB_GENERATION: &str = "basalt.sh/job-generation";
/// Pod annotation: identity of the template.
pub const TEMPLATE_UID: &str = "volcano.sh/template-uid";
/// Pod label: index / partitionSize.
pub const PARTITION_ID: &str = "volcano.sh/partition-id";
/// Pod annotation: the controller is killing this pod, so its events do not count.
pub const OUT_OF_SYNC: &str = "volcano.sh/controller-out-of-sync";
/// Job label: its type, shown by the command line.
pub const JOB_TYPE: &str = "volcano.sh/job-type";
/// Job annotation: may be forwarded to other clusters.
pub const JOB_FORWARDING: &str = "volcano.sh/job-forwarding";
/// Job annotation: cluster that it was forwarded to.
pub const FORWARD_CLUSTER: &str = "volcano.sh/forward-cluster";
/// Pod annotation: burst group.
pub const BURST_NAME: &str = "volcano.sh/burst-name";
/// Pod annotation: silo resource.
pub const SILO_RESOURCE: &str = "volcano.sh/silo-resource";
/// Label of jobs and pods made by the command line.
pub const CLI_JOB: &str = "job.volcano.sh";

/// Queue annotation: path in drf's tree.
pub const HIERARCHY: &str = "volcano.sh/hierarchy";
/// Queue annotation: weights along that path.
pub const HIERARCHY_WEIGHTS: &str = "volcano.sh/hierarchy-weights";
/// Queue annotation, informational here: closed because of an ancestor.
pub const CLOSED_BY_PARENT: &str = "volcano.sh/closed-by-parent";
/// Queue annotation: uids of the Commands whose effect is already in `spec.state`.
pub const APPLIED_COMMANDS: &str = "basalt.sh/applied-commands";

/// Prefix of annotations that a PodGroup inherits from the owner of its pods.
pub const INHERITED_PREFIX: &str = "volcano.sh/";
/// Annotation or label: may be evicted for others.
pub const PREEMPTABLE: &str = "volcano.sh/preemptable";
/// Annotation and label: time that a pod is safe after it started.
pub const COOLDOWN_TIME: &str = "volcano.sh/cooldown-time";
/// Annotation: zone whose nodes may be taken back.
pub const REVOCABLE_ZONE: &str = "volcano.sh/revocable-zone";
/// Annotation: pods that must stay available.
pub const JDB_MIN_AVAILABLE: &str = "volcano.sh/jdb-min-available";
/// Annotation: pods that may be unavailable.
pub const JDB_MAX_UNAVAILABLE: &str = "volcano.sh/jdb-max-unavailable";
/// Annotation: longest wait of a job.
pub const SLA_WAITING_TIME: &str = "volcano.sh/sla-waiting-time";
/// Annotation: the same, by its older name.
pub const SLA_WAITING_TIME_ALIAS: &str = "sla-waiting-time";
/// Annotation: fuller (`MostAllocated`) or emptier (`LeastAllocated`) nodes first.
pub const STRATEGY_TYPE: &str = "volcano.sh/resource-strategy-scoring-type";
/// Annotation: weights of resources in a node's score, as JSON.
pub const STRATEGY_WEIGHT: &str = "volcano.sh/resource-strategy-weight";
/// Annotation: NUMA policy of the pod.
pub const NUMA_TOPOLOGY_POLICY: &str = "volcano.sh/numa-topology-policy";
/// Annotation: quality of service class for colocation.
pub const QOS_LEVEL: &str = "volcano.sh/qos-level";
/// Pod annotation: network topology mode of its PodGroup.
pub const NETWORK_TOPOLOGY_MODE: &str = "volcano.sh/network-topology-mode";
/// Pod annotation: highest tier of its PodGroup.
pub const NETWORK_TOPOLOGY_HIGHEST_TIER: &str = "volcano.sh/network-topology-highest-tier";
/// PodGroup annotation: lowest HyperNode that holds all its pods.
pub const JOB_ALLOCATED_HYPERNODE: &str = "volcano.sh/job-allocated-hypernode";
/// Node label: its group.
pub const NODEGROUP_NAME: &str = "volcano.sh/nodegroup-name";
/// Pod annotation: resource group of the pod webhook's configuration.
pub const RESOURCE_GROUP: &str = "volcano.sh/resource-group";
/// Job label and annotation: `<namespace>.<name>` of the JobFlow.
pub const CREATED_BY_JOB_FLOW: &str = "volcano.sh/createdByJobFlow";
/// Job label and annotation: `<namespace>.<name>` of the JobTemplate.
pub const CREATED_BY_JOB_TEMPLATE: &str = "volcano.sh/createdByJobTemplate";
/// Job annotation: time that its CronJob meant.
pub const CRONJOB_SCHEDULED_TIMESTAMP: &str = "volcano.sh/cronjob-scheduled-timestamp";

/// Annotation of what a job plugin made: which content it has. Another content has another mark.
pub const CONTENT: &str = "basalt.sh/content";

/// Job and PodGroup annotation: the one scheduler that decides about its pods; those with other names leave it alone.
pub const SCHEDULER: &str = "basalt.sh/scheduler-name";

/// Node label: a node that runs nothing and is served by the fake kubelet.
pub const FAKE_NODE: &str = "basalt.sh/fake";
/// Pod annotation on fake nodes: how long it runs.
pub const RUN_TIME: &str = "basalt.sh/run-time";
/// Pod annotation on fake nodes: its exit code.
pub const EXIT_CODE: &str = "basalt.sh/exit-code";
/// Pod annotation on fake nodes: how long it takes to stop.
pub const STOP_TIME: &str = "basalt.sh/stop-time";

/// Annotation in which `kubectl apply` keeps the last manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotation that makes a StorageClass the default one.
pub const DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Annotation of pods that mirror a static pod.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// Node label: its host name.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// Priority class of node-critical system pods.
pub const SYSTEM_NODE_CRITICAL: &str = "system-node-critical";
/// Priority class of cluster-critical system pods.
pub const SYSTEM_CLUSTER_CRITICAL: &str = "system-cluster-critical";

/// Whether a label or an annotation says yes, as Go reads it; what cannot be read is a no.
pub fn says_yes(word: &str) -> bool {
    matches!(word, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Name of the PodGroup of a Volcano Job.
pub fn job_pod_group(job: &str, uid: &str) -> String {
    format!("{job}-{uid}")
}

/// Name of the PodGroup of plain pods: `uid` is their controller's, or the pod's own.
pub fn plain_pod_group(uid: &str) -> String {
    format!("podgroup-{uid}")
}

/// Name of pod `index` of a task.
pub fn job_pod(job: &str, task: &str, index: u32) -> String {
    format!("{job}-{task}-{index}")
}
