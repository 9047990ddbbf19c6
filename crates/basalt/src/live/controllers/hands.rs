//! Who may write now: there are so many hands, and what nobody waits for gets few of them.

use std::collections::BTreeSet;

/// Work items under way at the same time.
const ALL: usize = 32;
/// Of these, the ones that nobody waits for: when a large tree is closed, ten thousand notes of it must not hold up states.
const UNHURRIED: usize = 4;

/// The hands, and what waits for one of the few that are for unhurried work.
#[derive(Debug)]
pub(super) struct Hands<W> {
    busy: usize,
    unhurried: usize,
    waiting: BTreeSet<W>,
}

impl<W> Default for Hands<W> {
    fn default() -> Self {
        Self {
            busy: 0,
            unhurried: 0,
            waiting: BTreeSet::new(),
        }
    }
}

impl<W: Ord> Hands<W> {
    /// Whether any is free.
    pub(super) fn is_free(&self) -> bool {
        self.busy < ALL
    }

    /// How many are busy.
    pub(super) fn busy(&self) -> usize {
        self.busy
    }

    /// How much waits for a hand.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes a free hand for `work`; gives it back where it has to wait for one.
    pub(super) fn take(&mut self, work: W, unhurried: bool) -> Option<W> {
        if unhurried && self.unhurried >= UNHURRIED {
            self.waiting.insert(work);
            return None;
        }
        self.busy += 1;
        self.unhurried += usize::from(unhurried);
        Some(work)
    }

    /// A hand is free again; returns what may be looked at anew because of it.
    pub(super) fn free(&mut self, unhurried: bool) -> Option<W> {
        self.busy = self.busy.saturating_sub(1);
        self.unhurried = self.unhurried.saturating_sub(usize::from(unhurried));
        if unhurried { self.waiting.pop_first() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_never_take_all_hands() {
        let mut hands = Hands::default();
        for note in 0..100 {
            assert!(hands.is_free());
            let taken = hands.take(note, true);
            assert_eq!(taken.is_some(), note < 4, "{note}");
        }
        assert_eq!((hands.busy(), hands.waiting()), (4, 96));
        for state in 100..128 {
            assert!(hands.is_free());
            assert_eq!(hands.take(state, false), Some(state));
        }
        assert!(!hands.is_free());
        assert_eq!(hands.free(false), None, "a state that is written lets no note through");
        // Each note that is written lets the next one through, until none is left.
        for note in 4..100 {
            assert_eq!(hands.free(true), Some(note));
            assert_eq!(hands.take(note, true), Some(note));
        }
        for _ in 0..4 {
            assert_eq!(hands.free(true), None);
        }
        assert_eq!((hands.busy(), hands.waiting()), (27, 0));
    }
}
