//! The vital signs of a loop: whether it moves, what it still does not know, and which of its watches fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::watch::interruptions::Watches;

/// A loop that has not moved for so long beyond its longest period is stuck.
const STUCK_AFTER: Duration = Duration::from_mins(1);
/// Caches that are not complete so long after the start will not be.
const COMPLETE_WITHIN: Duration = Duration::from_mins(5);

/// What a loop shows of itself.
#[derive(Debug)]
pub struct Vitals {
    begun: Instant,
    last_ms: AtomicU64,
    stuck_after: Duration,
    watches: Arc<Watches>,
    complete: AtomicBool,
    missing: Mutex<Vec<String>>,
}

impl Vitals {
    /// The signs of a loop that moves at least so often.
    pub fn new(period_max: Duration, watches: Arc<Watches>) -> Self {
        Self {
            begun: Instant::now(),
            last_ms: AtomicU64::new(0),
            stuck_after: STUCK_AFTER + period_max,
            watches,
            complete: AtomicBool::new(false),
            missing: Mutex::default(),
        }
    }

    /// The loop moves.
    pub fn beat(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    /// The kinds of which not everything is known yet. Once all was known, that counts for good.
    pub fn lacks(&self, missing: Vec<String>) {
        if missing.is_empty() {
            self.complete.store(true, Ordering::Relaxed);
        } else if !self.complete.load(Ordering::Relaxed) {
            *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = missing;
        }
    }

    /// Why it would be better to begin anew, if so.
    pub fn trouble(&self) -> Option<String> {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        let rests = self.begun.elapsed().saturating_sub(last);
        if rests > self.stuck_after {
            return Some(format!("the loop has not moved for {} seconds", rests.as_secs()));
        }
        let broken = self.watches.broken();
        if !broken.is_empty() {
            return Some(format!("the watches of {} fail for minutes", broken.join(", ")));
        }
        let unready = self.unready().filter(|_| self.begun.elapsed() > COMPLETE_WITHIN);
        unready.map(|why| format!("{why}, for minutes"))
    }

    /// Why nothing can be decided yet, if so.
    pub fn unready(&self) -> Option<String> {
        if self.complete.load(Ordering::Relaxed) {
            return None;
        }
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match missing.as_slice() {
            [] => "the caches are not complete yet".to_owned(),
            kinds => format!("not everything of {} is known yet", kinds.join(", ")),
        })
    }
}
