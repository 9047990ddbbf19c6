//! So many a second, with some in store.

use jiff::{SignedDuration, Timestamp};

/// A bucket of permissions that fills with time, up to one second's worth.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: f64,
    left: f64,
    at: Timestamp,
}

impl Bucket {
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            per_second: f64::from(per_second),
            left: f64::from(per_second),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// Takes one, if there is one.
    pub(super) fn take(&mut self, now: Timestamp) -> bool {
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.left = (self.left + passed * self.per_second).min(self.per_second);
        self.at = now;
        let some = self.left >= 1.0;
        if some {
            self.left -= 1.0;
        }
        some
    }

    /// When it is worth asking again: when a tenth of a second's worth is there.
    pub(super) fn next(&self) -> Timestamp {
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
        let mut bucket = Bucket::new(10);
        let at = |millisecond: i64| Timestamp::from_millisecond(1_000_000 + millisecond).expect("a time");
        let taken = |bucket: &mut Bucket, now| (0..100).filter(|_| bucket.take(now)).count();
        assert_eq!(taken(&mut bucket, at(0)), 10);
        assert_eq!(taken(&mut bucket, at(0)), 0);
        assert_eq!(bucket.next(), at(100));
        assert_eq!(taken(&mut bucket, at(500)), 5);
        assert_eq!(
            taken(&mut bucket, at(60_000)),
            10,
            "no more than one second's worth is kept"
        );
    }
}
