//! A delaying work queue: items with due times, each processed by one caller at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::backoff::Backoff;

/// The delays after which failed items are due again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(30));

/// Work items of type `W`, coalesced: an item that is added several times is processed once, at its earliest due time.
#[derive(Debug)]
pub struct WorkQueue<W> {
    due: BTreeSet<(Timestamp, W)>,
    due_of: BTreeMap<W, Timestamp>,
    busy: BTreeSet<W>,
    failures: BTreeMap<W, u32>,
}

impl<W> Default for WorkQueue<W> {
    fn default() -> Self {
        Self {
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            busy: BTreeSet::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<W: Ord + Clone> WorkQueue<W> {
    /// Adds `work`, due at `at`; an item that is already due earlier stays so.
    pub fn add(&mut self, work: W, at: Timestamp) {
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

    /// Takes the next item that is due and not being processed; no caller gets it again before [`WorkQueue::done`].
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

    /// Ends the processing of `work`; after a failure the item is added again, with a growing delay.
    pub fn done(&mut self, work: W, failed: bool, now: Timestamp) {
        self.busy.remove(&work);
        if !failed {
            self.failures.remove(&work);
            return;
        }
        let failures = self.failures.entry(work.clone()).or_default();
        let delay = RETRY.delay_after(*failures);
        *failures = failures.saturating_add(1);
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        self.add(work, now.saturating_add(delay).unwrap_or(Timestamp::MAX));
    }

    /// Ends the processing of `work` without a result: nothing was tried, so its failures still count.
    pub fn put_back(&mut self, work: &W) {
        self.busy.remove(work);
    }

    /// Removes `work` and its failures; processing that is under way is not affected.
    pub fn forget(&mut self, work: &W) {
        self.failures.remove(work);
        if let Some(at) = self.due_of.remove(work) {
            self.due.remove(&(at, work.clone()));
        }
    }

    /// Returns the number of items that wait.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Returns when the next item is due that is not being processed.
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

    /// `add a 5`, `take 7 a` (or `-`), `done a 7`, `fail a 7`, `back a`, `next 5` (or `-`).
    fn check(script: &str) {
        let mut queue: WorkQueue<String> = WorkQueue::default();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split(' ').collect();
            let time = |text: &str| at(text.parse().expect("a time"));
            match words.as_slice() {
                ["add", work, when] => queue.add((*work).to_owned(), time(when)),
                ["take", when, expected] => {
                    let taken = queue.take(time(when));
                    assert_eq!(taken.as_deref().unwrap_or("-"), *expected, "{line} in {script}");
                }
                ["done", work, when] => queue.done((*work).to_owned(), false, time(when)),
                ["fail", work, when] => queue.done((*work).to_owned(), true, time(when)),
                ["back", work] => queue.put_back(&(*work).to_owned()),
                ["next", expected] => {
                    let next = queue
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
        check("add a 9\n add a 5\n add a 7\n take 4 -\n take 5 a\n take 9 -\n next -");
        check("add b 5\n add a 5\n take 5 a\n take 5 b\n take 5 -");
    }

    #[test]
    fn an_item_that_is_being_processed_is_not_given_out_twice() {
        check("add a 1\n take 1 a\n add a 2\n take 3 -\n next -\n done a 3\n next 2\n take 3 a");
    }

    #[test]
    fn failures_come_back_later_each_time() {
        check(
            "add a 0\n take 0 a\n fail a 0\n take 9 -\n take 10 a\n fail a 10\n next 30\n take 30 a\n done a 30\n next -",
        );
        // An item that is put back keeps its failures.
        check("add a 0\n take 0 a\n fail a 0\n take 10 a\n back a\n add a 10\n take 10 a\n fail a 10\n next 30");
    }
}
