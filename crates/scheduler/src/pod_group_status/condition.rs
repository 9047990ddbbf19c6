//! Conditions of a PodGroup, in Volcano's words.

use basalt_api::podgroup::{PodGroupCondition, PodGroupStatus};
use basalt_api::reason::{Code, Reason};
use basalt_engine::Engine;
use basalt_engine::plan::Waiting;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The condition of a group that waits.
pub(super) const UNSCHEDULABLE: &str = "Unschedulable";
/// The condition of a group whose minimum is placed.
pub(super) const SCHEDULED: &str = "Scheduled";
/// Volcano's reason for the condition `Scheduled`.
pub(super) const READY: &str = "tasks in gang are ready to be scheduled";

/// Returns all reasons as one text.
pub(super) fn describe_reasons(reasons: &[Reason]) -> String {
    let sentences: Vec<String> = reasons.iter().map(Reason::message).collect();
    sentences.join(" ")
}

/// Returns which of Volcano's two reasons a group waits for.
pub(super) fn unschedulable_reason(waiting: &Waiting) -> String {
    let lacks_pods = waiting.reasons.iter().any(|reason| reason.code == Code::GangNotReady);
    if lacks_pods {
        "NotEnoughTasks"
    } else {
        "NotEnoughResources"
    }
    .to_owned()
}

/// Returns Volcano's sentence with our reasons.
pub(super) fn unschedulable_message(engine: &Engine, waiting: &Waiting) -> String {
    let reasons = describe_reasons(&waiting.reasons);
    let Some(group) = engine.group(&waiting.pod_group) else {
        return reasons;
    };
    let lacking = group.min_member().saturating_sub(group.ready_pod_count()).max(1);
    match group.pod_count() {
        0 => reasons,
        total => format!("{}/{total} tasks in gang unschedulable: {reasons}", lacking.min(total)),
    }
}

/// Returns whether a status has a condition, true or not. No condition is ever removed, only set to False.
pub(super) fn has_condition(status: &PodGroupStatus, condition_type: &str) -> bool {
    let conditions = status.conditions.iter();
    conditions
        .map(|condition| &condition.condition_type)
        .any(|known| known == condition_type)
}

/// Returns whether this condition is the one that holds.
pub(super) fn is_last_condition(status: &PodGroupStatus, condition_type: &str) -> bool {
    let last = status.conditions.last();
    last.is_some_and(|condition| condition.condition_type == condition_type)
}

/// Makes one condition the one that holds: it comes last, and keeps its time while it stays true.
pub(super) fn set_condition(
    status: &mut PodGroupStatus,
    condition_type: &str,
    reason: String,
    message: String,
    now: Timestamp,
) {
    let is_same =
        |condition: &PodGroupCondition| condition.condition_type == condition_type && condition.status == "True";
    let known = status.conditions.last().filter(|last| is_same(last));
    let last_transition_time = known.map_or(Some(Time(now)), |condition| condition.last_transition_time.clone());
    status
        .conditions
        .retain(|condition| condition.condition_type != condition_type);
    for condition in &mut status.conditions {
        "False".clone_into(&mut condition.status);
    }
    status.conditions.push(PodGroupCondition {
        condition_type: condition_type.to_owned(),
        status: "True".to_owned(),
        transition_id: String::new(),
        last_transition_time,
        reason,
        message,
    });
}
