//! The policies of a Job and of its tasks.

use std::collections::BTreeMap;

use basalt_api::duration::Duration;
use basalt_api::json::{integer_at, list_at, string_at, value_or_null};
use serde_json::Value;

use super::{task_label, tasks};
use crate::read::{brief, outside};
use crate::request::Operation::Create;
use crate::rule::{Case, Rule};

const EVENTS: [&str; 8] = [
    "*",
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "JobUpdated",
];
/// What a policy may do to a Job.
const ACTIONS: [&str; 8] = [
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
];

pub(super) const TRIGGER: Rule = Rule::invalid(
    "job/policy-trigger",
    "a policy names events or an exit code, not both and not neither",
    trigger,
)
.on(&[Create]);
pub(super) const WORDS: Rule = Rule::invalid(
    "job/policy-words",
    "a policy's events and action are ones that exist, its exit code is a whole number and not 0",
    words,
)
.on(&[Create]);
pub(super) const ONCE: Rule = Rule::invalid(
    "job/policy-once",
    "no event and no exit code has two policies in one list, and * stands alone",
    once,
)
.on(&[Create]);
pub(super) const DURATIONS: Rule = Rule::invalid(
    "job/durations",
    "runningEstimate and the timeouts of policies are durations that are not negative, such as 90s or 1h30m",
    durations,
)
.on(&[Create]);

/// The job's own policies and those of each task, with the place where they are written.
fn policy_lists(job: &Value) -> Vec<(String, &[Value])> {
    let own = std::iter::once(("spec.policies".to_owned(), list_at(job, "/spec/policies")));
    let of_tasks = tasks(job).iter().enumerate();
    own.chain(of_tasks.map(|(index, task)| {
        (
            format!("{}.policies", task_label(index, task)),
            list_at(task, "/policies"),
        )
    }))
    .collect()
}

fn each_policy(case: &Case<'_>, mut with: impl FnMut(String, &Value)) {
    for (place, policies) in policy_lists(case.object) {
        for (index, policy) in policies.iter().enumerate() {
            with(format!("{}: {place}[{index}]", case.subject()), policy);
        }
    }
}

/// All events of a policy. The single one may be repeated in the list, as in Volcano.
fn events(policy: &Value) -> Vec<&str> {
    let listed: Vec<&str> = list_at(policy, "/events")
        .iter()
        .map(|event| event.as_str().unwrap_or_default())
        .collect();
    let single = Some(string_at(policy, "/event")).filter(|event| !event.is_empty() && !listed.contains(event));
    single.into_iter().chain(listed.iter().copied()).collect()
}

fn trigger(case: &Case<'_>, broken: &mut Vec<String>) {
    each_policy(case, |place, policy| {
        let (by_event, by_code) = (
            !events(policy).is_empty(),
            !value_or_null(policy, "/exitCode").is_null(),
        );
        if by_event && by_code {
            broken.push(format!(
                "{place} names both events ({}) and exitCode {}, write two policies",
                events(policy).join(", "),
                brief(value_or_null(policy, "/exitCode"))
            ));
        } else if !by_event && !by_code {
            broken.push(format!("{place} names neither an event nor an exitCode, add one"));
        }
    });
}

fn words(case: &Case<'_>, broken: &mut Vec<String>) {
    each_policy(case, |place, policy| {
        for event in events(policy).into_iter().filter(|event| !EVENTS.contains(event)) {
            broken.push(format!(
                "{place} has the event {event:?}, known are {}",
                EVENTS.join(", ")
            ));
        }
        let action = value_or_null(policy, "/action");
        if !action.as_str().is_some_and(|action| ACTIONS.contains(&action)) {
            broken.push(format!(
                "{place} has the action {}, known are {}",
                brief(action),
                ACTIONS.join(", ")
            ));
        }
        let code = value_or_null(policy, "/exitCode");
        if code.as_i64() == Some(0) {
            broken.push(format!("{place} has the exitCode 0, which is success: choose another"));
        } else if outside(code, &(i64::from(i32::MIN)..=i64::from(i32::MAX))) {
            broken.push(format!(
                "{place} has the exitCode {}, choose a whole number other than 0",
                brief(code)
            ));
        }
    });
}

/// What policies say in vain: nothing is refused for it, since Volcano takes it, too.
pub(super) fn warnings(case: &Case<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (place, policies) in policy_lists(case.object) {
        let of_task = place != "spec.policies";
        for (index, policy) in policies.iter().enumerate() {
            let place = format!("{}: {place}[{index}]", case.subject());
            let events = events(policy);
            let of_job = events
                .iter()
                .filter(|event| matches!(**event, "JobUpdated" | "Unknown"));
            warnings.extend(of_job.filter(|_| of_task).map(|event| {
                format!("{place} is for {event}, which happens to a job and never to a task: move it to spec.policies")
            }));
            if !of_task && events.contains(&"JobUpdated") && !value_or_null(policy, "/timeout").is_null() {
                warnings.push(format!(
                    "{place}.timeout is {}, but a policy for JobUpdated acts at once",
                    brief(value_or_null(policy, "/timeout"))
                ));
            }
        }
    }
    warnings
}

fn once(case: &Case<'_>, broken: &mut Vec<String>) {
    for (place, policies) in policy_lists(case.object) {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for (index, policy) in policies.iter().enumerate() {
            let code = integer_at(policy, "/exitCode").map(|code| format!("exit code {code}"));
            let triggers = events(policy).into_iter().map(|event| format!("event {event}"));
            for trigger in triggers.chain(code) {
                let subject = case.subject();
                match seen.insert(trigger.clone(), index) {
                    Some(earlier) if earlier == index => {
                        broken.push(format!("{subject}: {place}[{index}] names {trigger} twice, keep one"));
                    }
                    Some(earlier) => broken.push(format!(
                        "{subject}: {place}[{earlier}] and [{index}] are both for {trigger}, keep one"
                    )),
                    None => {}
                }
            }
        }
        let others = seen.keys().filter(|trigger| trigger.starts_with("event ")).count();
        if seen.contains_key("event *") && others > 1 {
            broken.push(format!(
                "{}: {place} has the event * beside {} others, which it includes: keep * or the others",
                case.subject(),
                others.saturating_sub(1)
            ));
        }
    }
}

fn durations(case: &Case<'_>, broken: &mut Vec<String>) {
    let mut check = |place: String, value: &Value| match value.as_str().map(Duration::parse) {
        Some(Ok(duration)) if duration.as_nanos() < 0 => {
            broken.push(format!("{place} is {}, choose 0s or more", brief(value)));
        }
        Some(Ok(_)) => {}
        Some(Err(error)) => broken.push(format!("{place}: {error}")),
        None if value.is_null() => {}
        None => broken.push(format!("{place} is {}, write a text such as \"90s\"", brief(value))),
    };
    let estimate = format!("{}: spec.runningEstimate", case.subject());
    check(estimate, value_or_null(case.object, "/spec/runningEstimate"));
    each_policy(case, |place, policy| {
        check(format!("{place}.timeout"), value_or_null(policy, "/timeout"));
    });
}
