//! What a queue tells of its reservation: the condition `ReservationMet`, and events when it changes.

use std::collections::BTreeSet;

use basalt_api::queue::QueueStatus;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::conditions::Verdict;
use crate::change::EventType;
use crate::reservation::report::{Outlook, Stand};

/// The condition that says whether all that is guaranteed is there.
pub(crate) const RESERVATION_MET: &str = "ReservationMet";
/// Pods that are evicted have so long to begin to leave.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);
const BLOCKED: &str = "EvictionBlocked";
const EVICTING: &str = Stand::Evicting.word();
/// Names in one message at most.
const NAMED_MAX: usize = 10;

fn find(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == RESERVATION_MET)
}

/// Whether evictions begin with this reason. The condition's time is that from then on: what it said before gave nobody
/// a reason to leave.
pub(super) fn begins(old: &Condition, reason: &str) -> bool {
    reason == EVICTING && !is_evicting(old)
}

fn is_evicting(condition: &Condition) -> bool {
    matches!(condition.reason.as_str(), EVICTING | BLOCKED)
}

/// When evictions that have not begun count as blocked.
fn blocked_at(outlook: &Outlook, old: &[Condition]) -> Option<Timestamp> {
    let waits = outlook.stand == Stand::Evicting && outlook.staying > 0;
    let since = find(old).filter(|condition| waits && is_evicting(condition))?;
    since.last_transition_time.0.checked_add(PATIENCE).ok()
}

/// What the condition says.
pub(super) fn verdict(outlook: &Outlook, old: &[Condition], now: Timestamp) -> Verdict {
    if blocked_at(outlook, old).is_some_and(|at| at <= now) {
        let message = format!(
            "{}; {} of them have not begun to leave after {} s: a disruption budget or a protection keeps them",
            outlook.message,
            outlook.staying,
            PATIENCE.as_secs()
        );
        return Verdict(false, BLOCKED, message);
    }
    Verdict(
        outlook.stand == Stand::Met,
        outlook.stand.word(),
        outlook.message.clone(),
    )
}

/// When the condition changes by itself, as time passes.
pub(super) fn wake(outlook: &Outlook, old: &[Condition], now: Timestamp) -> Option<Timestamp> {
    blocked_at(outlook, old).filter(|at| *at > now)
}

/// What people should hear of.
pub(super) fn news(old: &QueueStatus, new: &QueueStatus) -> Vec<(String, String, EventType)> {
    let mut news = Vec::new();
    let (was, is) = (find(&old.conditions), find(&new.conditions));
    let holds = |condition: Option<&Condition>| condition.is_some_and(|condition| condition.status == "True");
    let mut tell = |reason: &str, message: String, kind| news.push((reason.to_owned(), message, kind));
    if let Some(is) = is {
        let reason = |condition: &Condition| condition.reason.clone();
        let trouble = !holds(Some(is)) && !matches!(is.reason.as_str(), "WaitingForPods" | "Evicting");
        if holds(Some(is)) && !holds(was) {
            tell(RESERVATION_MET, is.message.clone(), EventType::Normal);
        } else if trouble && was.map(reason) != Some(reason(is)) {
            tell(&is.reason, is.message.clone(), EventType::Warning);
        } else if holds(was) && !holds(Some(is)) {
            tell("ReservationLost", is.message.clone(), EventType::Warning);
        }
    }
    let (before, after) = (nodes(old), nodes(new));
    if before != after {
        let parts = [("locked", &after, &before), ("released", &before, &after)];
        let told = parts.into_iter().filter_map(|(word, these, others)| {
            let names: Vec<&str> = these.difference(others).map(String::as_str).collect();
            (!names.is_empty()).then(|| format!("{word} {}", listed(&names)))
        });
        let message = told.collect::<Vec<_>>().join("; ");
        let reason = if after.is_empty() {
            "ReservationReleased"
        } else {
            "ReservationChanged"
        };
        tell(reason, message, EventType::Normal);
    }
    news
}

fn nodes(status: &QueueStatus) -> BTreeSet<String> {
    let reservation = status.reservation.iter();
    reservation
        .flat_map(|reservation| reservation.nodes.iter().cloned())
        .collect()
}

/// Whether a node is locked that was not before.
pub(super) fn takes(old: &QueueStatus, new: &QueueStatus) -> bool {
    !nodes(new).is_subset(&nodes(old))
}

fn listed(names: &[&str]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED_MAX).copied().collect();
    match names.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
