//! Whether anything is asked on a connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What goes on on one connection.
#[derive(Debug)]
pub(super) struct Activity(Mutex<State>);

#[derive(Debug)]
struct State {
    under_way: usize,
    last: Instant,
}

impl Default for Activity {
    fn default() -> Self {
        Self(Mutex::new(State {
            under_way: 0,
            last: Instant::now(),
        }))
    }
}

impl Activity {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves it whole: every operation on it is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves when nothing was asked for so long; never, if there is no limit.
    pub(super) async fn idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        loop {
            let due = {
                let state = self.lock();
                let since = if state.under_way > 0 {
                    Instant::now()
                } else {
                    state.last
                };
                since + limit
            };
            if due <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(due).await;
        }
    }
}

/// A request that is being answered.
pub(super) struct Busy(Arc<Activity>);

impl Busy {
    pub(super) fn new(activity: &Arc<Activity>) -> Self {
        activity.lock().under_way += 1;
        Self(Arc::clone(activity))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.under_way = state.under_way.saturating_sub(1);
        state.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests come at these seconds and take so long; when is the connection idle, with a limit of 60?
    async fn check(requests: &[(u64, u64)], expected: u64) {
        let (activity, begun) = (Arc::new(Activity::default()), Instant::now());
        for &(at, takes) in requests {
            let activity = Arc::clone(&activity);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(at)).await;
                let _busy = Busy::new(&activity);
                tokio::time::sleep(Duration::from_secs(takes)).await;
            });
        }
        activity.idle(Some(Duration::from_mins(1))).await;
        assert_eq!(begun.elapsed().as_secs(), expected, "{requests:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_nothing_was_asked_for_a_while() {
        check(&[], 60).await;
        check(&[(10, 1)], 71).await;
        check(&[(10, 1), (50, 30)], 140).await;
        check(&[(61, 1)], 60).await;
    }
}
