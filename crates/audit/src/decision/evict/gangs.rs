//! I5: a gang is not taken below its minimum; the actions on whole gangs may take all of one, never a part.

use std::collections::BTreeSet;

use super::super::Purpose;
use super::super::books::{Books, Evicted};
use super::flag;
use crate::world::Group;
use crate::{Finding, Invariant, Rules};

pub(super) fn check(books: &Books<'_>, rules: &Rules, findings: &mut Vec<Finding>) {
    for (at, group) in books.world.groups.iter().enumerate() {
        if books.lost[at].all == 0 || group.min <= 1 {
            continue;
        }
        let takers = books.evicted.iter();
        let takers: Vec<_> = takers.filter(|one| books.group[one.pod] == Some(at)).collect();
        let turns: BTreeSet<_> = takers.iter().map(|evicted| turn(rules, evicted)).collect();
        let broken = turns
            .into_iter()
            .find_map(|turn| judge(books, rules, (at, group), &takers, turn));
        if let Some(message) = broken {
            findings.push(Finding::on(
                Invariant::PermittedEvictions,
                format!("PodGroup {}", group.key),
                message,
            ));
        }
    }
}

/// When in the cycle a pod was told to go: actions come one after the other. First is what no action asked for.
fn turn(rules: &Rules, evicted: &Evicted<'_>) -> Option<usize> {
    rules.turn(evicted.entry.purpose.action()?)
}

/// What is wrong with what one action takes from a gang, with what those before it took gone already.
fn judge(
    books: &Books<'_>,
    rules: &Rules,
    (at, group): (usize, &Group),
    takers: &[&Evicted<'_>],
    when: Option<usize>,
) -> Option<String> {
    let gone: Vec<_> = takers.iter().filter(|one| turn(rules, one) <= when).collect();
    let guarded = |evicted: &&Evicted<'_>| {
        let purpose = evicted.entry.purpose;
        // Pods of the group itself may take the place of those that go.
        let own = evicted.beneficiary == Some(at);
        turn(rules, evicted) == when
            && purpose != Purpose::Shuffle
            && !own
            && (purpose.by_gangs() || rules.has("gang", flag(purpose)))
    };
    let judged = takers.iter().copied().find(guarded)?;
    let lost = i64::try_from(gone.len()).unwrap_or(i64::MAX);
    if judged.entry.purpose.by_gangs() {
        // Who comes in the same cycle may come later.
        let bound = if rules.last_binds() > when {
            0
        } else {
            books.bound[at].all
        };
        if books.ready[at].all - books.ended[at] + bound == lost {
            return None;
        }
    }
    let left = books.ready[at].all + books.bound[at].all - lost;
    if left < group.min {
        return Some(format!(
            "{lost} of its pods are evicted ({:?}), which leaves {left}; minMember is {}",
            judged.entry.purpose, group.min
        ));
    }
    group.roles().find_map(|(role, min)| {
        let of_role = |one: &&&&Evicted<'_>| books.world.pods[one.pod].role == *role;
        let lost = i64::try_from(gone.iter().filter(of_role).count()).unwrap_or(i64::MAX);
        let left = books.ready[at].role(role) + books.bound[at].role(role) - lost;
        (lost > 0 && left < min)
            .then(|| format!("{lost} pods of its task {role} are evicted, which leaves {left}; its minimum is {min}"))
    })
}
