//! The table of actions: what an order makes of a Job in each phase.

use basalt_api::Job;
use basalt_api::job::{Action, JobPhase, JobStatus, Restart};
use jiff::Timestamp;

use super::phase::Step;
use super::policy::Order;
use super::status::enter;

/// Carries out orders; returns those that had an effect. Of several that are for the whole job the first one counts; those for
/// tasks and pods are one restart together.
pub(crate) fn act<'o>(
    job: &Job,
    pod_group: Option<&str>,
    status: &mut JobStatus,
    orders: &'o [Order],
    now: Timestamp,
) -> Vec<&'o Order> {
    let whole = orders.iter().find(|order| run(job, pod_group, status, order, now));
    if let Some(order) = whole {
        return vec![order];
    }
    let scopes: Vec<(&Order, Restart)> = orders
        .iter()
        .filter_map(|order| Some((order, scope(job, order)?)))
        .collect();
    let (Some((first, _)), true) = (scopes.first(), is_up(status)) else {
        return Vec::new();
    };
    let scopes_only: Vec<Restart> = scopes.iter().map(|(_, scope)| scope.clone()).collect();
    restart(job, status, scopes_only, first, now);
    scopes.into_iter().map(|(order, _)| order).collect()
}

fn phase(status: &JobStatus) -> JobPhase {
    status.state.phase.unwrap_or_default()
}

/// A restart that is under way is finished before the next one begins.
fn is_up(status: &JobStatus) -> bool {
    matches!(phase(status), JobPhase::Pending | JobPhase::Running)
}

/// An order for the whole job; false if it has no effect now.
fn run(job: &Job, pod_group: Option<&str>, status: &mut JobStatus, order: &Order, now: Timestamp) -> bool {
    let works = is_up(status) || phase(status) == JobPhase::Restarting;
    let rests = matches!(phase(status), JobPhase::Aborting | JobPhase::Aborted);
    let to = match order.action {
        Action::RestartJob if is_up(status) => {
            status.version = status.version.saturating_add(1);
            let all = Restart {
                pod_group: pod_group.unwrap_or_default().to_owned(),
                ..Restart::default()
            };
            restart(job, status, vec![all], order, now);
            return true;
        }
        Action::AbortJob if works => JobPhase::Aborting,
        Action::TerminateJob if works => JobPhase::Terminating,
        Action::CompleteJob if works => JobPhase::Completing,
        // Going on is no new try: who was suspended often has failed in nothing.
        Action::ResumeJob if rests => JobPhase::Restarting,
        _ => return false,
    };
    status.version = status.version.saturating_add(1);
    status.restarts.clear();
    status.surplus.clear();
    enter(job, status, step(to, order), now);
    true
}

fn step(phase: JobPhase, order: &Order) -> Step {
    Step {
        phase,
        reason: order.reason.clone(),
        message: order.message.clone(),
    }
}

/// The pods that an order for a part of the job is about.
fn scope(job: &Job, order: &Order) -> Option<Restart> {
    let task = job.spec.tasks.get(order.task?)?;
    let index = order.index.and_then(|index| i32::try_from(index).ok());
    let mut scope = Restart {
        task: task.name.clone(),
        ..Restart::default()
    };
    match order.action {
        Action::RestartTask => {}
        // What happened to the task as a whole names no pod.
        Action::RestartPod => scope.index = index,
        Action::RestartPartition => match task
            .partition_policy
            .as_ref()
            .filter(|policy| policy.partition_size > 0)
        {
            Some(policy) => scope.partition = index.map(|index| index / policy.partition_size),
            None => scope.index = index,
        },
        _ => return None,
    }
    Some(scope)
}

/// One more try. After the last one nothing is taken away: what failed stays to be looked at.
fn restart(job: &Job, status: &mut JobStatus, scopes: Vec<Restart>, order: &Order, now: Timestamp) {
    status.retry_count = status.retry_count.saturating_add(1);
    if status.retry_count < job.spec.max_retry {
        let retry = status.retry_count;
        let mut scopes: Vec<Restart> = scopes.into_iter().map(|scope| Restart { retry, ..scope }).collect();
        scopes.dedup();
        status.restarts.extend(scopes);
    }
    enter(job, status, step(JobPhase::Restarting, order), now);
}
