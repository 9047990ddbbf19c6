//! Which watches are interrupted, and since when.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A watch that fails for longer than this is broken.
const BROKEN_AFTER: Duration = Duration::from_mins(5);
/// Tries of a watch that fails are never further apart; one that has not failed for so long works, though nothing may happen
/// that it could tell of.
const SILENCE_MAX: Duration = Duration::from_mins(2);

/// The failures of one watch in a row.
#[derive(Debug)]
struct Interruption {
    since: Instant,
    last: Instant,
}

/// The watches that failed lately, by kind.
#[derive(Debug, Default)]
pub struct Watches(Mutex<BTreeMap<String, Interruption>>);

impl Watches {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Interruption>> {
        // A panic elsewhere leaves the map whole: every operation on it is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A watch failed; it will be tried again.
    pub fn failed(&self, kind: &str) {
        let now = Instant::now();
        let mut watches = self.lock();
        let first = Interruption { since: now, last: now };
        let watch = watches.entry(kind.to_owned()).or_insert(first);
        if now.duration_since(watch.last) > SILENCE_MAX {
            watch.since = now;
        }
        watch.last = now;
    }

    /// A watch has told of something.
    pub fn works(&self, kind: &str) {
        self.lock().remove(kind);
    }

    /// The kinds of which nothing was heard for long, because their watches fail again and again.
    pub fn broken(&self) -> Vec<String> {
        let now = Instant::now();
        let is_broken = |watch: &Interruption| {
            now.duration_since(watch.last) <= SILENCE_MAX && now.duration_since(watch.since) > BROKEN_AFTER
        };
        let watches = self.lock();
        let broken = watches.iter().filter(|(_, watch)| is_broken(watch));
        broken.map(|(kind, _)| kind.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x` is a failure, `o` a sign of life, a number so many seconds; is the watch broken at the end?
    async fn check(script: &str, expected: bool) {
        let watches = Watches::default();
        for word in script.split_whitespace() {
            match word {
                "x" => watches.failed("Pod"),
                "o" => watches.works("Pod"),
                seconds => {
                    let seconds = seconds.parse().expect("a number of seconds");
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
            }
        }
        assert_eq!(watches.broken() == ["Pod"], expected, "{script}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_is_broken_if_it_fails_again_and_again() {
        check("x", false).await;
        check("x 100 x 100 x", false).await;
        check("x 100 x 100 x 101 x", true).await;
        check("x 100 x 100 x 101 x o", false).await;
        check("x 100 x 100 x 101 x 121", false).await; // it works again, and nothing happens
        check("x 100 x 130 x 100 x", false).await;
        check("x 100 o 100 x 100 x 10 x", false).await;
    }
}
