//! `node_reservation`: nodes that are locked for a queue take only pods of that queue and of those below it, and these
//! prefer them. For a queue whose guarantee evicts, others' pods leave its locked nodes until its target is reached:
//! the action `reserve` asks here for whom, how much is missing, and which pods may go.
//!
//! Who holds a node parts all nodes into estates, so what is worked out for a shape of pods is worked out once and not
//! once for every queue: see [`State::reach`](crate::session::State::reach).

mod capacity;

use std::cmp::Reverse;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) use self::capacity::ReservationShortage;
use self::capacity::ReservedCapacity;
use super::{Blocker, Hook, Plugin, Shape};
use crate::ledger::Status;
use crate::model::{JobId, NodeId, QueueId, TaskId};
use crate::mutants::mutant;
use crate::session::State;

/// The name by which the configuration knows the plugin.
pub(crate) const NAME: &str = "node_reservation";

/// The plugin. What it keeps is worked out from the state, and only saves counting it again.
#[derive(Default)]
pub(super) struct NodeReservation {
    capacity: Mutex<ReservedCapacity>,
}

impl NodeReservation {
    fn capacity(&self) -> MutexGuard<'_, ReservedCapacity> {
        self.capacity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plugin for NodeReservation {
    fn hooks(&self) -> &'static [Hook] {
        &[Hook::Reservation]
    }

    fn honours_locks(&self) -> bool {
        true
    }

    fn reserving_queues(&self, state: &State) -> Vec<QueueId> {
        if !state.is_parted() {
            return Vec::new();
        }
        let queues = &state.model.queues;
        let mut reserving: Vec<QueueId> = queues.ids().filter(|&queue| evicts_for(state, queue)).collect();
        reserving.sort_by_key(|&queue| (Reverse(queues[queue].chain.len()), queues.name(queue).clone()));
        self.capacity().serve(&reserving);
        reserving
    }

    fn reservation_shortage(&self, state: &State, queue: QueueId) -> Option<ReservationShortage> {
        self.capacity().shortage(state, queue)
    }

    fn is_reservation_victim(&self, state: &State, queue: QueueId, task: TaskId) -> bool {
        is_movable(state, task) && !is_own(state, queue, task)
    }

    fn note_unmovable(&self, state: &State, queue: QueueId) {
        self.capacity().note_unmovable(state, queue);
    }
}

/// Returns whether pods of others are evicted for the guarantee of a queue.
fn evicts_for(state: &State, queue: QueueId) -> bool {
    let record = &state.model.queues[queue];
    let evicts = record.evicts || mutant!(EvictForBestEffort);
    record.present && evicts && !record.locks.is_empty() && record.target.iter().any(|(_, amount)| amount > 0)
}

/// Returns whether a pod is of a queue, or of one below it.
fn is_own(state: &State, queue: QueueId, task: TaskId) -> bool {
    let job = state.model.tasks[task].job;
    job.is_some() && !mutant!(EvictForOwn) && state.model.chain(state.model.jobs[job].queue).contains(&queue)
}

/// Returns whether a pod may be evicted for a reservation, by what it and its group say.
fn is_movable(state: &State, task: TaskId) -> bool {
    let record = &state.model.tasks[task];
    let runs = matches!(state.ledger.status(task), Status::Running | Status::Bound);
    let job = |job: JobId| &state.model.jobs[job];
    let held = record.fixed || (record.critical && !mutant!(TakeCritical)) || record.spared;
    let says_yes = record.preemptable || mutant!(TakeProtected);
    let protects = |preemptable: Option<bool>| preemptable == Some(false) && !mutant!(TakeProtectedGroups);
    runs && !held
        && says_yes
        && record.job.is_some()
        && job(record.job).present
        && !protects(job(record.job).preemptable)
}

/// Why a shape is kept from a node by a lock.
pub(super) fn lock(state: &State, shape: Shape, node: NodeId) -> Option<Blocker> {
    state
        .locked_against(shape.class, shape.right, node)
        .map(Blocker::Locked)
}

/// How much pods of a shape prefer a node that is locked for them, whatever its score: more than any scores together.
pub(crate) fn lock_preference(state: &State, shape: Shape, node: NodeId) -> f64 {
    const MORE: f64 = 1_000_000.0;
    let Some(reach) = state.reach(shape.class, shape.right) else {
        return 0.0;
    };
    let estate = state.model.nodes[node].estate;
    let worse = reach.iter().rev().position(|&known| known == estate);
    worse.map_or(0.0, |worse| worse as f64 * MORE)
}
