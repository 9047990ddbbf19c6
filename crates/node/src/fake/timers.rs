//! All waiting of all pods and nodes: one heap of wake-up times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::kubelet::Millis;

/// Wake-up times, earliest first; equal ones in the order of their subjects.
///
/// A wake-up only makes its subject be looked at again, so one that came too many does no harm and nothing is ever cancelled.
#[derive(Debug)]
pub(crate) struct Timers<S>(BinaryHeap<Reverse<(Millis, S)>>);

impl<S: Ord> Default for Timers<S> {
    fn default() -> Self {
        Self(BinaryHeap::new())
    }
}

impl<S: Ord> Timers<S> {
    pub(crate) fn push(&mut self, due: Millis, subject: S) {
        self.0.push(Reverse((due, subject)));
    }

    /// When the next subject wants to be woken.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.0.peek().map(|Reverse((due, _))| *due)
    }

    /// The next subject whose time has come.
    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<S> {
        if self.next_due()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, subject))| subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn subjects_wake_in_order_and_never_early(
            dues in prop::collection::vec(0_i64..100, 0..60),
            mut looks in prop::collection::vec(0_i64..120, 0..30),
        ) {
            let mut timers = Timers::default();
            for (subject, due) in dues.iter().enumerate() {
                timers.push(*due, subject);
            }
            looks.sort_unstable();
            let mut woken: Vec<(i64, usize)> = Vec::new();
            for now in looks.into_iter().chain([i64::MAX]) {
                while let Some(subject) = timers.pop_due(now) {
                    prop_assert!(dues[subject] <= now);
                    woken.push((dues[subject], subject));
                }
                prop_assert!(timers.next_due().is_none_or(|due| due > now));
            }
            let mut expected: Vec<(i64, usize)> = dues.iter().enumerate().map(|(s, d)| (*d, s)).collect();
            expected.sort_unstable();
            prop_assert_eq!(woken, expected);
        }
    }
}
