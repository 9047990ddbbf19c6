//! Keeping the log short.
//!
//! The log is a queue of batches. When it is longer than twice what is alive (and a floor), each
//! commit looks at the oldest batches: what still lives there is *carried*, written again as part of
//! the batch being committed, and a batch that has nothing left to carry is dropped in the same redb
//! transaction. A deletion is dropped with its batch: nothing older is left that it has to hide.
//! The work per commit is bounded by the size of that commit, so there is never a stall; it is enough,
//! because one pass over a log that is at least half dead frees as much as it writes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::head::Transaction;
use super::model::{EventKind, Key, Object, Revision};
use super::record;
use super::state::State;

/// A commit may carry this much however small it is, and at most twice its own size.
const CARRY_BYTES_MIN: u64 = 64 << 10;
/// How many entries of old batches one commit looks at, beyond four for each of its own.
const LOOK_MIN: usize = 1024;

/// Where a version was written.
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) revision: Revision,
}

/// What is known in memory of a batch in the log.
pub(super) struct Batch {
    pub(super) sequence: u64,
    pub(super) bytes: u64,
    /// The newest revision in it.
    pub(super) revision: Revision,
    /// The versions in it; those already carried on are taken off the end.
    pub(super) entries: Vec<Entry>,
}

impl Batch {
    pub(super) fn new(sequence: u64, carried: &[Arc<Object>], transactions: &[Transaction]) -> Self {
        let entry = |object: &Arc<Object>| Entry {
            key: object.key.clone(),
            revision: object.revision,
        };
        let events = || transactions.iter().flat_map(|transaction| &transaction.events);
        let puts = events()
            .filter(|event| event.kind != EventKind::Deleted)
            .map(|event| &event.object);
        Self {
            sequence,
            bytes: 0,
            revision: events().last().map_or(0, |event| event.revision),
            entries: carried.iter().chain(puts).map(entry).collect(),
        }
    }
}

/// What a commit does for the log beside its own writes.
#[derive(Default)]
pub(super) struct Plan {
    /// To be written again.
    pub(super) carried: Vec<Arc<Object>>,
    /// Batches to be deleted, oldest first.
    pub(super) dropped: Vec<Batch>,
}

/// Plans for a commit of `bytes` in `writes`; `excess` is by how much the log is too long with it.
/// `state` must be that of all batches before this commit.
pub(super) fn plan(batches: &mut VecDeque<Batch>, state: &State, excess: u64, bytes: u64, writes: usize) -> Plan {
    let mut plan = Plan::default();
    let (mut freed, mut carried) = (0_u64, 0_u64);
    let carry_max = CARRY_BYTES_MIN.max(bytes.saturating_mul(2));
    let mut looks = LOOK_MIN.max(writes.saturating_mul(4));
    while freed < excess.saturating_add(carried) {
        let Some(oldest) = batches.front_mut() else { break };
        while let Some(entry) = oldest.entries.pop() {
            let alive = state.get(&entry.key.resource, &entry.key.namespace, &entry.key.name);
            if let Some(object) = alive.filter(|object| object.revision == entry.revision) {
                carried += record::size(object);
                plan.carried.push(Arc::clone(object));
            }
            looks = looks.saturating_sub(1);
            if looks == 0 || carried >= carry_max {
                break;
            }
        }
        if !oldest.entries.is_empty() {
            break;
        }
        freed += oldest.bytes;
        looks = looks.saturating_sub(1);
        plan.dropped.extend(batches.pop_front());
        if looks == 0 || carried >= carry_max {
            break;
        }
    }
    plan
}
