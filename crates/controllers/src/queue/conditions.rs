//! What is wrong with a queue, as conditions: `Ready` (its work is served and it takes more) and `HierarchyValid` (its
//! place in the tree, and what its children ask for); `ReservationMet` is beside, in `reserved`.

use basalt_api::queue::QueueState;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{QueueView, RESERVATION_MET, deletion, reserved};
use crate::change::EventType;

pub(super) const READY: &str = "Ready";
const HIERARCHY: &str = "HierarchyValid";
/// Reasons of `Ready` that no other event tells.
const NOT_LEAF: &str = "NotLeaf";

/// Names in one message at most.
const NAMED_MAX: usize = 10;

/// What is to be said: whether it holds, one word, one sentence.
pub(super) struct Verdict(pub(super) bool, pub(super) &'static str, pub(super) String);

/// The conditions that the view calls for; those of others stay, and a time changes only with the status.
pub(super) fn next(view: &QueueView<'_>, state: QueueState, old: &[Condition], now: Timestamp) -> Vec<Condition> {
    let mut conditions = old.to_vec();
    let outlook = view.reservation.map(|decision| decision.outlook.as_ref());
    if outlook == Some(None) {
        conditions.retain(|condition| condition.type_ != RESERVATION_MET);
    }
    let met = outlook
        .flatten()
        .map(|outlook| (RESERVATION_MET, reserved::verdict(outlook, old, now)));
    let own = [(READY, ready(view, state)), (HIERARCHY, hierarchy(view))];
    for (kind, verdict) in own.into_iter().chain(met) {
        let Verdict(holds, reason, message) = verdict;
        let status = if holds { "True" } else { "False" };
        let known = conditions.iter_mut().find(|condition| condition.type_ == kind);
        let time = known
            .as_ref()
            .filter(|known| known.status == status && !(kind == RESERVATION_MET && reserved::begins(known, reason)))
            .map_or(Time(now), |known| known.last_transition_time.clone());
        let condition = Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: time,
            observed_generation: None,
        };
        match known {
            Some(known) => *known = condition,
            None => conditions.push(condition),
        }
    }
    conditions
}

fn ready(view: &QueueView<'_>, state: QueueState) -> Verdict {
    if let Some(remains) = &view.remains {
        let waits = deletion::waits_for(view, remains);
        return Verdict(false, "Deleting", format!("the queue is being deleted: {waits}"));
    }
    if let Some(damage) = &view.damage {
        return Verdict(false, damage.reason(), damage.message());
    }
    let by = view.closed_by.unwrap_or_default();
    match state {
        QueueState::Closed => Verdict(
            false,
            "Closed",
            format!("closed by spec.state of queue {by}, and empty"),
        ),
        QueueState::Closing => {
            let mut left = view.tally.unfinished();
            if view.unsettled > 0 {
                let comma = if left.is_empty() { "" } else { ", " };
                left = format!("{left}{comma}{} children that are not closed", view.unsettled);
            }
            Verdict(
                false,
                "Closing",
                format!("closed by spec.state of queue {by}; it still has {left}"),
            )
        }
        QueueState::Open | QueueState::Unknown if view.children > 0 && view.tally.groups > 0 => {
            let (groups, children) = (view.tally.groups, view.children);
            let message = format!(
                "only leaf queues hold work, and this one has {children} children and {groups} pod groups: these wait, move them or the children"
            );
            Verdict(false, NOT_LEAF, message)
        }
        QueueState::Open | QueueState::Unknown => Verdict(true, READY, "the queue is open".to_owned()),
    }
}

fn hierarchy(view: &QueueView<'_>) -> Verdict {
    if let Some(damage) = &view.damage {
        return Verdict(false, damage.reason(), damage.message());
    }
    if let Some(overcommit) = view.overcommit {
        let named = overcommit.waiting.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
        let more = match overcommit.waiting.len().saturating_sub(named.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "{}: {}{more} must wait until the sum fits",
            overcommit.excess.sentence("its children", "it"),
            named.join(", ")
        );
        return Verdict(false, "ChildrenOvercommitted", message);
    }
    if let Some(excess) = &view.shortage {
        let message = format!(
            "{}: the values stand and scheduling goes on, but nobody can have all of it",
            excess.sentence("its children", "the cluster")
        );
        return Verdict(false, "ClusterTooSmall", message);
    }
    Verdict(true, "Valid", "the queue has its place in the tree".to_owned())
}

/// What people should hear of: a condition that went wrong, in a way that is new, or that healed.
pub(super) fn news(old: &[Condition], new: &[Condition]) -> impl Iterator<Item = (String, String, EventType)> {
    let find = |all: &[Condition], kind: &str| all.iter().find(|condition| condition.type_ == kind).cloned();
    let told = move |condition: &Option<Condition>, kind: &str| {
        let broken = condition.clone().filter(|condition| condition.status == "False");
        broken.filter(|condition| kind == HIERARCHY || condition.reason == NOT_LEAF)
    };
    let pairs = [HIERARCHY, READY].map(|kind| (kind, find(old, kind), find(new, kind)));
    pairs.into_iter().filter_map(move |(kind, before, after)| {
        let (was, is) = (told(&before, kind), told(&after, kind));
        match (was, is) {
            (was, Some(is)) if was.as_ref().is_none_or(|was| was.reason != is.reason) => {
                Some((is.reason, is.message, EventType::Warning))
            }
            (Some(was), None) => {
                let message = format!("{} no longer holds: {}", was.reason, after?.message);
                Some((kind.to_owned(), message, EventType::Normal))
            }
            _ => None,
        }
    })
}
