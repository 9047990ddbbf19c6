//! The scheduler's face to operators: whether it lives, whether it decides, and its numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::News;
use super::metrics::Metrics;
use crate::live::frame::Sink;
use crate::live::watches::Watches;

/// The loop answers between two cycles; a loop that takes longer is told of by its absence.
const PATIENCE: Duration = Duration::from_secs(5);
/// The text form of OpenMetrics.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A loop that has not moved for so long beyond its longest period is stuck.
const STUCK_AFTER: Duration = Duration::from_mins(1);
/// Caches that are not complete so long after the start will not be.
const COMPLETE_WITHIN: Duration = Duration::from_mins(5);

/// When the loop moved last.
#[derive(Debug)]
pub(super) struct Pulse {
    begun: Instant,
    last_ms: AtomicU64,
    stuck_after: Duration,
}

impl Pulse {
    /// The pulse of a loop that moves at least so often.
    pub(super) fn new(period_max: Duration) -> Self {
        Self {
            begun: Instant::now(),
            last_ms: AtomicU64::new(0),
            stuck_after: STUCK_AFTER + period_max,
        }
    }

    /// The loop moves.
    pub(super) fn beat(&self) {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
    }

    /// How long ago that was.
    fn rests(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.begun.elapsed().saturating_sub(last)
    }
}

/// A handle on a running scheduler.
#[derive(Clone)]
pub struct Face {
    pub(super) metrics: Arc<Metrics>,
    pub(super) sink: Sink<News>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) watches: Arc<Watches>,
}

impl Face {
    /// Why it would be better to begin anew, if so.
    pub fn trouble(&self) -> Option<String> {
        let rests = self.pulse.rests();
        if rests > self.pulse.stuck_after {
            return Some(format!("the loop has not moved for {} seconds", rests.as_secs()));
        }
        let broken = self.watches.broken();
        if !broken.is_empty() {
            return Some(format!("the watches of {} fail for minutes", broken.join(", ")));
        }
        let late = !self.is_ready() && self.pulse.begun.elapsed() > COMPLETE_WITHIN;
        late.then(|| "the caches are not complete for minutes".to_owned())
    }

    /// Whether all caches are complete.
    pub fn is_ready(&self) -> bool {
        self.metrics.ready.get() == 1
    }

    /// All metrics as text.
    pub async fn metrics(&self) -> String {
        let (answer, numbers) = oneshot::channel();
        // Not handed in means that the sender is dropped, which ends the wait.
        let _handed_in = self.sink.try_send(News::Numbers(answer));
        let numbers = tokio::time::timeout(PATIENCE, numbers).await;
        self.metrics.encode(numbers.ok().and_then(Result::ok).as_ref())
    }

    /// `/healthz`, `/livez`, `/readyz` and `/metrics`.
    pub fn router(self) -> Router {
        let state = |ready: bool| {
            let face = self.clone();
            move || {
                let answer = if let Some(trouble) = face.trouble() {
                    (StatusCode::INTERNAL_SERVER_ERROR, trouble)
                } else if ready && !face.is_ready() {
                    let text = "the caches are not complete yet".to_owned();
                    (StatusCode::SERVICE_UNAVAILABLE, text)
                } else {
                    (StatusCode::OK, "ok".to_owned())
                };
                async move { answer }
            }
        };
        let (healthy, alive, ready) = (state(false), state(false), state(true));
        let metrics = move || {
            let face = self.clone();
            async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], face.metrics().await).into_response() }
        };
        Router::new()
            .route("/healthz", get(healthy))
            .route("/livez", get(alive))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::frame::Frame;
    use tower::ServiceExt;

    async fn codes(face: &Face) -> [u16; 2] {
        let mut codes = [0; 2];
        for (code, path) in codes.iter_mut().zip(["/healthz", "/readyz"]) {
            let request = http::Request::get(path).body(axum::body::Body::empty());
            let answer = face.clone().router().oneshot(request.expect("a request")).await;
            *code = answer.expect("an answer").status().as_u16();
        }
        codes
    }

    async fn minutes(count: u64) {
        tokio::time::sleep(Duration::from_mins(count)).await;
    }

    /// The loop moves once a minute, and now.
    async fn beats(face: &Face, count: u64) {
        for _ in 0..count {
            minutes(1).await;
            face.pulse.beat();
        }
        face.pulse.beat();
    }

    #[tokio::test(start_paused = true)]
    async fn a_scheduler_in_trouble_says_so() {
        let frame: Frame<News> = Frame::default();
        let face = Face {
            metrics: Arc::default(),
            sink: frame.sink(),
            pulse: Arc::new(Pulse::new(Duration::from_secs(1))),
            watches: frame.watches(),
        };
        assert_eq!(codes(&face).await, [200, 503], "it has just begun");
        beats(&face, 2).await;
        assert_eq!(codes(&face).await, [200, 503], "a large cluster takes its time");
        minutes(2).await;
        assert_eq!(codes(&face).await, [500, 500], "it is stuck");
        beats(&face, 0).await;
        assert_eq!(codes(&face).await, [200, 503], "it moves again");
        beats(&face, 2).await;
        assert_eq!(codes(&face).await, [500, 500], "the caches never come");
        face.metrics.ready.set(1);
        assert_eq!(codes(&face).await, [200, 200], "all is well");
        for _ in 0..7 {
            face.watches.failed("Pod");
            beats(&face, 1).await;
        }
        assert_eq!(codes(&face).await, [500, 500], "it decides on an old view");
        face.watches.works("Pod");
        assert_eq!(codes(&face).await, [200, 200], "all is well again");
    }
}
