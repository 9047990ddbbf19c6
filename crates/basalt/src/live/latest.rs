//! Writes of which only the newest matters, such as statuses: coalesced by object, sent a few at a time.

use std::collections::{BTreeMap, BTreeSet};
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
    waiting: Mutex<Waiting>,
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    changes: BTreeMap<Target, Change>,
    /// What has left and is not answered yet.
    under_way: BTreeSet<Target>,
}

/// Takes writes and forgets those that a newer one for the same object replaces.
#[derive(Clone, Default)]
pub struct Latest {
    shared: Arc<Shared>,
}

impl Latest {
    /// Hands over a write; replaces an earlier one for the same object that has not left yet.
    pub fn put(&self, target: Target, change: Change) {
        self.lock().changes.insert(target, change);
        self.shared.news.notify_one();
    }

    fn put_back(&self, target: Target, change: Change) {
        self.lock().changes.entry(target).or_insert(change);
        self.shared.news.notify_one();
    }

    /// Whether a write for this object has not been answered yet.
    pub fn is_pending(&self, target: &Target) -> bool {
        let waiting = self.lock();
        waiting.changes.contains_key(target) || waiting.under_way.contains(target)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // A panic elsewhere leaves the map whole: every operation on it is one call.
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what was handed over, for ever; waits `pause` after each news so that bursts become one write. Tells `lost` of
    /// writes that were refused for good.
    pub async fn run(self, executor: Executor, pause: Duration, lost: impl Fn(Target)) {
        loop {
            self.shared.news.notified().await;
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let batch = {
                let mut waiting = self.lock();
                waiting.under_way = waiting.changes.keys().cloned().collect();
                std::mem::take(&mut waiting.changes)
            };
            let mut outcomes = stream::iter(batch)
                .map(|(target, change)| send(executor.clone(), target, change))
                .buffer_unordered(IN_FLIGHT_MAX);
            let mut again = Vec::new();
            while let Some((target, outcome)) = outcomes.next().await {
                self.lock().under_way.remove(&target);
                match outcome {
                    Outcome::Written => {}
                    Outcome::Lost => lost(target),
                    Outcome::Again(change) => again.push((target, change)),
                }
            }
            if !again.is_empty() {
                tokio::time::sleep(RETRY_PAUSE).await;
                for (target, change) in again {
                    self.put_back(target, change);
                }
            }
        }
    }
}

/// What became of a write.
enum Outcome {
    Written,
    /// Refused, and another try would get the same answer.
    Lost,
    /// Worth another try.
    Again(Change),
}

/// Sends one write.
async fn send(executor: Executor, target: Target, change: Change) -> (Target, Outcome) {
    let (_, failure) = executor.run(vec![change.clone()]).await;
    let outcome = match failure {
        None => Outcome::Written,
        // Another incarnation or version: whoever decided will decide again.
        Some(ExecuteError::Outdated { .. }) => Outcome::Lost,
        Some(ExecuteError::Refused { source, .. }) if is_final(&source) => {
            tracing::warn!(object = ?target, error = &source as &dyn std::error::Error, "status refused");
            Outcome::Lost
        }
        Some(error) => {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "status not written, will try again"
            );
            Outcome::Again(change)
        }
    };
    (target, outcome)
}

/// Whether trying again would get the same answer.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code < 500 && status.code != 429)
}
