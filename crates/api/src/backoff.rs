//! Exponential backoff: how long to wait after so many failures in a row.

use std::time::Duration;

/// Delays that begin with a first one, double with each failure in a row, and never exceed a longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// A backoff before the first failure.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            failures: 0,
        }
    }

    /// Returns the delay that follows after `failures` earlier ones: the first delay after none.
    pub fn delay_after(&self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }

    /// Counts a failure and returns the delay until the next attempt.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.delay_after(self.failures);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// Counts a failure and returns the delay until the next attempt, longer by up to `jitter` of itself: a number in
    /// 0..=1 that the caller draws, so that many clients do not come back at the same moment.
    pub fn next_delay_with_jitter(&mut self, jitter: f64) -> Duration {
        let delay = self.next_delay();
        delay.saturating_add(delay.mul_f64(if jitter > 0.0 { jitter.min(1.0) } else { 0.0 }))
    }

    /// Forgets the failures after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(65));
        let delays: Vec<u128> = (0..5).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(delays, [10, 20, 40, 65, 65]);
        backoff.reset();
        assert_eq!(backoff.next_delay().as_millis(), 10);
    }

    #[test]
    fn no_number_of_failures_overflows() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::MAX);
        assert_eq!(backoff.delay_after(31), Duration::from_secs(1 << 31));
        assert_eq!(backoff.delay_after(u32::MAX), Duration::from_secs(u64::from(u32::MAX)));
        let backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(30));
        assert_eq!(backoff.delay_after(u32::MAX), Duration::from_secs(30));
    }

    #[test]
    fn jitter_lengthens_a_delay_by_a_part_of_it() {
        for (jitter, expected) in [(0.0, 10), (0.5, 15), (1.0, 20), (7.0, 20), (-1.0, 10), (f64::NAN, 10)] {
            let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_secs(1));
            assert_eq!(backoff.next_delay_with_jitter(jitter).as_millis(), expected, "{jitter}");
        }
    }
}
