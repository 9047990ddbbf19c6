//! Which status writes have not been answered.

use rustc_hash::FxHashMap;

/// The writes of one writer, by the name of the object: what a watch shows of an object may be older than what was
/// written there, even after the write was answered.
#[derive(Debug, Default)]
pub(crate) struct PendingWrites {
    /// The newest write that was not answered.
    unanswered: FxHashMap<Box<str>, u64>,
    /// The versions that writes made, until the watch has shown them.
    written: FxHashMap<Box<str>, u64>,
}

impl PendingWrites {
    /// Remembers the newest write to an object.
    pub(crate) fn add(&mut self, key: &str, sequence: u64) {
        self.unanswered.insert(key.into(), sequence);
    }

    /// Returns whether no write is unanswered.
    pub(crate) fn is_empty(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// Returns whether the newest write to an object was not answered.
    pub(crate) fn is_pending(&self, key: &str) -> bool {
        self.unanswered.contains_key(key)
    }

    /// Forgets that a write was not answered: it is cancelled.
    pub(crate) fn cancel(&mut self, key: &str) -> bool {
        self.unanswered.remove(key).is_some()
    }

    /// Takes note of an answer. The answer to an earlier write leaves the newest one unanswered.
    pub(crate) fn answer(&mut self, key: &str, sequence: u64) {
        if self.unanswered.get(key).is_some_and(|newest| *newest <= sequence) {
            self.unanswered.remove(key);
        }
    }

    /// Remembers the version that a write made, for [`PendingWrites::is_ahead_of`].
    pub(crate) fn record_version(&mut self, key: &str, version: u64) {
        self.written.insert(key.into(), version);
    }

    /// Returns whether what the watch shows of an object, in `version`, is older than what was or will be written.
    pub(crate) fn is_ahead_of(&mut self, key: &str, version: Option<&str>) -> bool {
        if self.is_pending(key) {
            return true;
        }
        let Some(written) = self.written.get(key) else {
            return false;
        };
        // Versions of a server that are no numbers all count as newer.
        let shown = version.and_then(|version| version.parse::<u64>().ok());
        let is_ahead = shown.is_some_and(|shown| shown < *written);
        if !is_ahead {
            self.written.remove(key);
        }
        is_ahead
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&mut self, key: &str) {
        self.unanswered.remove(key);
        self.written.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_watch_event_is_older_than_an_answered_write() {
        let mut writes = PendingWrites::default();
        assert!(!writes.is_ahead_of("a/g", Some("5")), "nothing was written");
        writes.add("a/g", 1);
        assert!(writes.is_ahead_of("a/g", Some("5")), "the write is not answered");
        writes.answer("a/g", 1);
        writes.record_version("a/g", 7);
        assert!(writes.is_empty());
        assert!(
            writes.is_ahead_of("a/g", Some("6")),
            "version 6 is from before the write"
        );
        assert!(!writes.is_ahead_of("a/g", Some("7")), "version 7 is the write");
        assert!(!writes.is_ahead_of("a/g", Some("6")), "the version is forgotten");
    }

    #[test]
    fn only_the_answer_to_the_newest_write_counts() {
        let mut writes = PendingWrites::default();
        writes.add("a/g", 1);
        writes.add("a/g", 2);
        writes.answer("a/g", 1);
        assert!(writes.is_pending("a/g"));
        writes.answer("a/g", 2);
        assert!(!writes.is_pending("a/g"));
        writes.add("a/g", 3);
        assert!(writes.cancel("a/g") && !writes.cancel("a/g"));
    }

    #[test]
    fn versions_that_are_no_numbers_and_deleted_objects_hold_nothing_up() {
        let mut writes = PendingWrites::default();
        for is_deleted in [false, true] {
            writes.add("a/g", 1);
            writes.answer("a/g", 1);
            writes.record_version("a/g", 7);
            if is_deleted {
                writes.forget("a/g");
            }
            let version = if is_deleted { "1" } else { "x" };
            assert!(!writes.is_ahead_of("a/g", Some(version)), "{version}");
        }
    }
}
