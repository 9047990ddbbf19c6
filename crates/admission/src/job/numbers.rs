//! The numbers of a Job: how many pods there are, how many must run, how many succeed.

use std::ops::RangeInclusive;

use basalt_api::json::{integer_at, value_or_null};
use serde_json::Value;

use super::{replicas, task_label, tasks, total};
use crate::read::{brief, outside};
use crate::request::Operation::Update;
use crate::rule::{Case, Rule};

/// What the type on the wire holds.
const COUNT_MAX: i64 = i32::MAX as i64;
const COUNTS: RangeInclusive<i64> = 0..=COUNT_MAX;

pub(super) const TASKS_PRESENT: Rule = Rule::invalid("job/tasks-present", "a job has at least one task", tasks_present);
pub(super) const REPLICAS: Rule = Rule::invalid(
    "job/replicas",
    "replicas are whole numbers, zero or more, and all together no more than the type holds (2147483647)",
    replicas_valid,
);
pub(super) const TASK_MIN_AVAILABLE: Rule = Rule::invalid(
    "job/task-min-available",
    "a task's minAvailable is between 0 and its replicas",
    task_min_available,
);
pub(super) const MIN_AVAILABLE_POSITIVE: Rule = Rule::invalid(
    "job/min-available-positive",
    "minAvailable is a whole number above zero",
    min_available_positive,
);
pub(super) const MIN_AVAILABLE_REACHABLE: Rule = Rule::invalid(
    "job/min-available-reachable",
    "minAvailable is at most the sum of replicas",
    min_available_reachable,
);
pub(super) const MIN_SUCCESS_REACHABLE: Rule = Rule::invalid(
    "job/min-success-reachable",
    "minSuccess is between 1 and the sum of replicas",
    min_success_reachable,
);
pub(super) const MAX_RETRY: Rule = Rule::invalid(
    "job/max-retry",
    "maxRetry of the job and of each task is a whole number, zero or more",
    max_retry,
);
pub(super) const TTL: Rule = Rule::invalid(
    "job/ttl",
    "ttlSecondsAfterFinished is a whole number, zero or more",
    ttl,
);
pub(super) const PARTITIONS: Rule = Rule::invalid(
    "job/partitions",
    "the partitions of a task are as many pods as it has, and those that must run as many as its minAvailable",
    partitions,
);

fn tasks_present(case: &Case<'_>, broken: &mut Vec<String>) {
    if tasks(case.object).is_empty() {
        broken.push(format!(
            "{}: spec.tasks is {}, a job needs at least one task",
            case.subject(),
            brief(value_or_null(case.object, "/spec/tasks"))
        ));
    }
}

/// Says where a number of the job or a task is not within `range`.
fn check_range(place: String, value: &Value, range: &RangeInclusive<i64>, broken: &mut Vec<String>) {
    if outside(value, range) {
        broken.push(format!(
            "{place} is {}, choose a whole number from {} to {}",
            brief(value),
            range.start(),
            range.end()
        ));
    }
}

fn replicas_valid(case: &Case<'_>, broken: &mut Vec<String>) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        let place = format!("{}: {}.replicas", case.subject(), task_label(index, task));
        check_range(place, value_or_null(task, "/replicas"), &COUNTS, broken);
    }
    let sum = total(case.object, replicas);
    if sum > COUNT_MAX && broken.is_empty() {
        broken.push(format!(
            "{}: all tasks together have {sum} replicas, at most {COUNT_MAX} are allowed: lower a task's replicas",
            case.subject()
        ));
    }
}

fn task_min_available(case: &Case<'_>, broken: &mut Vec<String>) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        let min = value_or_null(task, "/minAvailable");
        if outside(min, &(0..=replicas(task).max(0))) {
            broken.push(format!(
                "{}: {}.minAvailable is {} with {} replicas, choose a whole number from 0 to the replicas",
                case.subject(),
                task_label(index, task),
                brief(min),
                replicas(task)
            ));
        }
    }
}

