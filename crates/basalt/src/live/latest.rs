//! Writes of which only the newest matters, such as statuses: coalesced by object, sent a few at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use basalt_controllers::{Change, Target};
use futures::stream::{self, StreamExt};
use tokio::sync::Notify;

use super::executor::{ExecuteError, Executor};

/// Writes under way at the same time.
const IN_FLIGHT_MAX: usize = 32;
/// Pause after a failed write, so that a server in trouble is not hammered.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Shared {
    waiting: Mutex<BTreeMap<Target, Change>>,
    news: Notify,
}

/// Takes writes and forgets those that a newer one for the same object replaces.
#[derive(Clone, Default)]
pub struct Latest {
    shared: Arc<Shared>,
}

impl Latest {
    /// Hands over a write; replaces an earlier one for the same object that has not left yet.
    pub fn put(&self, target: Target, change: Change) {
        self.lock().insert(target, change);
        self.shared.news.notify_one();
    }

    fn put_back(&self, target: Target, change: Change) {
        self.lock().entry(target).or_insert(change);
        self.shared.news.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Target, Change>> {
        // A panic elsewhere leaves the map whole: every operation on it is one call.
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what was handed over, for ever; waits `pause` after each news so that bursts become one write.
    pub async fn run(self, executor: Executor, pause: Duration) {
        loop {
            self.shared.news.notified().await;
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let batch = std::mem::take(&mut *self.lock());
            let failed: Vec<_> = stream::iter(batch)
                .map(|(target, change)| send(executor.clone(), target, change))
                .buffer_unordered(IN_FLIGHT_MAX)
                .filter_map(std::future::ready)
                .collect()
                .await;
            if !failed.is_empty() {
                tokio::time::sleep(RETRY_PAUSE).await;
                for (target, change) in failed {
                    self.put_back(target, change);
                }
            }
        }
    }
}

/// Sends one write; gives it back if it is worth another try.
async fn send(executor: Executor, target: Target, change: Change) -> Option<(Target, Change)> {
    let (_, failure) = executor.run(vec![change.clone()]).await;
    match failure {
        // Another incarnation or version: whoever decided will decide again when the watch shows it.
        None | Some(ExecuteError::Outdated { .. }) => None,
        Some(ExecuteError::Refused { source, .. }) if is_final(&source) => {
            tracing::warn!(object = ?target, error = &source as &dyn std::error::Error, "status refused");
            None
        }
        Some(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "status not written, will try again"
            );
            Some((target, change))
        }
    }
}

/// Whether trying again would get the same answer.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code < 500 && status.code != 429)
}
