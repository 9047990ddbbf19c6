//! Job: tasks of pods that run as one, with a lifecycle.

pub mod plugins;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::names;
use crate::podgroup::NetworkTopology;
use crate::schema;
use crate::wire::{unset, words};

/// What to run, and what to do when something happens to it.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[kube(
    group = "batch.volcano.sh",
    version = "v1alpha1",
    kind = "Job",
    doc = "Tasks of pods that run as one gang, with a lifecycle.",
    namespaced,
    status = "JobStatus",
    shortname = "vcjob",
    shortname = "vj",
    category = "volcano",
    category = "all",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.state.phase"),
    printcolumn(name = "minAvailable", type_ = "integer", json_path = ".status.minAvailable"),
    printcolumn(name = "RUNNINGS", type_ = "integer", json_path = ".status.running"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "QUEUE", type_ = "string", json_path = ".spec.queue", priority = 1)
)]
pub struct JobSpec {
    /// The scheduler of the pods.
    #[schemars(length(max = 63))]
    #[serde(skip_serializing_if = "unset")]
    pub scheduler_name: String,
    /// Pods that must run for the job to run.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub min_available: i32,
    /// Volumes that every pod mounts.
    #[serde(skip_serializing_if = "unset")]
    pub volumes: Vec<VolumeSpec>,
    /// The kinds of pods.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "unset")]
    pub tasks: Vec<TaskSpec>,
    /// What to do when something happens to any pod.
    #[serde(skip_serializing_if = "unset")]
    pub policies: Vec<LifecyclePolicy>,
    /// Plugins and their arguments.
    #[serde(skip_serializing_if = "unset")]
    pub plugins: BTreeMap<String, Vec<String>>,
    /// How long the job is thought to run.
    #[serde(skip_serializing_if = "unset")]
    pub running_estimate: Option<Duration>,
    /// The queue that pays.
    #[schemars(length(max = 253), regex(pattern = schema::DNS_SUBDOMAIN_OR_EMPTY))]
    pub queue: String,
    /// How often the job is restarted before it fails.
    #[schemars(range(min = 0))]
    pub max_retry: i32,
    /// Seconds that a finished job is kept.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Priority class of the job.
    #[schemars(length(max = 253), regex(pattern = schema::DNS_SUBDOMAIN_OR_EMPTY))]
    #[serde(skip_serializing_if = "unset")]
    pub priority_class_name: String,
    /// Pods that must succeed for the job to succeed.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "unset")]
    pub min_success: Option<i32>,
    /// How close to each other the pods must be.
    #[serde(skip_serializing_if = "unset")]
    pub network_topology: Option<NetworkTopology>,
}

/// What a Command may ask of a Job.
pub const COMMAND_ACTIONS: [Action; 5] = [
    Action::AbortJob,
    Action::ResumeJob,
    Action::RestartJob,
    Action::TerminateJob,
    Action::CompleteJob,
];

/// Restarts before a job fails, unless told otherwise.
pub const DEFAULT_MAX_RETRY: i32 = 3;

impl Default for JobSpec {
    fn default() -> Self {
        Self {
            scheduler_name: String::new(),
            min_available: 0,
            volumes: Vec::new(),
            tasks: Vec::new(),
            policies: Vec::new(),
            plugins: BTreeMap::new(),
            running_estimate: None,
            queue: names::DEFAULT_QUEUE.to_owned(),
            max_retry: DEFAULT_MAX_RETRY,
            ttl_seconds_after_finished: None,
            priority_class_name: String::new(),
            min_success: None,
            network_topology: None,
        }
    }
}

/// A volume of every pod of the job.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["mountPath"]))]
pub struct VolumeSpec {
    /// Where it is mounted.
    #[schemars(length(min = 1), regex(pattern = "^[^:]+$"))]
    pub mount_path: String,
    /// Claim that exists or will be made.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "unset")]
    pub volume_claim_name: String,
    /// Claim to make.
    #[schemars(schema_with = "schema::k8s::<PersistentVolumeClaimSpec>")]
    #[serde(skip_serializing_if = "unset")]
    pub volume_claim: Option<PersistentVolumeClaimSpec>,
}

