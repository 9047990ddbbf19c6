//! The right to write: whoever leads has it, for as long as nobody else can.
//!
//! The lease's own thread grants it, everything that writes asks for it just before a request leaves. It ends by the
//! clock alone, so that a loop or a thread that is held up cannot write too late. A right that is granted again after it
//! had ended is another term: others may have led in between, and what was decided before must not leave any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// For ever.
const UNLIMITED: u64 = u64::MAX;
/// Of no term in particular.
const ANY_TERM: u64 = u64::MAX;

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
    /// How often the right was granted anew.
    term: AtomicU64,
    standing: watch::Sender<Standing>,
}

/// A handle on the right to write; clones are one.
#[derive(Debug, Clone)]
pub struct Tenure {
    inner: Arc<Inner>,
    /// The term that this handle is bound to.
    bound_to: Arc<AtomicU64>,
}

impl Tenure {
    fn new(standing: Standing, until_ms: u64) -> Self {
        let inner = Arc::new(Inner {
            begun: Instant::now(),
            leave_ms: AtomicU64::new(until_ms),
            end_ms: AtomicU64::new(until_ms),
            term: AtomicU64::new(0),
            standing: watch::Sender::new(standing),
        });
        let bound_to = Arc::new(AtomicU64::new(ANY_TERM));
        Self { inner, bound_to }
    }

    /// Another handle, for another life of who writes: not bound to any term yet.
    #[must_use]
    pub fn anew(&self) -> Self {
        let bound_to = Arc::new(AtomicU64::new(ANY_TERM));
        Self {
            inner: Arc::clone(&self.inner),
            bound_to,
        }
    }

    /// From now on only the present term counts for this handle and its clones.
    pub fn bind(&self) {
        let term = self.inner.term.load(Ordering::SeqCst);
        self.bound_to.store(term, Ordering::SeqCst);
    }

    fn is_of_this_term(&self) -> bool {
        let bound_to = self.bound_to.load(Ordering::SeqCst);
        bound_to == ANY_TERM || bound_to == self.inner.term.load(Ordering::SeqCst)
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
        let since = at.saturating_duration_since(self.inner.begun);
        u64::try_from(since.as_millis()).unwrap_or(UNLIMITED)
    }

    /// Requests may leave until `leave`; from `end` on another may lead.
    pub fn grant(&self, leave: Instant, end: Instant) {
        let still_had_it = self.ms(Instant::now()) < self.inner.leave_ms.load(Ordering::SeqCst);
        if !still_had_it {
            // Before the right is there: nobody may find it with the number of the term before.
            self.inner.term.fetch_add(1, Ordering::SeqCst);
        }
        self.inner.end_ms.store(self.ms(end), Ordering::SeqCst);
        self.inner.leave_ms.store(self.ms(leave), Ordering::SeqCst);
        self.stand(Standing::Leads);
    }

    /// Nothing may be written any more.
    pub fn revoke(&self) {
        self.inner.leave_ms.store(0, Ordering::SeqCst);
        self.stand(Standing::StandsBy);
    }

    /// Nothing is to be decided any more; what is under way may still be written.
    pub fn retire(&self) {
        self.inner.standing.send_replace(Standing::Retires);
    }

    /// Retirement is for ever.
    fn stand(&self, standing: Standing) {
        self.inner.standing.send_if_modified(|now| {
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
        let leave = self.inner.leave_ms.load(Ordering::SeqCst);
        let end = self.inner.end_ms.load(Ordering::SeqCst);
        (now < leave && self.is_of_this_term()).then(|| Duration::from_millis(end.saturating_sub(now)))
    }

    /// What may be done now.
    pub fn standing(&self) -> Standing {
        let standing = *self.inner.standing.borrow();
        if standing == Standing::Leads && self.patience().is_none() {
            Standing::StandsBy
        } else {
            standing
        }
    }

    /// Tells when the standing changes.
    pub fn changes(&self) -> watch::Receiver<Standing> {
        self.inner.standing.subscribe()
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

    /// The right is granted, and a handle bound to it; then `script`, and it is granted again. May what was decided before
    /// leave, and what another life decides?
    async fn check_terms(script: &str, before: bool) {
        let tenure = Tenure::awaited();
        let grant = || {
            tenure.grant(
                Instant::now() + Duration::from_secs(10),
                Instant::now() + Duration::from_secs(15),
            );
        };
        let old = tenure.anew();
        assert!(old.patience().is_none());
        grant();
        old.bind();
        assert!(old.patience().is_some());
        match script {
            "revoked" => tenure.revoke(),
            seconds => tokio::time::sleep(Duration::from_secs(seconds.parse().expect("seconds"))).await,
        }
        grant();
        let new = old.anew();
        assert_eq!(new.standing(), Standing::Leads);
        new.bind();
        assert!(new.patience().is_some());
        assert_eq!(old.patience().is_some(), before, "{script}");
        let expected = if before { Standing::Leads } else { Standing::StandsBy };
        assert_eq!(old.standing(), expected, "{script}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_decided_in_another_term_does_not_leave() {
        check_terms("0", true).await;
        check_terms("9", true).await;
        check_terms("10", false).await;
        check_terms("3600", false).await;
        check_terms("revoked", false).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_no_rivals_leads_for_ever() {
        let tenure = Tenure::unlimited();
        tokio::time::sleep(Duration::from_hours(10_000)).await;
        assert_eq!(tenure.standing(), Standing::Leads);
        assert!(tenure.patience().is_some());
    }
}
