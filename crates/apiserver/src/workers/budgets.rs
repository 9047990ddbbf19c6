//! The status of disruption budgets: how many of their pods are healthy, and how many may go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use basalt_apimachinery::json::{string_at, value_at};
use basalt_apimachinery::selector::LabelSelector;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::change;
use super::feed::{Change, Feed};
use crate::http::{Call, Server, Sub, weigh};

const BUDGETS: &str = "poddisruptionbudgets.policy";

/// Pods change in crowds; budgets are counted once for each crowd.
const CROWD: Duration = Duration::from_millis(50);

/// Runs for as long as the server.
pub(super) async fn run(server: Server) {
    let mut pods = Feed::new(server.store(), "pods");
    let mut budgets = Feed::new(server.store(), BUDGETS);
    let mut touched: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut due = Instant::now();
    loop {
        let change = tokio::select! {
            change = pods.next() => change,
            change = budgets.next() => change,
            () = tokio::time::sleep_until(due), if !touched.is_empty() => {
                for namespace in std::mem::take(&mut touched) {
                    count(&server, &namespace).await;
                }
                continue;
            }
        };
        if let Change::Present(object) | Change::Gone(object) = change
            && !server
                .store()
                .list(BUDGETS, Some(&object.key.namespace))
                .objects
                .is_empty()
        {
            if touched.is_empty() {
                due = Instant::now() + CROWD;
            }
            touched.insert(object.key.namespace.clone());
        }
    }
}

async fn count(server: &Server, namespace: &str) {
    let registry = server.registry();
    let Some(kind) = registry.find("policy", "v1", "poddisruptionbudgets") else {
        return;
    };
    for object in server.store().list(BUDGETS, Some(namespace)).objects {
        let budget: Value = serde_json::from_slice(&object.body).unwrap_or_default();
        let Some(Ok(selector)) = value_at(&budget, "/spec/selector").map(LabelSelector::from_object) else {
            continue;
        };
        let Ok(weight) = weigh(server.store(), namespace, &budget, &selector) else {
            continue;
        };
        let status = json!({
            "currentHealthy": weight.healthy, "desiredHealthy": weight.needed, "expectedPods": weight.total,
            "disruptionsAllowed": weight.healthy.saturating_sub(weight.needed).max(0),
            "observedGeneration": value_at(&budget, "/metadata/generation").cloned().unwrap_or_default(),
        });
        let call = Call {
            sub: Some(Sub::Status),
            ..Call::internal(server, kind, namespace, &object.key.name)
        };
        if let Err(error) = change(&call, string_at(&budget, "/metadata/uid"), |new| {
            new["status"] = status.clone();
        })
        .await
        {
            tracing::warn!(%error, budget = string_at(&budget, "/metadata/name"), "cannot write the status of a budget");
        }
    }
}