fn min_available_positive(case: &Case<'_>, broken: &mut Vec<String>) {
    let min = value_or_null(case.object, "/spec/minAvailable");
    if outside(min, &(1..=COUNT_MAX)) {
        broken.push(format!(
            "{}: spec.minAvailable is {} with {} replicas in all, choose a whole number above 0 or raise the replicas of a task",
            case.subject(),
            brief(min),
            total(case.object, replicas)
        ));
    }
}

fn min_available_reachable(case: &Case<'_>, broken: &mut Vec<String>) {
    let min = integer_at(case.object, "/spec/minAvailable").unwrap_or(0);
    let sum = total(case.object, replicas);
    if min > sum {
        broken.push(format!(
            "{}: spec.minAvailable is {min} but all tasks together have {sum} replicas: lower minAvailable or raise replicas",
            case.subject()
        ));
    }
}

fn min_success_reachable(case: &Case<'_>, broken: &mut Vec<String>) {
    let min = value_or_null(case.object, "/spec/minSuccess");
    let sum = total(case.object, replicas);
    if !outside(min, &(1..=sum)) {
        return;
    }
    // It cannot be changed later, so whoever scales must keep to it.
    let remedy = match (case.request.operation, min.as_i64()) {
        (Update, Some(min)) => format!("keep at least {min} replicas in all"),
        _ => format!("choose a whole number from 1 to {sum}"),
    };
    broken.push(format!(
        "{}: spec.minSuccess is {} with {sum} replicas in all, {remedy}",
        case.subject(),
        brief(min)
    ));
}

fn max_retry(case: &Case<'_>, broken: &mut Vec<String>) {
    let place = format!("{}: spec.maxRetry", case.subject());
    check_range(place, value_or_null(case.object, "/spec/maxRetry"), &COUNTS, broken);
    for (index, task) in tasks(case.object).iter().enumerate() {
        let place = format!("{}: {}.maxRetry", case.subject(), task_label(index, task));
        check_range(place, value_or_null(task, "/maxRetry"), &COUNTS, broken);
    }
}

fn ttl(case: &Case<'_>, broken: &mut Vec<String>) {
    let place = format!("{}: spec.ttlSecondsAfterFinished", case.subject());
    let seconds = value_or_null(case.object, "/spec/ttlSecondsAfterFinished");
    check_range(place, seconds, &COUNTS, broken);
}

fn partitions(case: &Case<'_>, broken: &mut Vec<String>) {
    for (index, task) in tasks(case.object).iter().enumerate() {
        if value_or_null(task, "/partitionPolicy").is_null() {
            continue;
        }
        let of = |field: &str| integer_at(task, &format!("/partitionPolicy/{field}")).unwrap_or(0);
        let (total, size, min) = (of("totalPartitions"), of("partitionSize"), of("minPartitions"));
        let place = format!("{}: {}", case.subject(), task_label(index, task));
        let pods = total.saturating_mul(size);
        if total < 1 || size < 1 {
            broken.push(format!(
                "{place} has {total} partitions of {size} pods, both must be at least 1"
            ));
        } else if pods != replicas(task) {
            broken.push(format!(
                "{place} has {} replicas, but {total} partitions of {size} pods are {pods}: choose replicas as a multiple of {size} and totalPartitions to match",
                replicas(task)
            ));
        }
        if outside(
            value_or_null(task, "/partitionPolicy/minPartitions"),
            &(0..=total.max(0)),
        ) {
            broken.push(format!(
                "{place}.partitionPolicy.minPartitions is {} of {total} partitions, choose a whole number from 0 to {total}",
                brief(value_or_null(task, "/partitionPolicy/minPartitions"))
            ));
        }
        let needed = min.saturating_mul(size);
        if let Some(written) = integer_at(task, "/minAvailable").filter(|written| min > 0 && *written != needed) {
            broken.push(format!(
                "{place}.minAvailable is {written}, but {min} partitions of {size} pods are {needed}: write {needed} or leave it out"
            ));
        }
    }
}
