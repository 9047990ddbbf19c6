//! Heartbeats: the Lease of each served node is renewed once in a period, evenly spread over it.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};

use crate::lease;

/// Name and uid of a node.
type Served = (Arc<str>, Arc<str>);
/// Who wants to know which nodes are served.
pub(crate) type Asker = oneshot::Sender<Vec<Served>>;

/// Renewals leave in groups, this far apart, so that thousands of nodes do not mean thousands of timers.
const TICK: Duration = Duration::from_millis(50);
/// How many may be on their way: a slow server gets fewer, not more.
const IN_FLIGHT_MAX: usize = 32;
/// How long to wait while there are no nodes.
const IDLE: Duration = Duration::from_secs(1);

/// Renews until nobody answers which nodes there are.
pub(crate) async fn beat(client: Client, period: Duration, ask: mpsc::Sender<Asker>) {
    loop {
        let begun = Instant::now();
        let (answer, nodes) = oneshot::channel();
        if ask.send(answer).await.is_err() {
            return;
        }
        let Ok(nodes) = nodes.await else { return };
        if nodes.is_empty() {
            sleep(IDLE.min(period)).await;
            continue;
        }
        let failed = round(&client, period, &nodes).await;
        if failed > 0 {
            warn!(
                failed,
                of = nodes.len(),
                "fake kubelet: Leases could not be renewed; trying again"
            );
        }
        sleep_until(begun + period).await;
    }
}

/// One renewal of each; how many failed.
async fn round(client: &Client, period: Duration, nodes: &[Served]) -> usize {
    let begun = Instant::now();
    let (mut requests, mut failed) = (JoinSet::new(), 0);
    for (tick, group) in (0_u32..).zip(nodes.chunks(share(nodes.len(), period))) {
        sleep_until(begun + TICK.saturating_mul(tick)).await;
        for (name, uid) in group {
            if requests.len() >= IN_FLIGHT_MAX {
                failed += usize::from(requests.join_next().await.is_some_and(lost));
            }
            requests.spawn(renew(client.clone(), Arc::clone(name), Arc::clone(uid)));
        }
    }
    while let Some(done) = requests.join_next().await {
        failed += usize::from(lost(done));
    }
    failed
}

/// How many leave at each tick, so that all have left a little before the period is over.
fn share(nodes: usize, period: Duration) -> usize {
    let ticks = period.as_millis() / TICK.as_millis();
    let ticks = usize::try_from(ticks * 9 / 10).unwrap_or(usize::MAX).max(1);
    nodes.div_ceil(ticks).max(1)
}

fn lost(done: Result<bool, tokio::task::JoinError>) -> bool {
    !done.unwrap_or(false)
}

async fn renew(client: Client, name: Arc<str>, uid: Arc<str>) -> bool {
    let owner = (!uid.is_empty()).then_some(&*uid);
    let done = lease::renew(&client, &name, owner).await;
    if let Err(error) = &done {
        debug!(%error, node = %name, "fake kubelet: a Lease could not be renewed");
    }
    done.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_leave_within_the_period() {
        for (nodes, millis) in [
            (1_usize, 10_000),
            (999, 10_000),
            (10_000, 10_000),
            (7, 10),
            (100_000, 15_000),
        ] {
            let period = Duration::from_millis(millis);
            let ticks = nodes.div_ceil(share(nodes, period));
            assert!(
                ticks == 1 || TICK * u32::try_from(ticks).unwrap() <= period,
                "{nodes} {millis}"
            );
        }
    }
}
