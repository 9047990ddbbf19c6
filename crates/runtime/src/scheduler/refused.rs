//! PodGroup statuses that the server refused for good: told again, but ever less often.
//!
//! What was refused once will most likely be refused again. Without a pause each refusal would cause a cycle, and each
//! cycle the next refusal.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

const PAUSE_MIN: SignedDuration = SignedDuration::from_secs(1);
const PAUSE_MAX: SignedDuration = SignedDuration::from_secs(30);
/// After so long without another refusal a group begins anew.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// The groups that have to wait.
#[derive(Debug, Default)]
pub(super) struct Refused {
    groups: BTreeMap<String, Wait>,
}

#[derive(Debug)]
struct Wait {
    pause: SignedDuration,
    due: Timestamp,
    /// It was told again; the record is only kept for the length of the next pause.
    told_again: bool,
}

impl Refused {
    /// A status of `group` was refused.
    pub(super) fn note(&mut self, group: String, now: Timestamp) {
        let after = |pause| now.saturating_add(pause).unwrap_or(Timestamp::MAX);
        let fresh = || Wait {
            pause: PAUSE_MIN,
            due: after(PAUSE_MIN),
            told_again: false,
        };
        let wait = self.groups.entry(group).or_insert_with(fresh);
        if wait.told_again {
            wait.pause = wait.pause.saturating_mul(2).min(PAUSE_MAX);
            wait.due = after(wait.pause);
            wait.told_again = false;
        }
    }

    /// The group is gone.
    pub(super) fn forget(&mut self, group: &str) {
        self.groups.remove(group);
    }

    /// When the next group's pause is over.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let waits = self.groups.values().filter(|wait| !wait.told_again);
        waits.map(|wait| wait.due).min()
    }

    /// The groups whose pause is over: they are to be told again, now.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<String> {
        self.groups
            .retain(|_, wait| !wait.told_again || now.duration_since(wait.due) < FORGOTTEN_AFTER);
        let due = |wait: &Wait| !wait.told_again && wait.due <= now;
        let waits = self.groups.iter_mut().filter(|(_, wait)| due(wait));
        waits
            .map(|(group, wait)| {
                wait.told_again = true;
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
        let mut refused = Refused::default();
        let mut now = 0;
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            refused.note("a/g".to_owned(), at(now));
            refused.note("a/g".to_owned(), at(now));
            assert_eq!(refused.next_due(), Some(at(now + pause)));
            assert!(refused.due(at(now + pause - 1)).is_empty());
            now += pause;
            assert_eq!(refused.due(at(now)), ["a/g"]);
            assert!(refused.due(at(now)).is_empty(), "once");
            assert_eq!(refused.next_due(), None);
        }
        assert!(refused.due(at(now + 60)).is_empty());
        refused.note("a/g".to_owned(), at(now + 60));
        assert_eq!(refused.next_due(), Some(at(now + 61)), "begins anew");
        refused.forget("a/g");
        assert_eq!(refused.next_due(), None);
    }
}
