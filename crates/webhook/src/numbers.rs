//! What the webhook counts.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

type Labels = [(&'static str, &'static str); 3];

/// The webhook's numbers; a handle that can be copied.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    registry: Arc<Registry>,
    reviews: Family<Labels, Counter>,
    seconds: Histogram,
}

impl Default for Numbers {
    fn default() -> Self {
        let mut registry = Registry::default();
        let reviews: Family<Labels, Counter> = Family::default();
        registry.register(
            "basalt_admission_reviews",
            "Reviews by kind, by stage, and by what was answered: allowed, denied, or failed without a decision",
            reviews.clone(),
        );
        // From a tenth of a millisecond to three seconds.
        let seconds = Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        registry.register("basalt_admission_seconds", "How long reviews took", seconds.clone());
        Self {
            registry: Arc::new(registry),
            reviews,
            seconds,
        }
    }
}

impl Numbers {
    /// A review was answered: allowed or denied, or with a failure.
    pub(super) fn reviewed(
        &self,
        resource: &'static str,
        stage: &'static str,
        answer: Result<bool, StatusCode>,
        took: Duration,
    ) {
        let answer = match answer {
            Ok(true) => "allowed",
            Ok(false) => "denied",
            Err(_) => "failed",
        };
        let labels = [("resource", resource), ("stage", stage), ("answer", answer)];
        self.reviews.get_or_create_owned(&labels).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// Numbers of every kind.
    pub(super) fn example() -> Self {
        let numbers = Self::default();
        numbers.reviewed("jobs", "validate", Ok(true), Duration::ZERO);
        numbers
    }

    /// All numbers as text.
    pub(super) fn encode(&self) -> String {
        let mut text = String::new();
        // Writing into a text cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
