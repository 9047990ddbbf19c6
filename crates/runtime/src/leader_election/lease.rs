//! Who leads, by a Lease: what a candidate does next, as a function of what it saw and when.
//!
//! Nothing here has a clock or a socket. Times are durations since some beginning of this process alone. The times that a
//! Lease carries are other machines' and never looked at: a holder is gone when its record was seen unchanged for as
//! long as it promises to renew it in. A holder counts from *before* its last successful renewal was sent, and stops
//! after less than it promised. So it stops first, whatever is slow or lost.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// A time since the beginning of this process.
pub type Moment = Duration;

/// All our identities begin so; a holder whose identity does not is somebody else's scheduler.
pub const OURS: &str = "basalt_";
/// The shortest pause between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Others wait so long, after the last renewal that they saw, before they take over.
    pub duration: Duration,
    /// A holder that could not renew for so long stops.
    pub renew_deadline: Duration,
    /// Time between two renewals; who stands by looks four times as often.
    pub retry_period: Duration,
}

impl Terms {
    /// The time between two looks, and after a failed try.
    fn pause(&self) -> Duration {
        (self.retry_period / 4).max(PAUSE_MIN)
    }

    /// The promise, as a Lease carries it: never shorter than we keep it.
    pub fn seconds(&self) -> u32 {
        let whole = u32::try_from(self.duration.as_secs()).unwrap_or(u32::MAX);
        whole.saturating_add(u32::from(self.duration.subsec_nanos() > 0)).max(1)
    }
}

/// What a Lease says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// Whose it is; empty: nobody's.
    pub holder: String,
    /// How long that holder may be silent.
    pub seconds: u32,
    /// How often it changed hands.
    pub transitions: i32,
    /// Its resourceVersion.
    pub version: String,
}

/// What a candidate wants to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Read the Lease.
    Look,
    /// Write it.
    Claim(Claim),
    /// Nothing until then.
    Wait(Moment),
}

/// A write, which must be refused unless the Lease is still the one that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The version that was seen; none: there is no Lease.
    pub version: Option<String>,
    /// The new holder; empty when it is given up.
    pub holder: String,
    /// The new count of changes of hands.
    pub transitions: i32,
    /// Whether it changes hands.
    pub anew: bool,
}

/// How a step was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The Lease as it is, or as it was written.
    Record(Record),
    /// There is no such Lease.
    Missing,
    /// It is not the one that was seen any more; nothing was written.
    Conflict,
    /// Whether anything was done is not known.
    Unknown,
}

/// What is known of rivals that are not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strangers {
    /// One may hold the lease: it has to be watched for a while.
    Suspected,
    /// None holds it.
    None,
    /// This one holds it, and renews it.
    Alive(String),
}

#[derive(Debug)]
struct Seen {
    /// None: there is no Lease.
    record: Option<Record>,
    /// Since when it is so.
    since: Moment,
}

/// One that wants to lead.
#[derive(Debug)]
pub struct Candidate {
    identity: String,
    terms: Terms,
    seen: Option<Seen>,
    /// What was seen may be outdated, by our own doing.
    stale: bool,
    /// When the write was sent by which we hold it.
    held: Option<Moment>,
    /// Nothing is asked or written before.
    not_before: Moment,
    strangers: Strangers,
}

impl Candidate {
    /// A candidate that has seen nothing yet.
    pub fn new(identity: String, terms: Terms) -> Self {
        Self {
            identity,
            terms,
            seen: None,
            stale: true,
            held: None,
            not_before: Moment::ZERO,
            strangers: Strangers::Suspected,
        }
    }

    /// When the write was sent by which it leads, if it does.
    pub fn leads(&self, now: Moment) -> Option<Moment> {
        self.held.filter(|sent| now < *sent + self.terms.renew_deadline)
    }

