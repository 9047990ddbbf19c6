//! Eviction: a deletion that disruption budgets may forbid.

use axum::body::Body;
use basalt_apimachinery::json::{integer_at, string_at, strings_at, value_at};
use basalt_apimachinery::selector::LabelSelector;
use http::Response;
use serde_json::Value;

use crate::http::metadata;
use crate::http::registry::custom_resources;
use crate::http::request::body;
use crate::http::request::call::Call;
use crate::http::response::presentation;
use crate::http::response::status::{ApiError, ApiResult};
use crate::http::subresources::binding::done;
use crate::http::verbs::delete::{DeleteOptions, delete_one};
use crate::store::{Object, Store};

/// Answers a POST of an Eviction: a deletion that disruption budgets may forbid.
pub(crate) async fn evict(call: &Call, bytes: &[u8]) -> ApiResult<Response<Body>> {
    let eviction = body::decode(&call.headers, bytes, "Eviction")?.value;
    let name = string_at(&eviction, "/metadata/name");
    if !name.is_empty() && name != &*call.name {
        return Err(ApiError::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let given = |pointer: &str| value_at(&eviction, pointer).and_then(Value::as_str).map(str::to_owned);
    let options = DeleteOptions {
        grace: integer_at(&eviction, "/deleteOptions/gracePeriodSeconds"),
        uid: given("/deleteOptions/preconditions/uid"),
        revision: given("/deleteOptions/preconditions/resourceVersion"),
        propagation: None,
        dry_run: call.query.dry_run || strings_at(&eviction, "/deleteOptions/dryRun").any(|word| word == "All"),
    };
    let plain = Call {
        sub: None,
        ..call.copy()
    };
    // In a task of its own: the next eviction must wait until this one is done, also when the client goes away.
    let task = tokio::spawn(async move { weigh_and_delete(&plain, &options).await });
    task.await.map_err(|error| ApiError::internal(error.to_string()))??;
    Ok(done())
}

async fn weigh_and_delete(call: &Call, options: &DeleteOptions) -> ApiResult<()> {
    // One at a time, so that two evictions never spend the same disruption.
    let _one = call.server.inner.evictions.lock().await;
    let pod = call
        .store()
        .get(&call.key(&call.name))
        .ok_or_else(|| call.not_found())?;
    check_budgets(call, &pod)?;
    delete_one(call, &call.name, options, &mut Vec::new()).await.map(drop)
}

fn check_budgets(call: &Call, pod: &Object) -> ApiResult<()> {
    let value = presentation::parse(pod)?;
    // Pods that do not run disrupt nothing when they go.
    if matches!(string_at(&value, "/status/phase"), "Pending" | "Succeeded" | "Failed") || metadata::is_deleting(&value)
    {
        return Ok(());
    }
    let budgets = call.store().list("poddisruptionbudgets.policy", Some(&call.namespace));
    let mut matching = Vec::new();
    for budget in &budgets.objects {
        let budget = presentation::parse(budget)?;
        let selector = value_at(&budget, "/spec/selector").map(LabelSelector::from_object);
        if let Some(Ok(selector)) = selector
            && selector.matches(&pod.facets.labels)
        {
            matching.push((budget, selector));
        }
    }
    match matching.as_slice() {
        [] => Ok(()),
        [(budget, selector)] => check_budget(call, &value, budget, selector),
        _ => {
            let why =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            Err(ApiError::new(500, "InternalError", why))
        }
    }
}

fn check_budget(call: &Call, pod: &Value, budget: &Value, selector: &LabelSelector) -> ApiResult<()> {
    let Weight { healthy, needed, .. } = weigh(call.store(), &call.namespace, budget, selector)?;
    let always = string_at(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
    // A pod that is not healthy is no loss where the budget is met, or where it says so.
    if !custom_resources::condition(pod, "Ready") && (always || healthy >= needed) {
        return Ok(());
    }
    if healthy > needed {
        return Ok(());
    }
    let name = string_at(budget, "/metadata/name");
    let cause = format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently");
    let why = "Cannot evict pod as it would violate the pod's disruption budget.";
    Err(ApiError::new(429, "TooManyRequests", why).cause("DisruptionBudget", &cause, ""))
}

/// How a budget stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// Pods that it covers and that have not ended.
    pub(crate) total: i64,
    /// Those that are ready and not on their way out.
    pub(crate) healthy: i64,
    /// How many must be healthy.
    pub(crate) needed: i64,
}

/// Counts the pods of a budget.
pub(crate) fn weigh(store: &Store, namespace: &str, budget: &Value, selector: &LabelSelector) -> ApiResult<Weight> {
    let listing = store.list("pods", Some(namespace));
    let (mut total, mut healthy) = (0_i64, 0_i64);
    for pod in listing
        .objects
        .iter()
        .filter(|pod| selector.matches(&pod.facets.labels))
    {
        let pod = presentation::parse(pod)?;
        if matches!(string_at(&pod, "/status/phase"), "Succeeded" | "Failed") {
            continue;
        }
        total += 1;
        healthy += i64::from(custom_resources::condition(&pod, "Ready") && !metadata::is_deleting(&pod));
    }
    Ok(Weight {
        total,
        healthy,
        needed: needed(budget, total),
    })
}

/// How many healthy pods a budget wants of `total`; percentages round up.
fn needed(budget: &Value, total: i64) -> i64 {
    let amount = |value: &Value| match value {
        Value::String(text) => {
            let percent = text
                .strip_suffix('%')
                .and_then(|digits| digits.parse::<i64>().ok())
                .unwrap_or_default();
            percent.clamp(0, 100).saturating_mul(total).saturating_add(99) / 100
        }
        other => other.as_i64().unwrap_or_default(),
    };
    match (
        value_at(budget, "/spec/minAvailable"),
        value_at(budget, "/spec/maxUnavailable"),
    ) {
        (Some(minimum), _) => amount(minimum),
        (None, Some(maximum)) => total.saturating_sub(amount(maximum)).max(0),
        (None, None) => total,
    }
}
