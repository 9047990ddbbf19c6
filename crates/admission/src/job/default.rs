//! What is filled in. The same on create and on update: `tasks` is replaced as a whole by whoever
//! re-applies a manifest, and must come out as it was stored.

use basalt_api::names;
use serde_json::{Value, json};

use super::{task_min, total};
use crate::read::{absent_or_zero, at, set, text};
use crate::request::Operation;

pub(super) const RETRIES: i64 = 3;

/// Fills in what the user left out.
pub(crate) fn default(operation: Operation, job: &mut Value) {
    if text(job, "/spec/queue").is_empty() {
        set(job, "/spec", "queue", json!(names::DEFAULT_QUEUE));
    }
    if text(job, "/spec/schedulerName").is_empty() {
        set(job, "/spec", "schedulerName", json!(names::SCHEDULER_NAME));
    }
    if absent_or_zero(job, "/spec/maxRetry") {
        set(job, "/spec", "maxRetry", json!(RETRIES));
    }
    if let Some(tasks) = job.pointer_mut("/spec/tasks").and_then(Value::as_array_mut) {
        for (index, task) in tasks.iter_mut().enumerate() {
            default_task(index, task);
        }
    }
    // On update a written zero is a mistake that a rule names.
    let zero = operation == Operation::Create && absent_or_zero(job, "/spec/minAvailable");
    if zero || at(job, "/spec/minAvailable").is_null() {
        let sum = total(job, task_min);
        set(job, "/spec", "minAvailable", json!(sum));
    }
    default_plugins(job);
}

fn default_task(index: usize, task: &mut Value) {
    if text(task, "/name").is_empty() {
        set(task, "", "name", json!(format!("default{index}")));
    }
    let host_network = at(task, "/template/spec/hostNetwork").as_bool() == Some(true);
    if host_network && text(task, "/template/spec/dnsPolicy").is_empty() {
        set(task, "/template/spec", "dnsPolicy", json!("ClusterFirstWithHostNet"));
    }
}

/// The frameworks find their peers by name, which is what svc makes; mpi logs in by ssh.
fn default_plugins(job: &mut Value) {
    let Some(plugins) = job.pointer_mut("/spec/plugins").and_then(Value::as_object_mut) else {
        return;
    };
    if ["tensorflow", "mpi", "pytorch", "ray"]
        .iter()
        .any(|name| plugins.contains_key(*name))
    {
        plugins.entry("svc").or_insert_with(|| json!([]));
    }
    if plugins.contains_key("mpi") {
        plugins.entry("ssh").or_insert_with(|| json!([]));
    }
}
