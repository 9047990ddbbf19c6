//! What the user should know though nothing is refused.

use basalt_api::json::integer_at;

use super::{plugins, policies, starts_alone, task_min, tasks, total};
use crate::request::Operation::{Create, Delete};
use crate::rule::Case;

/// All that is worth a warning. What cannot be changed later is told of once.
pub(crate) fn warnings(case: &Case<'_>) -> Vec<String> {
    let mut all = Vec::new();
    if case.request.operation == Create {
        all.extend(plugins::warnings(case));
        all.extend(policies::warnings(case));
    }
    if case.request.operation != Delete {
        all.extend(unreachable(case));
    }
    all
}

/// Pods of a task that depends on another are made when that one is up, and none is up before `minAvailable` pods are there.
fn unreachable(case: &Case<'_>) -> Option<String> {
    let min = integer_at(case.object, "/spec/minAvailable")?;
    let alone = total(
        case.object,
        |task| {
            if starts_alone(task) { super::replicas(task) } else { 0 }
        },
    );
    let all = total(case.object, super::replicas);
    let waits = tasks(case.object).iter().any(|task| !starts_alone(task));
    (waits && min > alone && min <= all).then(|| {
        format!(
            "{}: spec.minAvailable is {min}, but only {alone} pods are of tasks without dependsOn, and the others are made when those run: the job cannot start, lower minAvailable to {} or less",
            case.subject(),
            total(case.object, |task| if starts_alone(task) { task_min(task) } else { 0 })
        )
    })
}