/// Pods of one kind.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskSpec {
    /// Name of the task.
    #[schemars(length(max = 63), regex(pattern = schema::DNS_LABEL_OR_EMPTY))]
    #[serde(skip_serializing_if = "unset")]
    pub name: String,
    /// How many pods.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub replicas: i32,
    /// How many of them must run; absent follows `replicas`.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub min_available: Option<i32>,
    /// The pod.
    #[schemars(schema_with = "schema::k8s::<PodTemplateSpec>")]
    #[serde(skip_serializing_if = "unset")]
    pub template: PodTemplateSpec,
    /// What to do when something happens to a pod of this task.
    #[serde(skip_serializing_if = "unset")]
    pub policies: Vec<LifecyclePolicy>,
    /// NUMA policy.
    #[serde(skip_serializing_if = "unset")]
    pub topology_policy: Option<TopologyPolicy>,
    /// How often the task is restarted.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub max_retry: i32,
    /// Tasks that must be up first.
    #[serde(skip_serializing_if = "unset")]
    pub depends_on: Option<DependsOn>,
    /// Cuts the task into gangs of one size.
    #[serde(skip_serializing_if = "unset")]
    pub partition_policy: Option<PartitionPolicy>,
}

/// NUMA policy of a task.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyPolicy {
    /// None.
    None,
    /// Prefer one NUMA node.
    BestEffort,
    /// Refuse what is not aligned.
    Restricted,
    /// All from one NUMA node.
    SingleNumaNode,
}

/// Tasks that must be up before this one.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct DependsOn {
    /// Names of those tasks.
    #[serde(skip_serializing_if = "unset")]
    pub name: Vec<String>,
    /// Whether any or all of them; absent is all.
    #[serde(skip_serializing_if = "unset")]
    pub iteration: Option<Iteration>,
}

/// Any or all of the named tasks.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
#[serde(rename_all = "lowercase")]
pub enum Iteration {
    /// One is enough.
    Any,
    /// Every one.
    All,
}

/// Gangs of one size inside a task.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["totalPartitions", "partitionSize"]))]
pub struct PartitionPolicy {
    /// How many.
    #[schemars(range(min = 1))]
    pub total_partitions: i32,
    /// Pods in each.
    #[schemars(range(min = 1))]
    pub partition_size: i32,
    /// Topology of each.
    #[serde(skip_serializing_if = "unset")]
    pub network_topology: Option<NetworkTopology>,
    /// How many must run.
    #[schemars(range(min = 0))]
    pub min_partitions: i32,
}

/// When this happens, do that.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecyclePolicy {
    /// What to do.
    #[serde(skip_serializing_if = "unset")]
    pub action: Action,
    /// What happened.
    #[serde(skip_serializing_if = "unset")]
    pub event: Event,
    /// Or any of these.
    #[serde(skip_serializing_if = "unset")]
    pub events: Vec<Event>,
    /// Or a container ended with this code.
    #[serde(skip_serializing_if = "unset")]
    pub exit_code: Option<i32>,
    /// How long to wait first.
    #[serde(skip_serializing_if = "unset")]
    pub timeout: Option<Duration>,
}

impl LifecyclePolicy {
    /// All events that the policy names.
    pub fn all_events(&self) -> impl Iterator<Item = &Event> {
        let single = Some(&self.event).filter(|event| !event.as_str().is_empty());
        single.into_iter().chain(&self.events)
    }
}

words! {
    /// What a policy or a command does to a job or a queue.
    Action (free) {
        /// Stop the job; it can be resumed.
        AbortJob = "AbortJob",
        /// Stop and start the whole job.
        RestartJob = "RestartJob",
        /// Restart one task.
        RestartTask = "RestartTask",
        /// Restart one pod.
        RestartPod = "RestartPod",
        /// Restart one partition.
        RestartPartition = "RestartPartition",
        /// Stop the job for good.
        TerminateJob = "TerminateJob",
        /// End the job as completed.
        CompleteJob = "CompleteJob",
        /// Go on with an aborted job.
        ResumeJob = "ResumeJob",
        /// Internal: bring pods in line with the spec.
        SyncJob = "SyncJob",
        /// Internal: let the job in.
        EnqueueJob = "EnqueueJob",
        /// Internal: the spec was changed.
        UpdateJob = "UpdateJob",
        /// Internal: bring a queue's status in line.
        SyncQueue = "SyncQueue",
        /// Open a queue.
        OpenQueue = "OpenQueue",
        /// Close a queue.
        CloseQueue = "CloseQueue",
    }
}

