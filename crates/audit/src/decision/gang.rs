//! I2: with what is bound a gang has its minimum, in all and by role; or nothing of it is bound.

use super::books::Books;
use crate::{Finding, Invariant, Rules};

pub(super) fn check(books: &Books<'_>, rules: &Rules, findings: &mut Vec<Finding>) {
    if !rules.has("gang", "enableJobReady") {
        return;
    }
    for (at, group) in books.world.groups.iter().enumerate() {
        if books.bound[at].all == 0 {
            continue;
        }
        let mut found = |message| {
            findings.push(Finding::on(
                Invariant::WholeGangs,
                format!("PodGroup {}", group.key),
                message,
            ));
        };
        let have = books.ready[at].all + books.bound[at].all;
        if have < group.min {
            let bound = books.bound[at].all;
            found(format!(
                "{bound} pods are bound, which makes {have}; minMember is {}",
                group.min
            ));
        }
        for (role, min) in group.roles() {
            let have = books.ready[at].role(role) + books.bound[at].role(role);
            if have < min {
                found(format!(
                    "has {have} pods of the task {role} after binds; minTaskMember is {min}"
                ));
            }
        }
    }
}
