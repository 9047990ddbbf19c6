//! Closed-loop load: N writers, each with one write in flight, for a while.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde::Serialize;

/// What N writers achieved.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Load {
    /// How many wrote at the same time.
    pub(crate) writers: usize,
    /// How many writes were acknowledged per second.
    pub(crate) writes_per_s: f64,
    /// The median time of a write.
    pub(crate) p50_ms: f64,
    /// 99 of 100 writes took at most this.
    pub(crate) p99_ms: f64,
}

/// How long the same thing took, many times.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spread {
    /// How often it was measured.
    pub(crate) count: usize,
    /// The median, in microseconds.
    pub(crate) p50_us: f64,
    /// 99 of 100 took at most this.
    pub(crate) p99_us: f64,
    /// The slowest.
    pub(crate) max_us: f64,
}

impl Spread {
    /// The spread of some times.
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |part: f64| {
            let place = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
            times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        Self {
            count: times.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            max_us: at(1.0),
        }
    }
}

/// One of those who write at the same time.
pub(crate) trait Writer: Send + 'static {
    /// Does its `count`-th write.
    fn write(&mut self, count: u64) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Lets `writers` tasks write one after the other for `time`, and counts. The first tenth of the time warms up and does
/// not count.
pub(crate) async fn load<W: Writer>(
    writers: usize,
    time: Duration,
    writer: impl Fn(usize) -> W,
) -> anyhow::Result<Load> {
    let begin = Instant::now() + time / 10;
    let end = begin + time;
    let one = |number: usize| {
        let mut writer = writer(number);
        let work = async move {
            let mut times = Vec::new();
            let mut before = Instant::now();
            for count in 0.. {
                if before >= end {
                    break;
                }
                writer.write(count).await?;
                let after = Instant::now();
                if after >= begin && after < end {
                    // Small, for there are millions of them.
                    times.push(u32::try_from((after - before).as_micros()).unwrap_or(u32::MAX));
                }
                before = after;
            }
            anyhow::Ok(times)
        };
        tokio::spawn(work)
    };
    let mut times = Vec::new();
    for writer in try_join_all((0..writers).map(one)).await? {
        times.extend(writer?);
    }
    times.sort_unstable();
    let quantile = |part: f64| {
        let at = ((times.len() as f64 * part) as usize).min(times.len().saturating_sub(1));
        times.get(at).map_or(0.0, |time| f64::from(*time) / 1e3)
    };
    Ok(Load {
        writers,
        writes_per_s: times.len() as f64 / time.as_secs_f64(),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
    })
}