words! {
    /// What can happen to a job.
    Event (listed) {
        /// Anything but an update of the job.
        Any = "*",
        /// A pod waits.
        PodPending = "PodPending",
        /// A pod runs.
        PodRunning = "PodRunning",
        /// A pod failed.
        PodFailed = "PodFailed",
        /// A pod was evicted.
        PodEvicted = "PodEvicted",
        /// The job runs in part and the rest does not fit.
        Unknown = "Unknown",
        /// All pods of a task succeeded.
        TaskCompleted = "TaskCompleted",
        /// A task failed.
        TaskFailed = "TaskFailed",
        /// Spec and pods differ.
        OutOfSync = "OutOfSync",
        /// A Command came in.
        CommandIssued = "CommandIssued",
        /// The spec was changed.
        JobUpdated = "JobUpdated",
    }
}

/// What is known of a job. Counters are always written, so that a patch can bring one back to 0.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Where it stands.
    #[serde(skip_serializing_if = "unset")]
    pub state: JobState,
    /// Pods that must run.
    #[schemars(range(min = 0))]
    pub min_available: i32,
    /// Pods by what they do.
    #[serde(skip_serializing_if = "unset")]
    pub task_status_count: BTreeMap<String, TaskState>,
    /// Pods that wait.
    #[schemars(range(min = 0))]
    pub pending: i32,
    /// Pods that run.
    #[schemars(range(min = 0))]
    pub running: i32,
    /// Pods that ended well.
    #[schemars(range(min = 0))]
    pub succeeded: i32,
    /// Pods that failed.
    #[schemars(range(min = 0))]
    pub failed: i32,
    /// Pods that are being stopped.
    #[schemars(range(min = 0))]
    pub terminating: i32,
    /// Pods whose node does not answer.
    #[schemars(range(min = 0))]
    pub unknown: i32,
    /// Grows with every restart.
    #[schemars(range(min = 0))]
    pub version: i32,
    /// How often the job was restarted.
    #[schemars(range(min = 0))]
    pub retry_count: i32,
    /// How long it ran.
    #[serde(skip_serializing_if = "unset")]
    pub running_duration: Option<Duration>,
    /// What plugins and volumes made for the job.
    #[serde(skip_serializing_if = "unset")]
    pub controlled_resources: BTreeMap<String, String>,
    /// Phases that the job went through, one entry each.
    #[serde(skip_serializing_if = "unset")]
    pub conditions: Vec<JobCondition>,
    /// Generation of the spec that was acted on. Not in Volcano.
    #[serde(skip_serializing_if = "unset")]
    pub observed_generation: Option<i64>,
    /// Restarts whose pods are not all gone yet. Not in Volcano.
    #[serde(skip_serializing_if = "unset")]
    pub restarts: Vec<Restart>,
    /// Pods that scaling down takes away, until they are gone. Not in Volcano.
    #[serde(skip_serializing_if = "unset")]
    pub surplus: Vec<Surplus>,
    /// Places whose pods were taken away and which a policy waits for. Not in Volcano.
    #[serde(skip_serializing_if = "unset")]
    pub vacancies: Vec<Vacancy>,
    /// Tasks whose containers were restarted too often, since when, while a policy waits. Not in Volcano.
    #[serde(skip_serializing_if = "unset")]
    pub failing_tasks: BTreeMap<String, Time>,
    /// uids of the Commands that have had their effect. Not in Volcano.
    #[serde(skip_serializing_if = "unset")]
    pub applied_commands: Vec<String>,
}

