//! Inter-pod affinity and anti-affinity, in both directions.

use super::{Blocker, Fit, Site};
use crate::ledger::Wearers;
use crate::model::{Hold, MarkKey, TaskId, Topology};
use crate::mutants::mutant;
use crate::session::State;

/// Who wears a mark, place by place.
pub(in crate::plugin) struct Census<'a> {
    topology: &'a Topology,
    by_place: Vec<Wearers>,
}

impl<'a> Census<'a> {
    /// Counts the wearers of a mark by the places of a topology.
    pub(in crate::plugin) fn of(state: &'a State, mark: u32, topology: u32) -> Option<Self> {
        let topology = state.model.places.topologies.get(topology)?;
        let mut by_place = vec![Wearers::default(); topology.places()];
        for (node, wearers) in state.ledger.marks().on(mark) {
            if let Some(place) = topology.place(node) {
                by_place[place as usize].add(wearers);
            }
        }
        Some(Census { topology, by_place })
    }

    /// The wearers in the place of a node; none: the node has no place.
    pub(in crate::plugin) fn near(&self, site: &Site) -> Option<&Wearers> {
        let place = self.topology.place(site.node)?;
        self.by_place.get(place as usize)
    }

    fn is_empty(&self) -> bool {
        self.by_place.iter().all(|wearers| wearers.later() == 0)
    }
}

/// Blocks the sites where the pod must not be.
pub(super) fn judge(state: &State, task: TaskId, sites: &mut [Site]) {
    let record = &state.model.tasks[task];
    let places = &state.model.places;
    let tag = places.tags.get(record.tag);
    if let Some(bonds) = places.ties.get(record.ties) {
        if let Some((mark, topologies)) = &bonds.near {
            let is_itself = tag.is_some_and(|tag| tag.wears.contains(mark));
            let censuses: Vec<Census<'_>> = topologies
                .iter()
                .filter_map(|&topology| Census::of(state, *mark, topology))
                .collect();
            must_be_near(&censuses, is_itself, sites);
        }
        for &(mark, topology) in &bonds.apart {
            must_be_apart(Census::of(state, mark, topology), Blocker::PodAntiAffinity, sites);
        }
    }
    for &mark in tag.iter().flat_map(|tag| &tag.meets) {
        let is_apart = matches!(places.marks.key(mark), Some(MarkKey::Holds(_, Hold::Apart)));
        if let Some(known) = places.marks.get(mark).filter(|_| is_apart) {
            must_be_apart(
                Census::of(state, mark, known.topology),
                Blocker::OthersAntiAffinity,
                sites,
            );
        }
    }
}

/// In every topology, such a pod must be in the place of the node. The first one of a group that wants to be near
/// itself may start anywhere.
fn must_be_near(censuses: &[Census<'_>], is_itself: bool, sites: &mut [Site]) {
    let may_start = is_itself && censuses.iter().all(Census::is_empty);
    for site in sites.iter_mut().filter(|_| !mutant!(IgnorePodAffinity)) {
        for census in censuses {
            match census.near(site) {
                Some(wearers) if may_start || wearers.stay > 0 => {}
                Some(wearers) if wearers.leave > 0 && mutant!(JoinLeaving) => {}
                Some(wearers) if wearers.come > 0 => site.fit = Fit::Future,
                None | Some(_) => site.block(Blocker::PodAffinity),
            }
        }
    }
}

/// No such pod may be in the place of the node; one that leaves has to be gone first.
fn must_be_apart(census: Option<Census<'_>>, blocker: Blocker, sites: &mut [Site]) {
    let Some(census) = census.filter(|_| !mutant!(IgnoreAntiAffinity)) else {
        return;
    };
    for site in sites {
        if let Some(wearers) = census.near(site) {
            if wearers.later() > 0 {
                site.block(blocker);
            } else if wearers.leave > 0 && !mutant!(MeetLeaving) {
                site.fit = Fit::Future;
            }
        }
    }
}
