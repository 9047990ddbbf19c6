//! What is to be done next: a set of work items with due times, each item in one pair of hands at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// First pause after a failure; doubles with each further one.
const RETRY_MIN: Duration = Duration::from_millis(10);
/// Longest pause between two tries.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Work items of type `W`, coalesced: however often an item is asked for, it is done once at its earliest due time.
#[derive(Debug)]
pub struct Agenda<W> {
    due: BTreeSet<(Timestamp, W)>,
    due_of: BTreeMap<W, Timestamp>,
    busy: BTreeSet<W>,
    failures: BTreeMap<W, u32>,
}

impl<W> Default for Agenda<W> {
    fn default() -> Self {
        Self {
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            busy: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<W: Ord + Clone> Agenda<W> {
    /// Asks for `work` at `at`, or earlier if it is already asked for earlier.
    pub fn ask(&mut self, work: W, at: Timestamp) {
        match self.due_of.get(&work) {
            Some(known) if *known <= at => {}
            known => {
                if let Some(known) = known {
                    self.due.remove(&(*known, work.clone()));
                }
                self.due.insert((at, work.clone()));
                self.due_of.insert(work, at);
            }
        }
    }

    /// Takes the next item that is due and in nobody's hands; it is then in the caller's until [`Agenda::done`].
    pub fn take(&mut self, now: Timestamp) -> Option<W> {
        let (_, work) = self
            .due
            .iter()
            .take_while(|(at, _)| *at <= now)
            .find(|(_, work)| !self.busy.contains(work))?;
        let work = work.clone();
        if let Some(at) = self.due_of.remove(&work) {
            self.due.remove(&(at, work.clone()));
        }
        self.busy.insert(work.clone());
        Some(work)
    }

    /// Gives `work` back; after a failure it is asked for again, later each time.
    pub fn done(&mut self, work: W, failed: bool, now: Timestamp) {
        self.busy.remove(&work);
        if !failed {
            self.failures.remove(&work);
            return;
        }
        let failures = self.failures.entry(work.clone()).or_default();
        let pause = RETRY_MIN.saturating_mul(1 << (*failures).min(16)).min(RETRY_MAX);
        *failures = failures.saturating_add(1);
        let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::from_secs(30));
        self.ask(work, now.saturating_add(pause).unwrap_or(Timestamp::MAX));
    }

    /// Gives `work` back as it was taken: nothing was tried, so nothing is known of how that would have gone.
    pub fn put_back(&mut self, work: &W) {
        self.busy.remove(work);
    }

    /// Forgets everything about `work` that is not in somebody's hands.
    pub fn forget(&mut self, work: &W) {
        self.failures.remove(work);
        if let Some(at) = self.due_of.remove(work) {
            self.due.remove(&(at, work.clone()));
        }
    }

    /// How many items are asked for.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// When the next item that is in nobody's hands is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due
            .iter()
            .find(|(_, work)| !self.busy.contains(work))
            .map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).expect("a small time")
    }

    /// `ask a 5`, `take 7 a` (or `-`), `done a 7`, `fail a 7`, `back a`, `next 5` (or `-`).
    fn check(script: &str) {
        let mut agenda: Agenda<String> = Agenda::default();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let time = |text: &str| at(text.parse().expect("a time"));
            match words.as_slice() {
                ["ask", work, when] => agenda.ask((*work).to_owned(), time(when)),
                ["take", when, expected] => {
                    let taken = agenda.take(time(when));
                    assert_eq!(taken.as_deref().unwrap_or("-"), *expected, "{line} in {script}");
                }
                ["done", work, when] => agenda.done((*work).to_owned(), false, time(when)),
                ["fail", work, when] => agenda.done((*work).to_owned(), true, time(when)),
                ["back", work] => agenda.put_back(&(*work).to_owned()),
                ["next", expected] => {
                    let next = agenda
                        .next_due()
                        .map_or("-".to_owned(), |t| t.as_millisecond().to_string());
                    assert_eq!(next, *expected, "{line} in {script}");
                }
                other => panic!("unknown line {other:?}"),
            }
        }
    }

    #[test]
    fn work_is_coalesced_to_its_earliest_time() {
        check("ask a 9\n ask a 5\n ask a 7\n take 4 -\n take 5 a\n take 9 -\n next -");
        check("ask b 5\n ask a 5\n take 5 a\n take 5 b\n take 5 -");
    }

    #[test]
    fn work_in_hand_is_not_given_out_twice() {
        check("ask a 1\n take 1 a\n ask a 2\n take 3 -\n next -\n done a 3\n next 2\n take 3 a");
    }

    #[test]
    fn failures_come_back_later_each_time() {
        check(
            "ask a 0\n take 0 a\n fail a 0\n take 9 -\n take 10 a\n fail a 10\n next 30\n take 30 a\n done a 30\n next -",
        );
        // What could not be tried is still what it was.
        check("ask a 0\n take 0 a\n fail a 0\n take 10 a\n back a\n ask a 10\n take 10 a\n fail a 10\n next 30");
    }
}
