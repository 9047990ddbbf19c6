//! JobFlow and JobTemplate: jobs that follow each other.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::job::{JobPhase, JobSpec, TaskState};
use crate::schema;
use crate::wire::unset;

/// Jobs and what each waits for.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[kube(
    group = "flow.volcano.sh",
    version = "v1alpha1",
    kind = "JobFlow",
    doc = "Jobs that follow each other.",
    namespaced,
    status = "JobFlowStatus",
    shortname = "jf",
    category = "volcano",
    category = "all",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.state.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct JobFlowSpec {
    /// The steps.
    #[serde(skip_serializing_if = "unset")]
    pub flows: Vec<Flow>,
    /// What becomes of the jobs when the flow has succeeded.
    #[serde(skip_serializing_if = "unset")]
    pub job_retain_policy: Option<RetainPolicy>,
}

/// One step: a JobTemplate and what it waits for.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Flow {
    /// Name of the JobTemplate.
    #[schemars(length(min = 1))]
    pub name: String,
    /// What must be done first.
    #[serde(skip_serializing_if = "unset")]
    pub depends_on: Option<FlowDependency>,
    /// Changes to the template.
    #[serde(skip_serializing_if = "unset")]
    pub patch: Option<Patch>,
}

/// Steps that come first, and signs to wait for.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowDependency {
    /// Names of the steps.
    #[serde(skip_serializing_if = "unset")]
    pub targets: Vec<String>,
    /// Signs to wait for.
    #[serde(skip_serializing_if = "unset")]
    pub probe: Option<Probe>,
}

/// Signs that a step has got far enough.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Probe {
    /// HTTP requests that succeed.
    #[serde(skip_serializing_if = "unset")]
    pub http_get_list: Vec<HttpGet>,
    /// Ports that open.
    #[serde(skip_serializing_if = "unset")]
    pub tcp_socket_list: Vec<TcpSocket>,
    /// Tasks that reach a phase.
    #[serde(skip_serializing_if = "unset")]
    pub task_status_list: Vec<TaskStatus>,
}

/// An HTTP request to the pods of a task.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpGet {
    /// The task.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "unset")]
    pub task_name: String,
    /// The path.
    #[serde(skip_serializing_if = "unset")]
    pub path: String,
    /// The port.
    #[schemars(range(min = 0, max = 65535))]
    #[serde(skip_serializing_if = "unset")]
    pub port: i32,
    /// A header to send.
    #[serde(skip_serializing_if = "unset", rename = "httpHeader")]
    pub http_header: Option<HttpHeader>,
}

/// A header.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "value"]))]
pub struct HttpHeader {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A port of the pods of a task.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port"]))]
pub struct TcpSocket {
    /// The task.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "unset")]
    pub task_name: String,
    /// The port.
    #[schemars(range(min = 0, max = 65535))]
    pub port: i32,
}

/// A phase of a task.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskStatus {
    /// The task.
    #[schemars(length(max = 253))]
    #[serde(skip_serializing_if = "unset")]
    pub task_name: String,
    /// The phase.
    #[schemars(length(max = 63))]
    #[serde(skip_serializing_if = "unset")]
    pub phase: String,
}

/// Changes to a template.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Patch {
    /// Fields that replace the template's.
    #[schemars(schema_with = "schema::partial_job_spec")]
    #[serde(skip_serializing_if = "unset")]
    pub job_spec: Option<serde_json::Map<String, serde_json::Value>>,
}

/// What becomes of the jobs of a flow that has succeeded.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
#[serde(rename_all = "lowercase")]
pub enum RetainPolicy {
    /// They stay.
    Retain,
    /// They go.
    Delete,
}

/// What is known of a flow.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct JobFlowStatus {
    /// Jobs that wait.
    #[serde(skip_serializing_if = "unset")]
    pub pending_jobs: Vec<String>,
    /// Jobs that run.
    #[serde(skip_serializing_if = "unset")]
    pub running_jobs: Vec<String>,
    /// Jobs that failed.
    #[serde(skip_serializing_if = "unset")]
    pub failed_jobs: Vec<String>,
    /// Jobs that ended well.
    #[serde(skip_serializing_if = "unset")]
    pub completed_jobs: Vec<String>,
    /// Jobs that were stopped.
    #[serde(skip_serializing_if = "unset")]
    pub terminated_jobs: Vec<String>,
    /// Jobs in any other phase; the wire's spelling.
    #[serde(skip_serializing_if = "unset", rename = "unKnowJobs")]
    pub unknown_jobs: Vec<String>,
    /// Each job in detail.
    #[serde(skip_serializing_if = "unset")]
    pub job_status_list: Vec<FlowJobStatus>,
    /// Jobs by name.
    #[serde(skip_serializing_if = "unset")]
    pub conditions: BTreeMap<String, FlowCondition>,
    /// Where the flow stands.
    #[serde(skip_serializing_if = "unset")]
    pub state: FlowState,
}

/// One job of a flow in detail.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowJobStatus {
    /// Name of the job.
    #[serde(skip_serializing_if = "unset")]
    pub name: String,
    /// Its phase.
    #[serde(skip_serializing_if = "unset")]
    pub state: Option<JobPhase>,
    /// When it began.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub start_timestamp: Option<Time>,
    /// When it ended.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub end_timestamp: Option<Time>,
    /// How often it was restarted.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub restart_count: i32,
    /// The phases that it went through.
    #[serde(skip_serializing_if = "unset")]
    pub running_histories: Vec<RunningHistory>,
}

/// A phase that a job was in.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RunningHistory {
    /// When it began.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub start_timestamp: Option<Time>,
    /// When it ended.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub end_timestamp: Option<Time>,
    /// The phase.
    #[serde(skip_serializing_if = "unset")]
    pub state: Option<JobPhase>,
}

/// A job of a flow, in short.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowCondition {
    /// Its phase.
    #[serde(skip_serializing_if = "unset")]
    pub phase: Option<JobPhase>,
    /// When it was made.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub create_time: Option<Time>,
    /// How long it ran.
    #[serde(skip_serializing_if = "unset")]
    pub running_duration: Option<Duration>,
    /// Its pods by task and phase.
    #[serde(skip_serializing_if = "unset")]
    pub task_status_count: BTreeMap<String, TaskState>,
}

/// Where a flow stands.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowState {
    /// The phase.
    #[serde(skip_serializing_if = "unset")]
    pub phase: Option<FlowPhase>,
}

/// Phases of a flow.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
pub enum FlowPhase {
    /// All steps completed.
    Succeed,
    /// Being stopped.
    Terminating,
    /// A step failed.
    Failed,
    /// A step runs.
    Running,
    /// No step runs yet.
    Pending,
}

/// A job to be made later: its spec is a Job's spec.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(transparent)]
#[kube(
    group = "flow.volcano.sh",
    version = "v1alpha1",
    kind = "JobTemplate",
    doc = "A job to be made later, by a JobFlow.",
    namespaced,
    status = "JobTemplateStatus",
    shortname = "jt",
    category = "volcano",
    derive = "Default",
    derive = "PartialEq"
)]
pub struct JobTemplateSpec(pub JobSpec);

/// What is known of a template.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct JobTemplateStatus {
    /// Jobs made from it.
    #[serde(skip_serializing_if = "unset")]
    pub job_depends_on_list: Vec<String>,
}
