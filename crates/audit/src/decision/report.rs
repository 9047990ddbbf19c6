//! I10: what the scheduler says of queues is what the objects say.

use std::collections::BTreeMap;

use super::Decision;
use super::books::Books;
use super::deserved::Shares;
use crate::amounts::{Amounts, Dim, PODS, step};
use crate::{Finding, Invariant};

pub(super) fn check(books: &Books<'_>, shares: &[Shares], decision: &Decision, findings: &mut Vec<Finding>) {
    let world = books.world;
    for (name, report) in &decision.queues {
        let Some(&queue) = world.queue_ids.get(name) else {
            let message = "is reported and does not exist".to_owned();
            findings.push(Finding::on(Invariant::AccountsMatch, format!("Queue {name}"), message));
            continue;
        };
        let after = books.after(queue);
        compare(books, name, "allocated", &report.allocated, &after, 0, findings);
        // With two rules the first one's word is reported.
        if let (Some(said), Some(rule)) = (&report.deserved, shares.first())
            && let Some(due) = &rule.deserved[queue]
        {
            compare(books, name, "deserved", said, due, rule.slack, findings);
        }
    }
}

fn compare(
    books: &Books<'_>,
    queue: &str,
    what: &str,
    said: &BTreeMap<String, i64>,
    counted: &Amounts,
    slack: i128,
    findings: &mut Vec<Finding>,
) {
    let world = books.world;
    let mut amounts = Amounts::default();
    for (dim, amount) in said
        .iter()
        .filter_map(|(name, amount)| Some((world.find_dim(name)?, *amount)))
    {
        amounts.set(dim, i128::from(amount) * step(dim));
    }
    let off = |dim: Dim| (amounts.get(dim) - counted.get(dim)).abs() > slack * step(dim);
    let judged = (0..world.dims.len()).filter(|&dim| what == "allocated" || dim != PODS);
    for dim in judged.filter(|&dim| off(dim)) {
        let message = format!(
            "is said to have {what} {}; the objects say {}",
            world.show(dim, amounts.get(dim)),
            world.show(dim, counted.get(dim))
        );
        findings.push(Finding::on(Invariant::AccountsMatch, format!("Queue {queue}"), message));
    }
}
