//! The right to write: whoever leads has it, for as long as nobody else can.
//!
//! The lease's own thread grants it, everything that writes asks for it just before a request leaves. It ends by the
//! clock alone, so that a loop or a thread that is held up cannot write too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// For ever.
const UNLIMITED: u64 = u64::MAX;

/// What a part of the system may do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Another leads: look on, and write nothing.
    StandsBy,
    /// Decide and write.
    Leads,
    /// Bring to an end what is under way, and decide nothing any more.
    Retires,
}

#[derive(Debug)]
struct Inner {
    begun: Instant,
    /// Milliseconds after the beginning until which requests may leave.
    leave_ms: AtomicU64,
    /// Milliseconds after the beginning from which another may lead: until then requests must be answered.
    end_ms: AtomicU64,
    standing: watch::Sender<Standing>,
}

/// A handle on the right to write; clones are one.
#[derive(Debug, Clone)]
pub struct Tenure(Arc<Inner>);

impl Tenure {
    fn new(standing: Standing, until_ms: u64) -> Self {
        Self(Arc::new(Inner {
            begun: Instant::now(),
            leave_ms: AtomicU64::new(until_ms),
            end_ms: AtomicU64::new(until_ms),
            standing: watch::Sender::new(standing),
        }))
    }

    /// The right of who has no rivals.
    pub fn unlimited() -> Self {
        Self::new(Standing::Leads, UNLIMITED)
    }

    /// No right yet.
    pub fn awaited() -> Self {
        Self::new(Standing::StandsBy, 0)
    }

    fn ms(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.0.begun);
        u64::try_from(since.as_millis()).unwrap_or(UNLIMITED)
    }

    /// Requests may leave until `leave`; from `end` on another may lead.
    pub fn grant(&self, leave: Instant, end: Instant) {
        self.0.end_ms.store(self.ms(end), Ordering::SeqCst);
        self.0.leave_ms.store(self.ms(leave), Ordering::SeqCst);
        self.stand(Standing::Leads);
    }

    /// Nothing may be written any more.
    pub fn revoke(&self) {
        self.0.leave_ms.store(0, Ordering::SeqCst);
        self.stand(Standing::StandsBy);
    }

    /// Nothing is to be decided any more; what is under way may still be written.
    pub fn retire(&self) {
        self.0.standing.send_replace(Standing::Retires);
    }

    /// Retirement is for ever.
    fn stand(&self, standing: Standing) {
        self.0.standing.send_if_modified(|now| {
            let changes = *now != Standing::Retires && *now != standing;
            if changes {
                *now = standing;
            }
            changes
        });
    }

    /// How long a request that leaves now may take; none: it must not leave.
    pub fn patience(&self) -> Option<Duration> {
        let now = self.ms(Instant::now());
        let leave = self.0.leave_ms.load(Ordering::SeqCst);
        let end = self.0.end_ms.load(Ordering::SeqCst);
        (now < leave).then(|| Duration::from_millis(end.saturating_sub(now)))
    }

    /// What may be done now.
    pub fn standing(&self) -> Standing {
        let standing = *self.0.standing.borrow();
        if standing == Standing::Leads && self.patience().is_none() {
            Standing::StandsBy
        } else {
            standing
        }
    }

    /// Tells when the standing changes.
    pub fn changes(&self) -> watch::Receiver<Standing> {
        self.0.standing.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `g LEAVE END` grants so many seconds from now, `v` revokes, `r` retires, a number is a wait in seconds.
    async fn check(script: &str, standing: Standing, patience: Option<u64>) {
        let tenure = Tenure::awaited();
        for step in script.split(", ") {
            let words: Vec<&str> = step.split(' ').collect();
            let seconds = |at: usize| Duration::from_secs(words[at].parse().expect("seconds"));
            match words[0] {
                "g" => tenure.grant(Instant::now() + seconds(1), Instant::now() + seconds(2)),
                "v" => tenure.revoke(),
                "r" => tenure.retire(),
                _ => tokio::time::sleep(seconds(0)).await,
            }
        }
        assert_eq!(tenure.standing(), standing, "{script}");
        assert_eq!(tenure.patience(), patience.map(Duration::from_secs), "{script}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_right_to_write_ends_by_the_clock() {
        use Standing::{Leads, Retires, StandsBy};
        check("0", StandsBy, None).await;
        check("g 10 15", Leads, Some(15)).await;
        check("g 10 15, 9", Leads, Some(6)).await;
        check("g 10 15, 10", StandsBy, None).await;
        check("g 10 15, 9, g 10 15, 9", Leads, Some(6)).await;
        check("g 10 15, v", StandsBy, None).await;
        check("g 10 15, r", Retires, Some(15)).await;
        check("g 10 15, r, g 10 15, 3", Retires, Some(12)).await;
        check("g 10 15, r, v", Retires, None).await;
        check("g 10 15, v, g 10 15", Leads, Some(15)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_no_rivals_leads_for_ever() {
        let tenure = Tenure::unlimited();
        tokio::time::sleep(Duration::from_hours(10_000)).await;
        assert_eq!(tenure.standing(), Standing::Leads);
        assert!(tenure.patience().is_some());
    }
}
