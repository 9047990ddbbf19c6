//! CronJob: jobs on a timetable.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::JobSpec;
use crate::schema;
use crate::wire::unset;

/// When to make which job.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["schedule", "jobTemplate"]))]
#[kube(
    group = "batch.volcano.sh",
    version = "v1alpha1",
    kind = "CronJob",
    doc = "Jobs on a timetable.",
    namespaced,
    status = "CronJobStatus",
    shortname = "cronvcjob",
    shortname = "cronvj",
    category = "volcano",
    category = "all",
    derive = "Default",
    derive = "PartialEq",
    printcolumn(name = "Schedule", type_ = "string", json_path = ".spec.schedule"),
    printcolumn(name = "Suspend", type_ = "boolean", json_path = ".spec.suspend"),
    printcolumn(name = "Last Schedule", type_ = "date", json_path = ".status.lastScheduleTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct CronJobSpec {
    /// Five cron fields, or a word such as `@hourly`.
    pub schedule: String,
    /// Name of the time zone; absent is the controller's.
    #[serde(skip_serializing_if = "unset")]
    pub time_zone: Option<String>,
    /// How late a job may still be made.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "unset")]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens when the last job still runs.
    pub concurrency_policy: ConcurrencyPolicy,
    /// Make no more jobs.
    pub suspend: Option<bool>,
    /// The job to make.
    pub job_template: JobTemplateBody,
    /// Completed jobs to keep.
    #[schemars(range(min = 0))]
    pub successful_jobs_history_limit: Option<i32>,
    /// Failed jobs to keep.
    #[schemars(range(min = 0))]
    pub failed_jobs_history_limit: Option<i32>,
}

impl Default for CronJobSpec {
    fn default() -> Self {
        Self {
            schedule: String::new(),
            time_zone: None,
            starting_deadline_seconds: None,
            concurrency_policy: ConcurrencyPolicy::default(),
            suspend: Some(false),
            job_template: JobTemplateBody::default(),
            successful_jobs_history_limit: Some(3),
            failed_jobs_history_limit: Some(1),
        }
    }
}

/// What happens when it is time and the last job still runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord)]
#[schemars(transform = schema::undescribed)]
pub enum ConcurrencyPolicy {
    /// Both run.
    #[default]
    Allow,
    /// The new one is skipped.
    Forbid,
    /// The old one is deleted.
    Replace,
}

/// A job without a name.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct JobTemplateBody {
    /// Labels and annotations of the job.
    #[schemars(schema_with = "schema::k8s::<ObjectMeta>")]
    #[serde(skip_serializing_if = "unset")]
    pub metadata: ObjectMeta,
    /// The job.
    #[serde(skip_serializing_if = "unset")]
    pub spec: JobSpec,
}

/// What is known of a timetable.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// Jobs that run.
    #[schemars(schema_with = "schema::k8s_list::<ObjectReference>")]
    #[serde(skip_serializing_if = "unset")]
    pub active: Vec<ObjectReference>,
    /// When the last job was made.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub last_schedule_time: Option<Time>,
    /// When the last job completed.
    #[schemars(schema_with = "schema::time")]
    #[serde(skip_serializing_if = "unset")]
    pub last_successful_time: Option<Time>,
}
