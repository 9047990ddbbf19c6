//! The scheduler's face to operators: whether it lives, whether it decides, and its numbers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::News;
use super::metrics::Metrics;
use crate::event_loop::Sink;
use crate::liveness::Vitals;

/// The loop answers between two cycles; a loop that takes longer is told of by its absence.
const PATIENCE: Duration = Duration::from_secs(5);
/// The text form of OpenMetrics.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A handle on a running scheduler.
#[derive(Clone)]
pub struct Face {
    pub(super) metrics: Arc<Metrics>,
    pub(super) sink: Sink<News>,
    pub(super) vitals: Arc<Vitals>,
}

impl Face {
    /// How the loop fares.
    pub fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    /// All metrics as text.
    pub async fn metrics(&self) -> String {
        let (answer, numbers) = oneshot::channel();
        // Not handed in means that the sender is dropped, which ends the wait.
        let _handed_in = self.sink.try_send(News::Numbers(answer));
        let numbers = tokio::time::timeout(PATIENCE, numbers).await;
        self.metrics.encode(numbers.ok().and_then(Result::ok).as_ref())
    }
}
