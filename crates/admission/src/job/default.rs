//! What is filled in. The same on create and on update: `tasks` is replaced as a whole by whoever
//! re-applies a manifest, and must come out as it was stored.

use basalt_api::job::DEFAULT_MAX_RETRY;
use basalt_api::job::plugins::Plugin;
use basalt_api::json::{integer_at, list_at, string_at, value_or_null};
use basalt_api::names;
use serde_json::{Value, json};

use super::{replicas, starts_alone, task_min, tasks, total};
use crate::read::{absent_or_zero, set, unset};
use crate::request::Operation::Create;
use crate::request::{Request, Settings};

pub(super) const RETRIES: i64 = DEFAULT_MAX_RETRY as i64;

/// Fills in what the user left out.
pub(crate) fn default(request: &Request<'_>, settings: &Settings, job: &mut Value) {
    if unset(job, "/spec/queue") {
        set(job, "/spec", "queue", json!(names::DEFAULT_QUEUE));
    }
    if unset(job, "/spec/schedulerName") {
        let first = settings
            .schedulers
            .first()
            .map_or(names::SCHEDULER_NAME, String::as_str);
        set(job, "/spec", "schedulerName", json!(first));
    }
    if absent_or_zero(job, "/spec/maxRetry") {
        set(job, "/spec", "maxRetry", json!(RETRIES));
    }
    for (index, task) in list_mut(job, "/spec/tasks").iter_mut().enumerate() {
        default_task(index, task);
    }
    if let Some(stored) = request.old {
        keep_claims(stored, job);
        follow_replicas(stored, job);
    }
    // On update a written zero is a mistake that a rule names.
    let zero = request.operation == Create && absent_or_zero(job, "/spec/minAvailable");
    if zero || value_or_null(job, "/spec/minAvailable").is_null() {
        // Who waits for others is not there when the job starts: counted in, it would wait for itself.
        let alone = total(job, |task| if starts_alone(task) { task_min(task) } else { 0 });
        let sum = if alone > 0 { alone } else { total(job, task_min) };
        set(job, "/spec", "minAvailable", json!(sum));
    }
    default_plugins(job);
}

fn list_mut<'a>(job: &'a mut Value, pointer: &str) -> &'a mut [Value] {
    let list = job.pointer_mut(pointer).and_then(Value::as_array_mut);
    list.map_or(&mut [], Vec::as_mut_slice)
}

fn default_task(index: usize, task: &mut Value) {
    if unset(task, "/name") {
        set(task, "", "name", json!(format!("default{index}")));
    }
    let host_network = value_or_null(task, "/template/spec/hostNetwork").as_bool() == Some(true);
    if host_network && unset(task, "/template/spec/dnsPolicy") {
        set(task, "/template/spec", "dnsPolicy", json!("ClusterFirstWithHostNet"));
    }
}

/// The name of a claim that the controller made and wrote down stays, where the manifest knows nothing of it.
fn keep_claims(stored: &Value, job: &mut Value) {
    let volumes = list_at(stored, "/spec/volumes");
    for (index, volume) in list_mut(job, "/spec/volumes").iter_mut().enumerate() {
        let Some(before) = volumes.get(index) else { continue };
        let same = string_at(before, "/mountPath") == string_at(volume, "/mountPath");
        let name = string_at(before, "/volumeClaimName");
        if same
            && !name.is_empty()
            && !value_or_null(volume, "/volumeClaim").is_null()
            && unset(volume, "/volumeClaimName")
        {
            set(volume, "", "volumeClaimName", json!(name));
        }
    }
}

/// Whoever scales a task in partitions says how many pods it has; how many partitions that are follows, where
/// it comes out even.
fn follow_replicas(stored: &Value, job: &mut Value) {
    const TOTAL: &str = "/partitionPolicy/totalPartitions";
    let before = tasks(stored);
    for (index, task) in list_mut(job, "/spec/tasks").iter_mut().enumerate() {
        let Some(old) = before.get(index) else { continue };
        let (pods, size) = (
            replicas(task),
            integer_at(task, "/partitionPolicy/partitionSize").unwrap_or(0),
        );
        let scaled = pods != replicas(old) && value_or_null(task, TOTAL) == value_or_null(old, TOTAL);
        if scaled && size > 0 && pods > 0 && pods % size == 0 {
            set(task, "/partitionPolicy", "totalPartitions", json!(pods / size));
        }
    }
}

/// The frameworks find their peers by name, which is what svc makes; mpi logs in by ssh.
fn default_plugins(job: &mut Value) {
    let Some(plugins) = job.pointer_mut("/spec/plugins").and_then(Value::as_object_mut) else {
        return;
    };
    let named = plugins.keys().filter_map(|name| Plugin::of_name(name));
    let needed: Vec<Plugin> = named.flat_map(Plugin::needs).copied().collect();
    for plugin in needed {
        plugins.entry(plugin.name()).or_insert_with(|| json!([]));
    }
}