/// A restart: the pods that were made before it, and are within its scope, go.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Restart {
    /// The value of `retryCount` that it led to: pods of a smaller one were made before it.
    #[schemars(range(min = 0))]
    pub retry: i32,
    /// Only pods of this task.
    #[serde(skip_serializing_if = "unset")]
    pub task: String,
    /// Only the pod with this index.
    #[serde(skip_serializing_if = "unset")]
    pub index: Option<i32>,
    /// Only pods of this partition.
    #[serde(skip_serializing_if = "unset")]
    pub partition: Option<i32>,
    /// uid of the PodGroup that goes with them.
    #[serde(skip_serializing_if = "unset")]
    pub pod_group: String,
}

/// Pods of a task that scaling down takes away.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Surplus {
    /// The task.
    pub task: String,
    /// Those with this index or a higher one.
    #[schemars(range(min = 0))]
    pub from: i32,
    /// Of these, the pods that were made for an earlier generation of the spec.
    #[schemars(range(min = 0))]
    pub generation: i64,
}

/// A place of which the pod was taken away.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Vacancy {
    /// The task.
    pub task: String,
    /// The index of the pod.
    #[schemars(range(min = 0))]
    pub index: i32,
    /// When it was missed.
    pub since: Option<Time>,
}

impl Vacancy {
    /// The place of a task with that index, vacant since then; none if the index is beyond all indices.
    pub fn new(task: &str, index: u32, since: Time) -> Option<Self> {
        Some(Self {
            task: task.to_owned(),
            index: i32::try_from(index).ok()?,
            since: Some(since),
        })
    }
}

/// Where a job stands, and since when.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct JobState {
    /// The phase; absent on a job that nobody has looked at.
    #[serde(skip_serializing_if = "unset")]
    pub phase: Option<JobPhase>,
    /// One word.
    #[serde(skip_serializing_if = "unset")]
    pub reason: String,
    /// One sentence.
    #[serde(skip_serializing_if = "unset")]
    pub message: String,
    /// When the phase changed.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub last_transition_time: Option<Time>,
}

/// Phases of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[schemars(transform = schema::undescribed)]
pub enum JobPhase {
    /// Waits for enough pods.
    #[default]
    Pending,
    /// Is being suspended.
    Aborting,
    /// Is suspended; can be resumed.
    Aborted,
    /// Enough pods run.
    Running,
    /// Is between two runs.
    Restarting,
    /// Is being ended as completed.
    Completing,
    /// Ended well.
    Completed,
    /// Is being stopped for good.
    Terminating,
    /// Was stopped for good.
    Terminated,
    /// Ran out of retries, or cannot succeed any more.
    Failed,
}

impl JobPhase {
    /// Whether the job has ended for good; an aborted job has not.
    pub const fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Terminated | Self::Failed)
    }

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Aborting => "Aborting",
            Self::Aborted => "Aborted",
            Self::Running => "Running",
            Self::Restarting => "Restarting",
            Self::Completing => "Completing",
            Self::Completed => "Completed",
            Self::Terminating => "Terminating",
            Self::Terminated => "Terminated",
            Self::Failed => "Failed",
        }
    }
}

impl std::fmt::Display for JobPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Pods of one task by phase.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskState {
    /// Number of pods in each phase.
    #[serde(skip_serializing_if = "unset")]
    pub phase: BTreeMap<String, i32>,
}

/// A phase that the job was in.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["status"]))]
pub struct JobCondition {
    /// The phase.
    pub status: JobPhase,
    /// When it began.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub last_transition_time: Option<Time>,
}

impl TaskSpec {
    /// Pods of this task that must run: `minAvailable`, or all replicas.
    pub fn min_available(&self) -> i32 {
        self.min_available.unwrap_or(self.replicas)
    }
}

impl Job {
    /// The phase; `Pending` for a job that nobody has looked at.
    pub fn phase(&self) -> JobPhase {
        self.status
            .as_ref()
            .and_then(|status| status.state.phase)
            .unwrap_or_default()
    }

    /// All replicas of all tasks.
    pub fn total_replicas(&self) -> i64 {
        self.spec.tasks.iter().map(|task| i64::from(task.replicas)).sum()
    }
}
