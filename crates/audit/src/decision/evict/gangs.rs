//! I5: a gang is not taken below its minimum; the actions on whole gangs may take all of one, never a part.

use super::super::books::Books;
use super::{Purpose, flag};
use crate::{Finding, Rules};

pub(super) fn check(books: &Books<'_>, rules: &Rules, findings: &mut Vec<Finding>) {
    let world = books.world;
    for (at, group) in world.groups.iter().enumerate() {
        if books.lost[at].all == 0 || group.min <= 1 {
            continue;
        }
        let takers: Vec<_> = books
            .evicted
            .iter()
            .filter(|evicted| books.group[evicted.pod] == Some(at))
            .collect();
        // Pods of the group itself take the place of those that go.
        let own = takers.iter().all(|evicted| evicted.beneficiary == Some(at));
        let whole = takers.iter().any(|evicted| evicted.entry.purpose.by_gangs());
        let guarded = |evicted: &&&super::Evicted<'_>| {
            let purpose = evicted.entry.purpose;
            purpose.places() && rules.has("gang", plain_flag(rules, purpose))
        };
        if own || !takers.iter().any(|evicted| guarded(&evicted)) {
            continue;
        }
        // Of a gang that is broken already, the actions on gangs may take what they like.
        if whole && books.ready[at].all + books.bound[at].all < group.min {
            continue;
        }
        let left = books.ready[at].all + books.bound[at].all - books.lost[at].all;
        let gone = takers.iter().all(|evicted| evicted.entry.purpose.by_gangs()) && left == 0;
        if left < group.min && !(whole && (left == 0 || gone)) {
            let message = format!(
                "{} of its pods are evicted, which leaves {left}; minMember is {}",
                books.lost[at].all, group.min
            );
            findings.push(Finding::on("I5", format!("PodGroup {}", group.key), message));
        } else if let Some((role, min)) = group.roles().find(|(role, min)| {
            let left = books.ready[at].role(role) + books.bound[at].role(role) - books.lost[at].role(role);
            books.lost[at].role(role) > 0 && left < *min && !whole
        }) {
            let message = format!("pods of its task {role} are evicted, which leaves fewer than {min}");
            findings.push(Finding::on("I5", format!("PodGroup {}", group.key), message));
        }
    }
}

/// The flag that lets the plugin guard gangs: for the actions on gangs none, unless the plain action runs beside them,
/// which may be the one that took the pod.
fn plain_flag(rules: &Rules, purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::GangReclaim if rules.runs("reclaim") => flag(Purpose::Reclaim),
        Purpose::GangPreempt if rules.runs("preempt") => flag(Purpose::Preempt),
        purpose => flag(purpose),
    }
}
