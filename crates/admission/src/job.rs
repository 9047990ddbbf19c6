//! Jobs: what is filled in, and what must hold.

mod default;
mod parts;
mod rules;

pub(crate) use default::default;
pub(crate) use parts::RULES as PART_RULES;
pub(crate) use rules::RULES;

use serde_json::Value;

use crate::read::{integer, items, text};

/// The plugins that a Job may name.
pub(crate) const PLUGINS: &[&str] = &["env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow"];

/// The tasks of a Job.
pub(crate) fn tasks(job: &Value) -> &[Value] {
    items(job, "/spec/tasks")
}

/// The replicas of a task; none written means none wanted.
pub(crate) fn replicas(task: &Value) -> i64 {
    integer(task, "/replicas").unwrap_or(0)
}

/// The pods of a task that must run together: its minAvailable, else what its partitions need, else
/// all replicas. Never written into the object, so that it follows a change of replicas.
pub(crate) fn task_min(task: &Value) -> i64 {
    let partitions = integer(task, "/partitionPolicy/minPartitions").unwrap_or(0);
    let size = integer(task, "/partitionPolicy/partitionSize").unwrap_or(0);
    match (integer(task, "/minAvailable"), partitions.saturating_mul(size)) {
        (Some(written), _) => written,
        (None, 0) => replicas(task),
        (None, partitioned) => partitioned,
    }
}

/// Sum of a number over all tasks.
pub(crate) fn total(job: &Value, of: fn(&Value) -> i64) -> i64 {
    tasks(job).iter().map(of).fold(0, i64::saturating_add)
}

/// The name of a task, for messages: its own, else its place in the list.
pub(crate) fn task_label(index: usize, task: &Value) -> String {
    match text(task, "/name") {
        "" => format!("spec.tasks[{index}]"),
        name => format!("spec.tasks[{index}] ({name})"),
    }
}
