//! Whether a connection is idle.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The requests in progress on one connection, and when the last one ended.
#[derive(Debug)]
pub(super) struct ConnectionActivity(Mutex<ActivityState>);

#[derive(Debug)]
struct ActivityState {
    in_progress: usize,
    last: Instant,
}

impl Default for ConnectionActivity {
    fn default() -> Self {
        Self(Mutex::new(ActivityState {
            in_progress: 0,
            last: Instant::now(),
        }))
    }
}

impl ConnectionActivity {
    /// Resolves when no request was in progress for as long as `limit`; without a limit it never resolves.
    pub(super) async fn idle(&self, limit: Option<Duration>) {
        let Some(limit) = limit else {
            return std::future::pending().await;
        };
        loop {
            let due = {
                let state = self.0.lock();
                let since = if state.in_progress > 0 {
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

/// Marks a request as in progress until it is dropped.
pub(super) struct RequestInProgress(Arc<ConnectionActivity>);

impl RequestInProgress {
    pub(super) fn new(activity: &Arc<ConnectionActivity>) -> Self {
        activity.0.lock().in_progress += 1;
        Self(Arc::clone(activity))
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.in_progress = state.in_progress.saturating_sub(1);
        state.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests come at these seconds and take so long; when is the connection idle, with a limit of 60?
    async fn check(requests: &[(u64, u64)], expected: u64) {
        let (activity, begun) = (Arc::new(ConnectionActivity::default()), Instant::now());
        for &(at, takes) in requests {
            let activity = Arc::clone(&activity);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(at)).await;
                let _busy = RequestInProgress::new(&activity);
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
