//! Jobs: what is filled in, and what must hold.

mod default;
mod fixed;
mod names;
mod numbers;
mod parts;
mod plugins;
mod policies;
mod template;
mod warnings;

pub(crate) use default::default;
pub(crate) use parts::topologies;
pub(crate) use warnings::warnings;

use basalt_api::json::{integer_at, list_at, string_at};
use serde_json::Value;

use crate::rule::Rule;

/// Everything that must hold for a Job that is created or changed. What the rest is counted by comes first.
pub(crate) const RULES: &[Rule] = &[
    numbers::TASKS_PRESENT,
    names::TASK_NAMES,
    names::TASK_NAMES_UNIQUE,
    numbers::REPLICAS,
    numbers::TASK_MIN_AVAILABLE,
    numbers::MIN_AVAILABLE_POSITIVE,
    numbers::MIN_AVAILABLE_REACHABLE,
    numbers::MIN_SUCCESS_REACHABLE,
    numbers::MAX_RETRY,
    numbers::TTL,
    numbers::PARTITIONS,
    names::POD_NAMES,
    names::SERVICE_NAME,
    plugins::KNOWN,
    plugins::TASKS,
    policies::TRIGGER,
    policies::WORDS,
    policies::ONCE,
    policies::DURATIONS,
    parts::DEPENDS_ON,
    parts::VOLUMES,
    parts::TOPOLOGY,
    template::CONTAINERS,
    template::RESOURCES,
    template::MOUNTS,
    template::WHOLE_CPUS,
    template::PODS,
    fixed::SPEC_FIXED,
];

/// The tasks of a Job.
fn tasks(job: &Value) -> &[Value] {
    list_at(job, "/spec/tasks")
}

/// The replicas of a task; none written means none wanted.
fn replicas(task: &Value) -> i64 {
    integer_at(task, "/replicas").unwrap_or(0)
}

/// The pods of a task that must run together: its minAvailable, else what its partitions need, else
/// all replicas. Never written into the object, so that it follows a change of replicas.
fn task_min(task: &Value) -> i64 {
    let partitions = integer_at(task, "/partitionPolicy/minPartitions").unwrap_or(0);
    let size = integer_at(task, "/partitionPolicy/partitionSize").unwrap_or(0);
    match (integer_at(task, "/minAvailable"), partitions.saturating_mul(size)) {
        (Some(written), _) => written,
        (None, 0) => replicas(task),
        (None, partitioned) => partitioned,
    }
}

/// Whether the pods of a task are made whatever becomes of the others.
fn starts_alone(task: &Value) -> bool {
    list_at(task, "/dependsOn/name").is_empty()
}

/// Sum of a number over all tasks.
fn total(job: &Value, of: fn(&Value) -> i64) -> i64 {
    tasks(job).iter().map(of).fold(0, i64::saturating_add)
}

/// The name of a task, for messages: its own, else its place in the list.
fn task_label(index: usize, task: &Value) -> String {
    match string_at(task, "/name") {
        "" => format!("spec.tasks[{index}]"),
        name => format!("spec.tasks[{index}] ({name})"),
    }
}
