//! The lists that clients read page by page: every page is of the same revision and costs only itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::store::{Object, Revision};

/// How many lists are remembered, and for how long after their last page.
const LISTS_MAX: usize = 8;
const PATIENCE: Duration = Duration::from_mins(2);

/// All objects of a list, in order.
pub(crate) type Snapshot = Arc<Vec<Arc<Object>>>;

/// Which list it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageKey {
    pub(crate) resource: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) revision: Revision,
}

struct Entry {
    key: PageKey,
    snapshot: Snapshot,
    used: Instant,
}

/// The lists that are being read.
#[derive(Default)]
pub(crate) struct Pages {
    entries: Mutex<VecDeque<Entry>>,
}

impl Pages {
    /// The remembered list.
    pub(crate) fn get(&self, key: &PageKey) -> Option<Snapshot> {
        let entries = self.entries.lock();
        entries
            .iter()
            .find(|entry| entry.key == *key)
            .map(|entry| entry.snapshot.clone())
    }

    /// Remembers a list of which more pages are to come.
    pub(crate) fn keep(&self, key: PageKey, snapshot: Snapshot) {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        entries.retain(|entry| entry.key != key && now.duration_since(entry.used) < PATIENCE);
        if entries.len() >= LISTS_MAX {
            entries.pop_front();
        }
        entries.push_back(Entry {
            key,
            snapshot,
            used: now,
        });
    }

    /// Forgets a list that has been read to its end, and those that nobody goes on with.
    pub(crate) fn forget(&self, key: &PageKey) {
        let now = Instant::now();
        self.entries
            .lock()
            .retain(|entry| entry.key != *key && now.duration_since(entry.used) < PATIENCE);
    }
}
