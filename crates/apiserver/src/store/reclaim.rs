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
use super::model::{Event, EventKind, Object, Revision, Row};
use super::record;

/// A commit may carry this much however small it is, and at most twice its own size.
const CARRY_BYTES_MIN: u64 = 64 << 10;
/// How many entries of old batches one commit looks at, beyond four for each of its own.
const LOOK_MIN: usize = 1024;

/// Which version was written.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) row: Row,
    pub(super) revision: Revision,
}

impl Entry {
    pub(super) fn of(object: &Object) -> Self {
        Self {
            row: object.row,
            revision: object.revision,
        }
    }
}

/// What is known in memory of a batch in the log.
pub(super) struct Batch {
    pub(super) sequence: u64,
    pub(super) bytes: u64,
    /// How many pieces it was written in.
    pub(super) pieces: u32,
    /// The newest revision in it.
    pub(super) revision: Revision,
    /// The versions in it; those already carried on are taken off the end.
    pub(super) entries: Vec<Entry>,
}

impl Batch {
    pub(super) fn new(sequence: u64, carried: &[Arc<Object>], transactions: &[Transaction]) -> Self {
        let events = || transactions.iter().flat_map(|transaction| &transaction.events);
        let puts = events()
            .filter(|event| event.kind != EventKind::Deleted)
            .map(|event| &event.object);
        Self {
            sequence,
            bytes: 0,
            pieces: 0,
            revision: events().last().map_or(0, |event| event.revision),
            entries: carried.iter().chain(puts).map(|object| Entry::of(object)).collect(),
        }
    }
}

/// The versions that the log has to keep: the newest of each object.
#[derive(Default)]
pub(super) struct Alive {
    /// By row; revision 0: none.
    versions: Vec<Version>,
    bytes: u64,
}

#[derive(Clone, Copy, Default)]
struct Version {
    revision: Revision,
    bytes: u64,
}

impl Alive {
    /// What they take in the log, each once.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An event is in the log.
    pub(super) fn follow(&mut self, event: &Event) {
        let version = match event.kind {
            EventKind::Added | EventKind::Modified => Version {
                revision: event.revision,
                bytes: record::size(&event.object),
            },
            EventKind::Deleted => Version::default(),
        };
        self.put(event.object.row, version);
    }

    /// An object is in the log.
    pub(super) fn insert(&mut self, object: &Object) {
        let version = Version {
            revision: object.revision,
            bytes: record::size(object),
        };
        self.put(object.row, version);
    }

    fn put(&mut self, row: Row, version: Version) {
        let row = row as usize;
        if row >= self.versions.len() {
            self.versions.resize(row + 1, Version::default());
        }
        let known = std::mem::replace(&mut self.versions[row], version);
        self.bytes = self.bytes - known.bytes + version.bytes;
    }

    fn has(&self, entry: Entry) -> bool {
        self.versions
            .get(entry.row as usize)
            .is_some_and(|version| version.revision == entry.revision)
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

/// Plans for a commit of `bytes` in `writes`; `excess` is by how much the log is too long with it. `alive` is what it
/// was before this commit; `find` gives a version that is alive, unless it is so new that nobody can see it yet.
pub(super) fn plan(
    batches: &mut VecDeque<Batch>,
    alive: &Alive,
    find: impl Fn(Entry) -> Option<Arc<Object>>,
    excess: u64,
    (bytes, writes): (u64, usize),
) -> Plan {
    let mut plan = Plan::default();
    let (mut freed, mut carried) = (0_u64, 0_u64);
    let carry_max = CARRY_BYTES_MIN.max(bytes.saturating_mul(2));
    let mut looks = LOOK_MIN.max(writes.saturating_mul(4));
    while freed < excess.saturating_add(carried) {
        let Some(oldest) = batches.front_mut() else { break };
        while let Some(entry) = oldest.entries.pop() {
            if alive.has(entry) {
                let Some(object) = find(entry) else {
                    oldest.entries.push(entry);
                    return plan;
                };
                carried += record::size(&object);
                plan.carried.push(object);
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
