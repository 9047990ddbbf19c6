//! Topology spread that must hold.

use super::{Blocker, Site, bears, selects};
use crate::facts::Spread;
use crate::model::{Model, NodeId, TaskId, Topology};
use crate::session::State;

/// Whether a node counts for a pod's spread.
pub(in crate::plugin) fn counts(model: &Model, task: TaskId, spread: &Spread, node: NodeId) -> bool {
    let constraints = &model.classes[model.tasks[task].class].key.constraints;
    model.nodes[node].present
        && (!spread.honors_affinity || selects(model, constraints, node))
        && (!spread.honors_taints || bears(model, constraints, node))
}

/// Blocks the sites where a place would have too many more such pods than the emptiest one.
pub(super) fn judge(state: &State, task: TaskId, sites: &mut [Site]) {
    let (record, places) = (&state.model.tasks[task], &state.model.places);
    let (Some(ties), Some(bonds)) = (places.ties.key(record.ties), places.ties.get(record.ties)) else {
        return;
    };
    let hard: Vec<(&Spread, u32, &Topology)> = ties
        .spread
        .iter()
        .zip(&bonds.spread)
        .filter(|(spread, _)| spread.hard)
        .filter_map(|(spread, &(mark, topology))| Some((spread, mark, places.topologies.get(topology)?)))
        .collect();
    let located = |node: NodeId| hard.iter().all(|(.., topology)| topology.place(node).is_some());
    for &(spread, mark, topology) in &hard {
        let counts = |node: NodeId| located(node) && counts(&state.model, task, spread, node);
        let mut by_place: Vec<Option<u32>> = vec![None; topology.places()];
        for &node in state.nodes_in_order() {
            if let Some(place) = topology.place(node)
                && by_place[place as usize].is_none()
                && counts(node)
            {
                by_place[place as usize] = Some(0);
            }
        }
        for (node, wearers) in state.ledger.marks().on(mark) {
            if let Some(place) = topology.place(node)
                && let Some(count) = &mut by_place[place as usize]
                && counts(node)
            {
                *count += wearers.later();
            }
        }
        let known = by_place.iter().flatten();
        let few = known.clone().count() < spread.min_domains as usize;
        let least = if few { 0 } else { known.copied().min().unwrap_or(0) };
        let own = places.tags.get(record.tag).is_some_and(|tag| tag.wears.contains(&mark));
        for site in &mut *sites {
            let Some(place) = topology.place(site.node) else {
                site.block(Blocker::Spread);
                continue;
            };
            let there = by_place[place as usize].unwrap_or(0) + u32::from(own);
            if there > least.saturating_add(spread.max_skew) {
                site.block(Blocker::Spread);
            }
        }
    }
}