    /// Who holds the lease, as far as is known.
    pub fn holder(&self) -> Option<&str> {
        let record = self.seen.as_ref()?.record.as_ref()?;
        Some(record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Whether somebody who is not ours holds the lease. Once it was known to be free or ours, this is no question any more.
    pub fn strangers(&self) -> &Strangers {
        &self.strangers
    }

    /// What to do now.
    pub fn next(&mut self, now: Moment) -> Step {
        if self.held.is_some() && self.leads(now).is_none() {
            self.held = None;
            self.stale = true;
        }
        let wake = self.held.map(|sent| sent + self.terms.renew_deadline);
        if now < self.not_before {
            return Step::Wait(wake.map_or(self.not_before, |wake| wake.min(self.not_before)));
        }
        let Some(seen) = self.seen.as_ref().filter(|_| !self.stale) else {
            return Step::Look;
        };
        let Some(record) = &seen.record else {
            return Step::Claim(self.claim(None));
        };
        let expires = seen.since + Duration::from_secs(u64::from(record.seconds.max(1)));
        let is_free = record.holder.is_empty() || record.holder == self.identity;
        if is_free || now >= expires {
            Step::Claim(self.claim(Some(record)))
        } else {
            Step::Look
        }
    }

    fn claim(&self, record: Option<&Record>) -> Claim {
        let anew = record.is_none_or(|record| record.holder != self.identity);
        let transitions = record.map_or(0, |record| record.transitions.saturating_add(i32::from(anew)));
        Claim {
            version: record.map(|record| record.version.clone()),
            holder: self.identity.clone(),
            transitions,
            anew,
        }
    }

    /// The write that gives it up, if it is ours.
    pub fn release(&self) -> Option<Claim> {
        let record = self.seen.as_ref()?.record.as_ref()?;
        (record.holder == self.identity).then(|| Claim {
            holder: String::new(),
            ..self.claim(Some(record))
        })
    }

    /// A look that was begun at `sent` was answered.
    pub fn looked(&mut self, sent: Moment, now: Moment, answer: Answer) {
        let record = match answer {
            Answer::Record(record) => Some(record),
            Answer::Missing => None,
            Answer::Conflict | Answer::Unknown => {
                self.not_before = now + self.terms.pause();
                return;
            }
        };
        let is_ours = record.as_ref().is_some_and(|record| record.holder == self.identity);
        if !is_ours {
            self.held = None;
        }
        self.suspect(record.as_ref(), now);
        let changes = self.seen.as_ref().is_none_or(|seen| seen.record != record);
        if changes {
            self.seen = Some(Seen { record, since: now });
        }
        self.stale = false;
        // Who leads, or may take over at once, has no reason to wait.
        let is_free = self.holder().is_none() || is_ours;
        self.not_before = if is_free { now } else { self.next_look(sent) };
    }

    /// The next look, or the end of what the holder promised, whichever comes first.
    fn next_look(&self, sent: Moment) -> Moment {
        let look = sent + self.terms.pause();
        let Some(Seen {
            record: Some(record),
            since,
        }) = &self.seen
        else {
            return look;
        };
        look.min(*since + Duration::from_secs(u64::from(record.seconds.max(1))))
    }

    fn suspect(&mut self, record: Option<&Record>, now: Moment) {
        if self.strangers != Strangers::Suspected {
            return;
        }
        let stranger = record.filter(|record| !record.holder.is_empty() && !record.holder.starts_with(OURS));
        let Some(stranger) = stranger else {
            self.strangers = Strangers::None;
            return;
        };
        let Some(Seen {
            record: Some(before),
            since,
        }) = &self.seen
        else {
            return;
        };
        if before.version != stranger.version {
            self.strangers = Strangers::Alive(stranger.holder.clone());
        } else if now >= *since + Duration::from_secs(u64::from(before.seconds.max(1))) {
            self.strangers = Strangers::None;
        }
    }

    /// A write that was begun at `sent` was answered.
    pub fn claimed(&mut self, sent: Moment, now: Moment, answer: Answer) {
        match answer {
            Answer::Record(record) => {
                self.held = (record.holder == self.identity).then_some(sent);
                self.seen = Some(Seen {
                    record: Some(record),
                    since: now,
                });
                self.stale = false;
                self.strangers = Strangers::None;
                self.not_before = sent + self.terms.retry_period;
            }
            Answer::Conflict | Answer::Missing | Answer::Unknown => {
                self.stale = true;
                self.not_before = now + self.terms.pause();
            }
        }
    }
}
