//! `node_reservation`: nodes that are locked for a queue take only pods of that queue and of those below it, and these
//! prefer them.
//!
//! The plugin only switches it on. Who holds a node parts all nodes into estates, so what is worked out for a shape of pods
//! is worked out once and not once for every queue: see [`State::reach`](crate::session::State::reach).

use super::{Blocker, Hook, Plugin, Shape};
use crate::model::NodeId;
use crate::session::State;

/// The plugin; it has no state of its own.
pub(super) struct NodeReservation;

impl Plugin for NodeReservation {
    fn hooks(&self) -> &'static [Hook] {
        &[]
    }

    fn honours_locks(&self) -> bool {
        true
    }
}

/// Why a shape is kept from a node by a lock.
pub(super) fn lock(state: &State, shape: Shape, node: NodeId) -> Option<Blocker> {
    state
        .locked_against(shape.class, shape.right, node)
        .map(Blocker::Locked)
}

/// How much pods of a shape prefer a node for whom it is locked: more than any scores together.
pub(super) fn preference(state: &State, shape: Shape, node: NodeId) -> f64 {
    const MORE: f64 = 1_000_000.0;
    let Some(reach) = state.reach(shape.class, shape.right) else {
        return 0.0;
    };
    let estate = state.model.nodes[node].estate;
    let worse = reach.iter().rev().position(|&known| known == estate);
    worse.map_or(0.0, |worse| worse as f64 * MORE)
}
