//! What must hold between the parts of a Job: dependencies, volumes, network topology.

use std::collections::BTreeMap;

use basalt_api::json::{list_at, string_at, value_or_null};
use serde_json::Value;

use super::names::is_subdomain;
use super::plugins::folders;
use super::{task_label, tasks};
use crate::read::{brief, outside};
use crate::request::Operation::Create;
use crate::rule::{Case, Rule};

pub(super) const DEPENDS_ON: Rule = Rule::invalid(
    "job/depends-on",
    "tasks depend on any or all of other tasks of the job, without a cycle",
    depends_on,
)
.on(&[Create]);
pub(super) const VOLUMES: Rule = Rule::invalid(
    "job/volumes",
    "a volume has a mount path of its own, which no plugin uses, and a claim or the valid name of one, not both",
    volumes,
)
.on(&[Create]);
pub(super) const TOPOLOGY: Rule = Rule::invalid(
    "job/topology",
    "a network topology is hard or soft and names its highest tier by number or by name, not both",
    topology,
)
.on(&[Create]);

/// The names of the tasks that a task depends on.
fn needs(task: &Value) -> impl Iterator<Item = &str> {
    let names = list_at(task, "/dependsOn/name").iter();
    names.map(|name| name.as_str().unwrap_or_default())
}

fn depends_on(case: &Case<'_>, broken: &mut Vec<String>) {
    let tasks = tasks(case.object);
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, task) in tasks.iter().enumerate() {
        places.entry(string_at(task, "/name")).or_insert(index);
    }
    for (index, task) in tasks.iter().enumerate() {
        let place = format!("{}: {}.dependsOn", case.subject(), task_label(index, task));
        for missing in needs(task).filter(|name| !places.contains_key(name)) {
            broken.push(format!("{place} names {missing:?}, which is no task of the job"));
        }
        let iteration = value_or_null(task, "/dependsOn/iteration");
        if !iteration.is_null() && !matches!(iteration.as_str(), Some("any" | "all" | "")) {
            broken.push(format!("{place}.iteration is {}, choose any or all", brief(iteration)));
        }
    }
    let circle = circle(tasks, &places);
    if !circle.is_empty() {
        broken.push(format!(
            "{}: tasks {} wait for each other, break the circle",
            case.subject(),
            circle.join(", ")
        ));
    }
}

/// The tasks that can never start. A task is let go once all that it waits for are; each dependency is looked
/// at once.
fn circle<'a>(tasks: &'a [Value], places: &BTreeMap<&'a str, usize>) -> Vec<&'a str> {
    let mut waiting = vec![0_usize; tasks.len()];
    let mut waiters: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (index, task) in tasks.iter().enumerate() {
        for needed in needs(task).filter_map(|name| places.get(name)) {
            if let (Some(count), Some(list)) = (waiting.get_mut(index), waiters.get_mut(*needed)) {
                *count = count.saturating_add(1);
                list.push(index);
            }
        }
    }
    let mut free: Vec<usize> = (0..tasks.len())
        .filter(|index| waiting.get(*index) == Some(&0))
        .collect();
    while let Some(done) = free.pop() {
        for waiter in waiters.get_mut(done).map(std::mem::take).unwrap_or_default() {
            if let Some(count) = waiting.get_mut(waiter) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    free.push(waiter);
                }
            }
        }
    }
    let stuck = tasks.iter().zip(&waiting).filter(|(_, count)| **count > 0);
    stuck.map(|(task, _)| string_at(task, "/name")).collect()
}

fn volumes(case: &Case<'_>, broken: &mut Vec<String>) {
    let mut paths = BTreeMap::new();
    let folders = folders(case.object);
    for (index, volume) in list_at(case.object, "/spec/volumes").iter().enumerate() {
        let place = format!("{}: spec.volumes[{index}]", case.subject());
        let path = string_at(volume, "/mountPath");
        if path.is_empty() || path.contains(':') {
            broken.push(format!(
                "{place}.mountPath is {}, say where to mount it, without ':'",
                brief(value_or_null(volume, "/mountPath"))
            ));
        } else if let Some(earlier) = paths.insert(path, index) {
            broken.push(format!(
                "{place}.mountPath is {path:?}, and so is that of spec.volumes[{earlier}]: choose another"
            ));
        }
        if let Some((plugin, _)) = folders.iter().find(|(_, folder)| same_folder(folder, path)) {
            broken.push(format!(
                "{place}.mountPath is {path:?}, where the plugin {plugin} mounts what it has: choose another"
            ));
        }
        let (claim, name) = (
            value_or_null(volume, "/volumeClaim"),
            string_at(volume, "/volumeClaimName"),
        );
        match (!claim.is_null(), !name.is_empty()) {
            (true, true) => broken.push(format!(
                "{place} has both volumeClaim and volumeClaimName {name:?}, keep one"
            )),
            (false, false) => broken.push(format!("{place} has neither volumeClaim nor volumeClaimName, add one")),
            (false, true) if !is_subdomain(name) => broken.push(format!(
                "{place}.volumeClaimName is {name:?}, use at most 253 lower-case letters, digits, '-' and '.'"
            )),
            _ => {}
        }
    }
}

fn same_folder(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

/// What is wrong with a network topology, if anything is.
fn tiers(place: &str, topology: &Value, broken: &mut Vec<String>) {
    let (tier, name) = (
        value_or_null(topology, "/highestTierAllowed"),
        value_or_null(topology, "/highestTierName"),
    );
    if !tier.is_null() && !name.is_null() && name != "" {
        broken.push(format!(
            "{place}.networkTopology has both highestTierAllowed {} and highestTierName {}, keep one",
            brief(tier),
            brief(name)
        ));
    }
    if outside(tier, &(0..=i64::MAX)) {
        broken.push(format!(
            "{place}.networkTopology.highestTierAllowed is {}, choose a whole number from 0",
            brief(tier)
        ));
    }
    let mode = value_or_null(topology, "/mode");
    if !mode.is_null() && !matches!(mode.as_str(), Some("hard" | "soft" | "")) {
        broken.push(format!(
            "{place}.networkTopology.mode is {}, choose hard or soft",
            brief(mode)
        ));
    }
}

fn topology(case: &Case<'_>, broken: &mut Vec<String>) {
    let tasks = tasks(case.object).iter().enumerate();
    let parts = tasks.map(|(index, task)| {
        let place = format!("{}.partitionPolicy", task_label(index, task));
        (place, value_or_null(task, "/partitionPolicy"))
    });
    topologies(case, parts, broken);
}

/// What is wrong with the network topologies of an object and of its parts, if anything is.
pub(crate) fn topologies<'a>(
    case: &Case<'a>,
    parts: impl Iterator<Item = (String, &'a Value)>,
    broken: &mut Vec<String>,
) {
    let own = std::iter::once(("spec".to_owned(), value_or_null(case.object, "/spec")));
    for (place, part) in own.chain(parts) {
        let place = format!("{}: {place}", case.subject());
        tiers(&place, value_or_null(part, "/networkTopology"), broken);
    }
}
