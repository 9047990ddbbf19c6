//! Writes of which only the newest matters, such as statuses: coalesced by object, sent a few at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use basalt_controllers::{Change, Target};
use futures::stream::{self, StreamExt};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::executor::{ExecuteError, Executor};

/// Writes under way at the same time.
const IN_FLIGHT_MAX: usize = 32;
/// Pause after a failed write, so that a server in trouble is not hammered.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// How writes leave.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Wait after each news, so that bursts become one write.
    pub pause: Duration,
    /// Writes a second at most.
    pub per_second: u32,
    /// Objects that may wait; a write for one more is dropped.
    pub waiting_max: usize,
}

impl Pace {
    /// As fast as they come: for what somebody waits for.
    pub const AT_ONCE: Self = Self {
        pause: Duration::ZERO,
        per_second: u32::MAX,
        waiting_max: usize::MAX,
    };

    /// As fast as they come, after a pause.
    pub const fn after(pause: Duration) -> Self {
        Self { pause, ..Self::AT_ONCE }
    }

    /// So many leave at once: a tenth of a second's worth.
    fn batch(self) -> usize {
        (self.per_second / 10).max(1) as usize
    }
}

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
    /// Writes that found no room.
    dropped: u64,
}

/// Takes writes and forgets those that a newer one for the same object replaces.
#[derive(Clone)]
pub struct Latest {
    shared: Arc<Shared>,
    pace: Pace,
}

impl Latest {
    /// An outlet with nothing in it.
    pub fn new(pace: Pace) -> Self {
        Self {
            shared: Arc::default(),
            pace,
        }
    }

    /// Hands over a write; replaces an earlier one for the same object that has not left yet.
    pub fn put(&self, target: Target, change: Change) {
        {
            let mut waiting = self.lock();
            if waiting.changes.len() >= self.pace.waiting_max && !waiting.changes.contains_key(&target) {
                waiting.dropped += 1;
                return;
            }
            waiting.changes.insert(target, change);
        }
        self.shared.news.notify_one();
    }

    /// Whether a write for this object has not been answered yet.
    pub fn is_pending(&self, target: &Target) -> bool {
        let waiting = self.lock();
        waiting.changes.contains_key(target) || waiting.under_way.contains(target)
    }

    /// How many objects wait for their write, and how many writes were dropped.
    pub fn backlog(&self) -> (usize, u64) {
        let waiting = self.lock();
        (waiting.changes.len() + waiting.under_way.len(), waiting.dropped)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // A panic elsewhere leaves the map whole: every operation on it is one call.
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what was handed over, for ever. Tells `lost` of writes that were refused for good.
    pub async fn run(self, executor: Executor, lost: impl Fn(Target)) {
        loop {
            self.shared.news.notified().await;
            if !self.pace.pause.is_zero() {
                tokio::time::sleep(self.pace.pause).await;
            }
            loop {
                let batch = self.take();
                if batch.is_empty() {
                    break;
                }
                let seconds = batch.len() as f64 / f64::from(self.pace.per_second);
                let next = Instant::now() + Duration::from_secs_f64(seconds);
                self.send_all(&executor, batch, &lost).await;
                tokio::time::sleep_until(next).await;
            }
        }
    }

    fn take(&self) -> BTreeMap<Target, Change> {
        let mut waiting = self.lock();
        let rest = match waiting.changes.keys().nth(self.pace.batch()).cloned() {
            Some(first) => waiting.changes.split_off(&first),
            None => BTreeMap::new(),
        };
        let batch = std::mem::replace(&mut waiting.changes, rest);
        waiting.under_way = batch.keys().cloned().collect();
        batch
    }

    async fn send_all(&self, executor: &Executor, batch: BTreeMap<Target, Change>, lost: &impl Fn(Target)) {
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
            let mut waiting = self.lock();
            for (target, change) in again {
                waiting.changes.entry(target).or_insert(change);
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
