//! PodGroups: the queue that is filled in, and what must hold besides the delivery's rules.

use std::collections::BTreeMap;

use basalt_api::json::{list_at, string_at, value_or_null};
use basalt_api::names;
use serde_json::{Value, json};

use crate::job::topologies;
use crate::quantities::{entries, quantity};
use crate::read::{brief, outside, set, unset};
use crate::request::Request;
use crate::rule::{Case, Rule};
use crate::view::{View, job_owners};

const COUNT_MAX: i64 = i32::MAX as i64;

pub(crate) const RULES: &[Rule] = &[
    Rule::invalid(
        "podgroup/min-member",
        "minMember, and minTaskMember of each task, are whole numbers, zero or more",
        min_member,
    ),
    Rule::invalid(
        "podgroup/min-resources",
        "minResources can be read and are not negative",
        min_resources,
    ),
    Rule::invalid(
        "podgroup/topology",
        "a network topology is hard or soft and names its highest tier by number or by name, not both",
        topology,
    ),
    Rule::invalid(
        "podgroup/sub-groups",
        "policies of sub-groups have names that differ, a size from 1 and a minimum from 0",
        sub_groups,
    ),
];

/// No queue means the namespace's queue, else `default`. An unchanged group is left alone, and the
/// group of a Job goes where the Job went.
pub(crate) fn default(request: &Request<'_>, view: &View, group: &mut Value) {
    if !unset(group, "/spec/queue") && string_at(group, "/spec/queue") != names::DEFAULT_QUEUE {
        return;
    }
    if let Some(stored) = request.old.map(|old| string_at(old, "/spec/queue")) {
        if unset(group, "/spec/queue") && !stored.is_empty() {
            set(group, "/spec", "queue", json!(stored));
        }
        return;
    }
    let of_job = job_owners(group).next().is_some();
    let queue = match view.namespace_queue(request.namespace) {
        queue if of_job || queue.is_empty() => names::DEFAULT_QUEUE,
        queue => queue,
    };
    set(group, "/spec", "queue", json!(queue));
}

fn min_member(case: &Case<'_>, broken: &mut Vec<String>) {
    let whole = std::iter::once((
        "spec.minMember".to_owned(),
        value_or_null(case.object, "/spec/minMember"),
    ));
    let of_tasks = entries(value_or_null(case.object, "/spec/minTaskMember"));
    let of_tasks = of_tasks.map(|(task, count)| (format!("spec.minTaskMember[{task}]"), count));
    for (place, count) in whole
        .chain(of_tasks)
        .filter(|(_, count)| outside(count, &(0..=COUNT_MAX)))
    {
        broken.push(format!(
            "{}: {place} is {}, choose a whole number from 0 to {COUNT_MAX}",
            case.subject(),
            brief(count)
        ));
    }
}

fn min_resources(case: &Case<'_>, broken: &mut Vec<String>) {
    for (dimension, written) in entries(value_or_null(case.object, "/spec/minResources")) {
        let place = format!("{}: spec.minResources[{dimension}]", case.subject());
        match quantity(written) {
            Err(error) => broken.push(format!("{place}: {error}")),
            Ok(amount) if amount.is_negative() => broken.push(format!("{place} is {amount}, choose 0 or more")),
            Ok(_) => {}
        }
    }
}

fn topology(case: &Case<'_>, broken: &mut Vec<String>) {
    let policies = list_at(case.object, "/spec/subGroupPolicy").iter().enumerate();
    let parts = policies.map(|(index, policy)| (format!("spec.subGroupPolicy[{index}]"), policy));
    topologies(case, parts, broken);
}

fn sub_groups(case: &Case<'_>, broken: &mut Vec<String>) {
    let mut seen = BTreeMap::new();
    for (index, policy) in list_at(case.object, "/spec/subGroupPolicy").iter().enumerate() {
        let place = format!("{}: spec.subGroupPolicy[{index}]", case.subject());
        let name = string_at(policy, "/name");
        if let Some(earlier) = seen.insert(name, index).filter(|_| !name.is_empty()) {
            broken.push(format!(
                "{place}.name is {name:?}, and so is that of spec.subGroupPolicy[{earlier}]: rename one"
            ));
        }
        for (field, least) in [("subGroupSize", 1), ("minSubGroups", 0)] {
            let count = value_or_null(policy, &format!("/{field}"));
            if outside(count, &(least..=COUNT_MAX)) {
                broken.push(format!(
                    "{place}.{field} is {}, choose a whole number from {least} to {COUNT_MAX}",
                    brief(count)
                ));
            }
        }
    }
}
