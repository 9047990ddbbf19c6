//! The scheduler's face to operators: whether it lives, whether it decides, and its numbers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::sync::oneshot;

use super::News;
use super::metrics::Metrics;
use crate::live::frame::Sink;

/// The loop answers between two cycles; a loop that takes longer is told of by its absence.
const PATIENCE: Duration = Duration::from_secs(5);
/// The text form of OpenMetrics.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A handle on a running scheduler.
#[derive(Clone)]
pub struct Face {
    pub(super) metrics: Arc<Metrics>,
    pub(super) sink: Sink<News>,
}

impl Face {
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
        let ready = {
            let face = self.clone();
            move || {
                let ready = face.is_ready();
                async move {
                    if ready {
                        (StatusCode::OK, "ok")
                    } else {
                        (StatusCode::SERVICE_UNAVAILABLE, "the caches are not complete yet")
                    }
                }
            }
        };
        let metrics = move || {
            let face = self.clone();
            async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], face.metrics().await).into_response() }
        };
        Router::new()
            .route("/healthz", get(|| async { "ok" }))
            .route("/livez", get(|| async { "ok" }))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
    }
}
