//! A token bucket: a limit of events per second with a burst of one second.

use jiff::{SignedDuration, Timestamp};

/// A bucket of tokens that fills with time, up to the tokens of one second.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    per_second: f64,
    left: f64,
    at: Timestamp,
}

impl TokenBucket {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            left: f64::from(per_second),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: Timestamp) -> bool {
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.left = (self.left + passed * self.per_second).min(self.per_second);
        self.at = now;
        let is_available = self.left >= 1.0;
        if is_available {
            self.left -= 1.0;
        }
        is_available
    }

    /// Returns when it is worth asking again: when the tokens of a tenth of a second are there.
    pub(crate) fn next_refill(&self) -> Timestamp {
        let lacking = ((self.per_second / 10.0).max(1.0) - self.left).max(0.0);
        let wait = SignedDuration::try_from_secs_f64(lacking / self.per_second).unwrap_or_default();
        self.at.saturating_add(wait).unwrap_or(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_rate() {
        let mut bucket = TokenBucket::new(10);
        let at = |millisecond: i64| Timestamp::from_millisecond(1_000_000 + millisecond).expect("a time");
        let taken = |bucket: &mut TokenBucket, now| (0..100).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, at(0)), 10);
        assert_eq!(taken(&mut bucket, at(0)), 0);
        assert_eq!(bucket.next_refill(), at(100));
        assert_eq!(taken(&mut bucket, at(500)), 5);
        assert_eq!(taken(&mut bucket, at(60_000)), 10, "a burst is one second long");
    }
}
