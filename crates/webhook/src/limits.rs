//! What one caller, or all of them together, can ask of the webhook.

#[cfg(test)]
mod tests;

use std::time::Duration;

use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http::{StatusCode, header};
use http_body_util::BodyExt;

use super::serve::Failure;

/// The largest review. An API server stores no object of more than half of it, and sends at most two.
pub const REVIEW_MAX: usize = 3 * 1024 * 1024;

/// How much of a review that is too large is read before it is refused.
const DRAINED_MAX: usize = 4 * REVIEW_MAX;

/// The largest head of a request.
pub(super) const HEAD_MAX: u32 = 64 * 1024;

/// Connections at the same time. An API server needs one or a few.
pub(super) const CONNECTIONS_MAX: usize = 1024;

/// A connection on which nothing is asked is ended after this: who holds them for nothing holds up others.
pub(super) const IDLE_MAX: Duration = Duration::from_mins(2);

/// How long a handshake or the head of a request may take.
pub(super) const GREETING: Duration = Duration::from_secs(5);

/// How much one process takes on.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Reviews at the same time; the next is told to come back.
    pub reviews: usize,
    /// How long a review may take, its body included.
    pub patience: Duration,
    /// How long the body of a review may take to arrive.
    pub body: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            reviews: 256,
            patience: Duration::from_secs(8),
            body: Duration::from_secs(3),
        }
    }
}

impl Limits {
    /// How long this review may take: an API server says in `query` how long it waits, and an answer should come before.
    pub(super) fn patience(&self, query: Option<&str>) -> Duration {
        let mut pairs = query.unwrap_or_default().split('&');
        let waits = pairs.find_map(|pair| pair.strip_prefix("timeout=")?.strip_suffix('s')?.parse::<u64>().ok());
        let waits = waits.map(|seconds| Duration::from_secs(seconds).mul_f64(0.9));
        waits.map_or(self.patience, |waits| waits.min(self.patience))
    }
}

/// The body of a review, if it is small enough and comes soon enough.
pub(super) async fn body(request: Request, limits: &Limits) -> Result<Bytes, Failure> {
    let too_large = || {
        let why = format!("a review has at most {REVIEW_MAX} bytes");
        Failure(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let mut body = request.into_body();
    let (mut kept, mut size) = (BytesMut::new(), 0_usize);
    let read = async {
        // The rest of one that is too large is read as well, within bounds: over HTTP/2 an answer is lost to a caller who
        // is still sending.
        while size <= DRAINED_MAX
            && let Some(frame) = body.frame().await
        {
            let data = frame.map(|frame| frame.into_data().unwrap_or_default())?;
            size = size.saturating_add(data.len());
            if size <= REVIEW_MAX {
                kept.extend_from_slice(&data);
            }
        }
        Ok::<_, axum::Error>(())
    };
    let read = tokio::time::timeout(limits.body, read).await;
    if size.max(announced.unwrap_or_default()) > REVIEW_MAX {
        return Err(too_large());
    }
    match read {
        Ok(Ok(())) => Ok(kept.freeze()),
        Ok(Err(error)) => Err(Failure(StatusCode::BAD_REQUEST, format!("the body broke off: {error}"))),
        Err(_) => {
            let why = format!("the body did not come within {:?}", limits.body);
            Err(Failure(StatusCode::REQUEST_TIMEOUT, why))
        }
    }
}
