//! Events live for a while only.

use std::time::Duration;

use futures::{StreamExt, stream};
use serde::Deserialize;

use crate::http::{Call, DeleteOptions, Server, delete_one};
use crate::store::Object;

/// How many events are deleted at the same time.
const WIDTH: usize = 64;
/// Shortest and longest time between two rounds.
const ROUND_MIN: Duration = Duration::from_secs(1);
const ROUND_MAX: Duration = Duration::from_mins(1);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    metadata: Created,
    last_timestamp: Option<String>,
    event_time: Option<String>,
    series: Option<Series>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    creation_timestamp: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    last_observed_time: Option<String>,
}

/// Runs for as long as the server.
pub(super) async fn run(server: Server) {
    let ttl = server.inner.options.event_ttl;
    let round = (ttl / 10).clamp(ROUND_MIN, ROUND_MAX);
    let mut ticks = tokio::time::interval(round);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        sweep(&server, ttl).await;
    }
}

async fn sweep(server: &Server, ttl: Duration) {
    let registry = server.registry();
    let Some(kind) = registry.find("", "v1", "events") else {
        return;
    };
    let now = server.now();
    let listing = server.store().list(&kind.resource, None);
    let is_old = |object: &&std::sync::Arc<Object>| {
        let age = last_seen(object).map(|seen| now.duration_since(seen));
        age.is_some_and(|age| age > jiff::SignedDuration::try_from(ttl).unwrap_or(jiff::SignedDuration::MAX))
    };
    let old = listing.objects.iter().filter(is_old).map(|object| {
        let call = Call::internal(server, kind, &object.key.namespace, &object.key.name);
        (call, object.revision.to_string())
    });
    let old: Vec<(Call, String)> = old.collect();
    stream::iter(old)
        .for_each_concurrent(WIDTH, |(call, revision)| async move {
            // An event that somebody else deleted, or that came back to life, is none of our business.
            let options = DeleteOptions {
                revision: Some(revision),
                ..DeleteOptions::default()
            };
            let _gone = delete_one(&call, &call.name, &options, &mut Vec::new()).await;
        })
        .await;
}

fn last_seen(object: &Object) -> Option<jiff::Timestamp> {
    let times: Times = serde_json::from_slice(&object.body).ok()?;
    let series = times.series.and_then(|series| series.last_observed_time);
    [
        times.metadata.creation_timestamp,
        times.last_timestamp,
        times.event_time,
        series,
    ]
    .into_iter()
    .flatten()
    .filter_map(|time| time.parse::<jiff::Timestamp>().ok())
    .max()
}
