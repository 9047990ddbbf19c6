//! Scores that come from comparing nodes: the best of them has 100, or the worst 0.

use super::shunned;
use crate::facts::{Constraints, Spread};
use crate::model::{Hold, MarkKey, TaskId};
use crate::plugin::Site;
use crate::plugin::predicates::{Census, counts, meets};
use crate::session::State;

/// A pod that must be near this one counts as much as a wish of this weight.
const NEAR_WEIGHT: i64 = 1;

/// Adds `weight` times what `scale` makes of each raw score.
fn add(sites: &mut [Site], raw: &[i64], weight: f64, scale: impl Fn(i64) -> i64) {
    for (site, &raw) in sites.iter_mut().zip(raw) {
        site.score += weight * scale(raw) as f64;
    }
}

/// Preferred node affinity: the sum of the weights of the terms that hold, as a part of the largest.
pub(super) fn node_wishes(state: &State, constraints: &Constraints, weight: f64, sites: &mut [Site]) {
    let raw: Vec<i64> = sites
        .iter()
        .map(|site| {
            let holds = |wish: &&(i32, _)| meets(&state.model, std::slice::from_ref(&wish.1), site.node);
            let weights = constraints.node_wishes.iter().filter(holds);
            weights.map(|wish| i64::from(wish.0)).sum()
        })
        .collect();
    let most = raw.iter().copied().max().unwrap_or(0);
    if most > 0 {
        add(sites, &raw, weight, |raw| raw * 100 / most);
    }
}

/// Taints that pods would rather not bear: the fewer the better.
pub(super) fn taints(state: &State, constraints: &Constraints, weight: f64, sites: &mut [Site]) {
    let raw: Vec<i64> = sites
        .iter()
        .map(|site| i64::from(shunned(&state.model, constraints, site.node)))
        .collect();
    let most = raw.iter().copied().max().unwrap_or(0).max(1);
    add(sites, &raw, weight, |raw| 100 - raw * 100 / most);
}

/// Preferred pod affinity, the pod's own and that of the pods that are there.
pub(super) fn pod_wishes(state: &State, task: TaskId, weight: f64, sites: &mut [Site]) {
    let (record, places) = (&state.model.tasks[task], &state.model.places);
    let mut wishes: Vec<(u32, u32, i64)> = Vec::new();
    if let Some(bonds) = places.ties.get(record.ties) {
        let own = bonds.wishes.iter();
        wishes.extend(own.map(|&(mark, topology, weight)| (mark, topology, i64::from(weight))));
    }
    for &mark in places.tags.get(record.tag).iter().flat_map(|tag| &tag.meets) {
        let weight = match places.marks.key(mark) {
            Some(MarkKey::Holds(_, Hold::Wish(weight))) => i64::from(*weight),
            Some(MarkKey::Holds(_, Hold::Near)) => NEAR_WEIGHT,
            _ => continue,
        };
        if let Some(known) = places.marks.get(mark) {
            wishes.push((mark, known.topology, weight));
        }
    }
    let mut raw = vec![0_i64; sites.len()];
    for (mark, topology, weight) in wishes {
        let Some(census) = Census::of(state, mark, topology) else {
            continue;
        };
        for (raw, site) in raw.iter_mut().zip(&*sites) {
            let there = census.near(site).map_or(0, |wearers| wearers.later() + wearers.leave);
            *raw = raw.saturating_add(weight * i64::from(there));
        }
    }
    let (least, most) = (raw.iter().min().copied(), raw.iter().max().copied());
    if let (Some(least), Some(most)) = (least, most)
        && most > least
    {
        let part = |raw: i64| (100.0 * ((raw - least) as f64 / (most - least) as f64)) as i64;
        add(sites, &raw, weight, part);
    }
}

/// Topology spread that need not hold: places with fewer such pods are better, the more places there are the more so.
pub(super) fn spread(state: &State, task: TaskId, weight: f64, sites: &mut [Site]) {
    let (record, places) = (&state.model.tasks[task], &state.model.places);
    let (Some(ties), Some(bonds)) = (places.ties.key(record.ties), places.ties.get(record.ties)) else {
        return;
    };
    let soft = || {
        let both = ties.spread.iter().zip(&bonds.spread);
        both.filter(|(spread, _)| !spread.hard)
    };
    if soft().next().is_none() {
        return;
    }
    let mut raw: Vec<Option<f64>> = vec![Some(0.0); sites.len()];
    for (spread, &(mark, topology)) in soft() {
        crowding(state, task, spread, (mark, topology), sites, &mut raw);
    }
    let rounded = |raw: &Option<f64>| raw.map(|raw| raw.round() as i64);
    let raw: Vec<Option<i64>> = raw.iter().map(rounded).collect();
    let known = || raw.iter().flatten().copied();
    let (Some(least), Some(most)) = (known().min(), known().max()) else {
        return;
    };
    for (site, raw) in sites.iter_mut().zip(raw) {
        site.score += weight
            * match raw {
                None => 0.0,
                Some(_) if most == 0 => 100.0,
                Some(raw) => (100 * (most + least - raw) / most) as f64,
            };
    }
}

/// Adds for one constraint how crowded the place of each site is. A site without a place is out.
fn crowding(
    state: &State,
    task: TaskId,
    spread: &Spread,
    (mark, topology): (u32, u32),
    sites: &[Site],
    raw: &mut [Option<f64>],
) {
    let Some(topology) = state.model.places.topologies.get(topology) else {
        return;
    };
    // Places that sites are in count, with all such pods on nodes that count.
    let mut by_place: Vec<Option<u32>> = vec![None; topology.places()];
    for (site, raw) in sites.iter().zip(&mut *raw) {
        match topology.place(site.node) {
            Some(place) => by_place[place as usize] = Some(0),
            None => *raw = None,
        }
    }
    for (node, wearers) in state.ledger.marks().on(mark) {
        if let Some(place) = topology.place(node)
            && let Some(count) = &mut by_place[place as usize]
            && counts(&state.model, task, spread, node)
        {
            *count += wearers.later();
        }
    }
    let size = by_place.iter().flatten().count();
    let importance = (size as f64 + 2.0).ln();
    for (site, raw) in sites.iter().zip(raw) {
        let count = topology.place(site.node).and_then(|place| by_place[place as usize]);
        if let (Some(raw), Some(count)) = (raw.as_mut(), count) {
            *raw += f64::from(count) * importance + f64::from(spread.max_skew.saturating_sub(1));
        }
    }
}
