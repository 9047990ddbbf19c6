//! PodGroup statuses that the server rejected: written again, but ever less often.
//!
//! What was rejected once will most likely be rejected again. Without a pause each rejection would cause a cycle, and
//! each cycle the next rejection.

use std::collections::BTreeMap;
use std::time::Duration;

use basalt_api::backoff::Backoff;
use jiff::{SignedDuration, Timestamp};

/// The delays after which a rejected status is published again.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// A group that was not rejected again for this long starts over with the shortest pause.
const FORGET_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// The groups whose statuses were rejected, each with its pause.
#[derive(Debug, Default)]
pub(crate) struct RejectedWrites {
    groups: BTreeMap<String, RetryPause>,
}

#[derive(Debug)]
struct RetryPause {
    backoff: Backoff,
    due: Timestamp,
    /// The status was published again; the record only keeps the length of the next pause.
    is_retried: bool,
}

impl RejectedWrites {
    /// Takes note of a rejected status of `group`.
    pub(crate) fn add(&mut self, group: String, now: Timestamp) {
        let wait = self.groups.entry(group).or_insert(RetryPause {
            backoff: RETRY,
            due: Timestamp::MAX,
            is_retried: true,
        });
        if wait.is_retried {
            let delay = wait.backoff.next_delay();
            wait.due = now.saturating_add(delay).unwrap_or(Timestamp::MAX);
            wait.is_retried = false;
        }
    }

    /// Forgets a group that is gone.
    pub(crate) fn forget(&mut self, group: &str) {
        self.groups.remove(group);
    }

    /// Returns when the next pause is over.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let waits = self.groups.values().filter(|wait| !wait.is_retried);
        waits.map(|wait| wait.due).min()
    }

    /// Returns the groups whose pause is over: their statuses are published again now.
    pub(crate) fn take_due(&mut self, now: Timestamp) -> Vec<String> {
        self.groups
            .retain(|_, wait| !wait.is_retried || now.duration_since(wait.due) < FORGET_AFTER);
        let due = |wait: &RetryPause| !wait.is_retried && wait.due <= now;
        let waits = self.groups.iter_mut().filter(|(_, wait)| due(wait));
        waits
            .map(|(group, wait)| {
                wait.is_retried = true;
                group.clone()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a small time")
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_are_forgotten() {
        let mut rejected = RejectedWrites::default();
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            rejected.add("a/g".to_owned(), at(now));
            rejected.add("a/g".to_owned(), at(now));
            assert_eq!(rejected.next_due(), Some(at(now + pause)));
            assert!(rejected.take_due(at(now + pause - 1)).is_empty());
            now += pause;
            assert_eq!(rejected.take_due(at(now)), ["a/g"]);
            assert!(rejected.take_due(at(now)).is_empty(), "once");
            assert_eq!(rejected.next_due(), None);
        }
        assert!(rejected.take_due(at(now + 60)).is_empty());
        rejected.add("a/g".to_owned(), at(now + 60));
        assert_eq!(rejected.next_due(), Some(at(now + 61)), "begins anew");
        rejected.forget("a/g");
        assert_eq!(rejected.next_due(), None);
    }
}
