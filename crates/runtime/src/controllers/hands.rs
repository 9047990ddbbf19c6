//! Who may write now: there are so many hands, and some kinds of work get few of them.

use std::collections::{BTreeSet, VecDeque};

/// Work items under way at the same time.
const ALL: usize = 32;

/// How much there is to do, and whether anybody waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// A few writes.
    Light,
    /// Very many pods. If all such went on at once, all gangs would be whole only at the very end; so they go on a few at a
    /// time, each with a part of what it asks for, and who wants more joins the end of the line.
    Heavy,
    /// Nobody waits for it: when a large tree is closed, ten thousand notes of it must not hold up states.
    Unhurried,
}

impl Load {
    /// Creates from which on a load is heavy: those alone use the server to the full.
    pub(super) const HEAVY: usize = 64;
    /// Creates of one part: few gangs are larger, and a giant's next part waits until all others had theirs.
    pub(super) const PART: usize = 512;

    /// How many hands such work gets.
    fn most(self) -> usize {
        match self {
            Self::Light => ALL,
            Self::Heavy => 2,
            Self::Unhurried => 4,
        }
    }
}

/// Hands for one kind of work, and what waits for one of them, in the order in which it came.
#[derive(Debug)]
struct Few<W> {
    busy: usize,
    line: VecDeque<W>,
    in_line: BTreeSet<W>,
    /// The first of the line, which was told to come and has not been looked at yet.
    called: Option<W>,
}

impl<W> Default for Few<W> {
    fn default() -> Self {
        Self {
            busy: 0,
            line: VecDeque::new(),
            in_line: BTreeSet::new(),
            called: None,
        }
    }
}

/// The hands.
#[derive(Debug)]
pub(super) struct Hands<W> {
    busy: usize,
    heavy: Few<W>,
    unhurried: Few<W>,
}

impl<W> Default for Hands<W> {
    fn default() -> Self {
        Self {
            busy: 0,
            heavy: Few::default(),
            unhurried: Few::default(),
        }
    }
}

impl<W: Ord + Clone> Hands<W> {
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
        self.heavy.line.len() + self.unhurried.line.len()
    }

    /// `work` is looked at; says whether it was its turn in a line.
    pub(super) fn looks_at(&mut self, work: &W) -> bool {
        let mut called = false;
        for few in [&mut self.heavy, &mut self.unhurried] {
            called |= few.called.take_if(|first| first == work).is_some();
        }
        called
    }

    /// Takes a free hand for `work`, or puts it into the line for one; says whether it has one.
    pub(super) fn take(&mut self, work: &W, load: Load, called: bool) -> bool {
        if let Some(few) = self.few(load) {
            let others_first = few.called.is_some() || !few.line.is_empty();
            if few.busy >= load.most() || (others_first && !called) {
                if few.in_line.insert(work.clone()) {
                    few.line.push_back(work.clone());
                }
                return false;
            }
            few.busy += 1;
        }
        self.busy += 1;
        true
    }

    /// A hand is free again.
    pub(super) fn free(&mut self, load: Load) {
        self.busy = self.busy.saturating_sub(1);
        if let Some(few) = self.few(load) {
            few.busy = few.busy.saturating_sub(1);
        }
    }

    /// Work that waited for a hand while now there is one; it has to be looked at anew, for it may have come to nothing. The
    /// next one is called after that.
    pub(super) fn next(&mut self) -> Option<W> {
        let kinds = [Load::Heavy, Load::Unhurried];
        kinds.into_iter().find_map(|load| {
            let is_open = |few: &&mut Few<W>| few.busy < load.most() && few.called.is_none();
            let few = self.few(load).filter(is_open)?;
            let next = few.line.pop_front()?;
            few.in_line.remove(&next);
            few.called = Some(next.clone());
            Some(next)
        })
    }

    fn few(&mut self, load: Load) -> Option<&mut Few<W>> {
        match load {
            Load::Light => None,
            Load::Heavy => Some(&mut self.heavy),
            Load::Unhurried => Some(&mut self.unhurried),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever is called is looked at, and takes what it was called for.
    fn come(hands: &mut Hands<u32>, load: Load, expected: Option<u32>) {
        let next = hands.next();
        assert_eq!(next, expected);
        if let Some(work) = next {
            let called = hands.looks_at(&work);
            assert!(hands.take(&work, load, called), "{work}");
        }
    }

    #[test]
    fn notes_never_take_all_hands() {
        let mut hands = Hands::default();
        for note in 0..100 {
            assert!(hands.is_free());
            assert_eq!(hands.take(&note, Load::Unhurried, false), note < 4, "{note}");
        }
        assert_eq!((hands.busy(), hands.waiting()), (4, 96));
        for state in 100..128 {
            assert!(hands.is_free());
            assert!(hands.take(&state, Load::Light, false));
        }
        assert!(!hands.is_free());
        hands.free(Load::Light);
        assert_eq!(hands.next(), None, "a state that is written lets no note through");
        // Each note that is written lets the next one through, until none is left.
        for note in 4..100 {
            hands.free(Load::Unhurried);
            come(&mut hands, Load::Unhurried, Some(note));
            assert_eq!(hands.next(), None);
        }
        for _ in 0..4 {
            hands.free(Load::Unhurried);
            assert_eq!(hands.next(), None);
        }
        assert_eq!((hands.busy(), hands.waiting()), (27, 0));
    }

    #[test]
    fn large_jobs_come_a_few_at_a_time_in_their_order() {
        let mut hands = Hands::default();
        for (place, job) in [5, 4, 3, 2, 1].iter().enumerate() {
            assert_eq!(hands.take(job, Load::Heavy, false), place < 2, "{job}");
        }
        assert!(!hands.take(&1, Load::Heavy, false), "it is looked at again meanwhile");
        assert!(hands.is_free() && hands.take(&0, Load::Light, false));
        assert_eq!((hands.busy(), hands.waiting()), (3, 3));
        // One that has made a part and wants more joins the end of the line, though a hand is free.
        hands.free(Load::Heavy);
        assert!(!hands.take(&5, Load::Heavy, false));
        assert_eq!(hands.next(), Some(3));
        assert_eq!(hands.next(), None, "the next is called when that one was looked at");
        assert!(!hands.take(&4, Load::Heavy, false), "and others do not overtake it");
        // It came to nothing, which lets the next one through.
        assert!(hands.looks_at(&3) && !hands.looks_at(&3));
        for job in [2, 1, 5, 4] {
            come(&mut hands, Load::Heavy, Some(job));
            assert_eq!(hands.next(), None);
            hands.free(Load::Heavy);
        }
        assert_eq!((hands.next(), hands.busy(), hands.waiting()), (None, 2, 0));
    }
}
