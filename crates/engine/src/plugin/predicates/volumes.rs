//! Volumes: a pod goes where all its claims have, or can get, a volume.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Blocker, Fit, Site, meets};
use crate::facts::{ClaimFacts, Labels, StorageFacts, VolumeFacts};
use crate::ledger::Wearers;
use crate::model::{MarkKey, NodeId, TaskId};
use crate::session::State;

/// Only one pod at a time may use a claim with this mode.
const ONE_POD: &str = "ReadWriteOncePod";

/// Labels of volumes that bind them to a part of the cluster.
const ZONES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// What a claim needs of a node.
enum Need<'a> {
    /// It has this volume.
    Bound(&'a VolumeFacts),
    /// It gets one when the pod is placed.
    Waits(&'a ClaimFacts, &'a StorageFacts),
    /// It has none, wherever the pod goes.
    Nothing(Blocker),
}

fn need<'a>(state: &'a State, key: &str) -> Need<'a> {
    let places = &state.model.places;
    let Some(claim) = places.claims.get(key).filter(|claim| !claim.ending) else {
        return Need::Nothing(Blocker::NoClaim);
    };
    if let Some(volume) = &claim.volume {
        return match places.volumes.get(volume) {
            Some(volume) => Need::Bound(volume),
            None => Need::Nothing(Blocker::ClaimUnbound),
        };
    }
    match places.storage.get(&claim.class) {
        Some(class) if class.waits => Need::Waits(claim, class),
        _ => Need::Nothing(Blocker::ClaimUnbound),
    }
}

/// Blocks the sites where a claim of the pod cannot be met.
pub(super) fn judge(state: &State, task: TaskId, sites: &mut [Site], bind: bool, zones: bool) {
    let Some(ties) = state.model.places.ties.key(state.model.tasks[task].ties) else {
        return;
    };
    if ties.claims.is_empty() || !(bind || zones) {
        return;
    }
    let needs: Vec<Need<'_>> = ties.claims.iter().map(|claim| need(state, claim)).collect();
    let waits = |need: &Need<'_>| matches!(need, Need::Waits(..));
    let taken = if bind && needs.iter().any(waits) {
        promised(state, task)
    } else {
        BTreeSet::new()
    };
    for site in &mut *sites {
        let mut chosen = taken.clone();
        for need in &needs {
            match need {
                Need::Bound(volume) => {
                    if bind && !reaches(state, volume, site.node) {
                        site.block(Blocker::VolumeNode);
                    }
                    if zones && !in_zone(&volume.labels, &state.model.nodes[site.node].labels) {
                        site.block(Blocker::VolumeZone);
                    }
                }
                Need::Waits(claim, class) if bind => {
                    if !gets_volume(state, claim, class, site.node, &mut chosen) {
                        site.block(Blocker::NoVolume);
                    }
                }
                Need::Nothing(blocker) if bind => site.block(*blocker),
                Need::Waits(..) | Need::Nothing(_) => {}
            }
        }
    }
    if bind {
        for claim in &ties.claims {
            only_one_pod(state, claim, sites);
        }
    }
}

/// Who mounts a claim, on all nodes together.
fn users(state: &State, claim: &Arc<str>) -> Wearers {
    let mut users = Wearers::default();
    if let Some(mark) = state.model.places.marks.find(&MarkKey::Mounts(claim.clone())) {
        for (_, wearers) in state.ledger.marks().on(mark) {
            users.add(wearers);
        }
    }
    users
}

fn only_one_pod(state: &State, key: &Arc<str>, sites: &mut [Site]) {
    let claim = state.model.places.claims.get(key);
    if !claim.is_some_and(|claim| claim.modes.iter().any(|mode| &**mode == ONE_POD)) {
        return;
    }
    let users = users(state, key);
    for site in sites {
        if users.later() > 0 {
            site.block(Blocker::ClaimTaken);
        } else if users.leave > 0 {
            site.fit = Fit::Future;
        }
    }
}

fn reaches(state: &State, volume: &VolumeFacts, node: NodeId) -> bool {
    volume
        .nodes
        .as_ref()
        .is_none_or(|terms| meets(&state.model, terms, node))
}

/// A volume with zone labels needs a node with the same ones; nodes without any zone are not judged.
fn in_zone(volume: &Labels, node: &Labels) -> bool {
    let zoned = ZONES.iter().any(|&key| node.contains_key(key));
    !zoned
        || ZONES.iter().all(|&key| {
            // A volume in several zones has them all in one label.
            let allowed = |zones: &Arc<str>| {
                node.get(key)
                    .is_some_and(|zone| zones.split("__").any(|one| *one == **zone))
            };
            volume.get(key).is_none_or(allowed)
        })
}

/// Whether the claim gets a volume there: one that waits for it, one that is free (the smallest), or a new one.
fn gets_volume(
    state: &State,
    claim: &ClaimFacts,
    class: &StorageFacts,
    node: NodeId,
    taken: &mut BTreeSet<Arc<str>>,
) -> bool {
    if claim
        .node
        .as_ref()
        .is_some_and(|chosen| *chosen != *state.model.nodes.name(node))
    {
        return false;
    }
    let many = |mode: &Arc<str>| matches!(&**mode, "ReadWriteMany" | "ReadOnlyMany");
    if !claim.modes.iter().any(many)
        && let Some(mark) = state.model.places.marks.find(&MarkKey::Mounts(claim.key.clone()))
    {
        // Its volume will be where the first pod went that mounts it.
        let mut users = state.ledger.marks().on(mark).filter(|(_, users)| users.later() > 0);
        if users.next().is_some_and(|(first, _)| first != node) && users.all(|(other, _)| other != node) {
            return false;
        }
    }
    let suits = |volume: &&VolumeFacts| {
        let kept = volume.claim.as_ref().map(|holder| *holder == claim.key);
        kept.unwrap_or(volume.available)
            && volume.class == claim.class
            && volume.bytes >= claim.bytes
            && volume.block == claim.block
            && claim.modes.iter().all(|mode| volume.modes.contains(mode))
            && !taken.contains(&volume.name)
            && claim
                .selector
                .iter()
                .all(|requirement| requirement.holds(volume.labels.get(&requirement.key).map(|value| &**value)))
            && reaches(state, volume, node)
    };
    let free = state.model.places.volumes.values().filter(suits);
    if let Some(volume) = free.min_by_key(|volume| (volume.claim.is_none(), volume.bytes, volume.name.clone())) {
        taken.insert(volume.name.clone());
        return true;
    }
    class.provisions && (class.topologies.is_empty() || meets(&state.model, &class.topologies, node))
}

/// The free volumes that pods which have a place already will take: their claims come first.
fn promised(state: &State, task: TaskId) -> BTreeSet<Arc<str>> {
    let places = &state.model.places;
    let own = places.ties.key(state.model.tasks[task].ties);
    let mut taken = BTreeSet::new();
    for (key, claim) in places.claims.iter().filter(|(_, claim)| claim.volume.is_none()) {
        if own.is_some_and(|own| own.claims.contains(key)) {
            continue;
        }
        let Need::Waits(_, class) = need(state, key) else {
            continue;
        };
        let Some(mark) = places.marks.find(&MarkKey::Mounts(key.clone())) else {
            continue;
        };
        let nodes = state.ledger.marks().on(mark).map(|(node, _)| node);
        if let Some(node) = nodes.min() {
            gets_volume(state, claim, class, node, &mut taken);
        }
    }
    taken
}
