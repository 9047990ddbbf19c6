//! Carries out evictions, with disruption budgets respected.
//!
//! Evictions are not changes of an object, so they do not pass the executor; they leave through its writer.

use std::sync::Arc;

use basalt_api::{ObjectRef, resource_kind};
use basalt_controllers::Change;
use basalt_engine::plan::{Eviction, split_key};
use basalt_scheduler::EvictionOutcome;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::write::executor::Executor;
use crate::write::writer::JSON;

/// Evictions under way at the same time.
const IN_FLIGHT_MAX: usize = 64;

/// Returns the slots for evictions under way at the same time.
pub(super) fn eviction_slots() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(IN_FLIGHT_MAX))
}

/// Evicts one pod, when its turn has come.
pub(super) async fn evict(
    executor: Executor,
    permits: Arc<Semaphore>,
    eviction: &Eviction,
    message: &str,
) -> EvictionOutcome {
    // The semaphore is never closed; without a permit we would only be less polite.
    let _permit = permits.acquire().await.ok();
    announce(&executor, eviction, "True", "PreemptionByScheduler", message).await;
    let outcome = match request(&executor, eviction).await {
        Ok(()) => EvictionOutcome::Evicted,
        Err(kube::Error::Api(status)) => match status.code {
            // Gone, or another pod under the name.
            404 | 409 => EvictionOutcome::Evicted,
            429 => EvictionOutcome::Blocked(status.message),
            500.. => EvictionOutcome::Unknown(status.message),
            _ => EvictionOutcome::Failed(status.message),
        },
        Err(error) => EvictionOutcome::Unknown(error.to_string()),
    };
    if let EvictionOutcome::Blocked(why) | EvictionOutcome::Failed(why) = &outcome {
        announce(&executor, eviction, "False", "EvictionRefused", why).await;
    }
    outcome
}

/// Says on the pod that it is about to be disrupted, or no longer. That is a courtesy to whoever made the pod: the
/// eviction does not depend on it.
async fn announce(executor: &Executor, eviction: &Eviction, status: &str, reason: &str, message: &str) {
    let (namespace, name) = split_key(&eviction.pod);
    let target = ObjectRef::new(resource_kind::POD, namespace, name);
    let condition = json!({
        "type": "DisruptionTarget", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now(),
    });
    let change = Change::Strategic {
        target,
        subresource: Some("status".to_owned()),
        uid: eviction.uid.to_string(),
        patch: json!({"status": {"conditions": [condition]}}),
    };
    if let (_, Some(error)) = executor.run(vec![change]).await {
        tracing::debug!(pod = &*eviction.pod, %error, "the condition of an eviction was not written");
    }
}

/// The time as conditions have it.
pub(super) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

async fn request(executor: &Executor, eviction: &Eviction) -> Result<(), kube::Error> {
    let (namespace, name) = split_key(&eviction.pod);
    let options = json!({"preconditions": {"uid": &*eviction.uid}});
    let body: Value = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": options,
    });
    let pod = ObjectRef::new(resource_kind::POD, namespace, name);
    let writer = executor.writer();
    let answer = writer
        .send_json(Method::POST, &pod.path(Some("eviction")), JSON, &body)
        .await;
    match answer {
        // A server that has no evictions has no budgets either.
        Err(kube::Error::Api(status)) if status.code == 405 => {
            let path = pod.path(None);
            writer.send_json(Method::DELETE, &path, JSON, &options).await.map(drop)
        }
        answer => answer.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use basalt_engine::plan::Purpose;

    use super::*;

    const MESSAGE: &str = "evicted because of reclaim";

    /// The server answers an eviction so, and a plain delete so: what is its outcome?
    async fn check_outcome(eviction: Answer, delete: Answer, expected: &str) {
        let text = format!("{eviction:?} {delete:?}");
        let client = scripted_server::client(move |method, path| match *method {
            Method::POST if path.ends_with("/eviction") => eviction.clone(),
            Method::DELETE => delete.clone(),
            _ => Answer::Object(json!({})),
        });
        let asked = Eviction {
            pod: "a/b".into(),
            uid: "u".into(),
            node: "n".into(),
            purpose: Purpose::Shuffle,
        };
        let permits = Arc::new(Semaphore::new(1));
        let outcome = evict(Executor::new(client, "test"), permits, &asked, "evicted").await;
        assert_eq!(outcome.label(), expected, "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_of_an_eviction_by_its_answer() {
        let (yes, no) = (|| Answer::Object(json!({})), Answer::Refusal);
        check_outcome(yes(), no(500), "done").await;
        for (code, expected) in [
            (404, "done"),
            (409, "done"),
            (429, "blocked"),
            (403, "failed"),
            (500, "unknown"),
            (504, "unknown"),
        ] {
            check_outcome(no(code), no(403), expected).await;
        }
        check_outcome(Answer::Silence, no(403), "unknown").await;
        check_outcome(no(405), yes(), "done").await;
        check_outcome(no(405), no(403), "failed").await;
        check_outcome(no(405), Answer::Silence, "unknown").await;
    }

    use crate::scripted_server::{self, Answer};
    use basalt_apiserver::http::{Server, ServerOptions, index};
    use basalt_apiserver::store::{Backend, Options as StoreOptions, Store};
    use kube::Client;

    async fn call(client: &Client, method: Method, path: &str, kind: &str, body: Value) -> Value {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, kind)
            .body(body.to_string().into_bytes());
        let answer = client.request(request.expect("a request")).await;
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// A running, ready pod `p` with label `app: p`; returns its uid.
    async fn running_pod(client: &Client) -> String {
        let post = Method::POST;
        let pod = json!({
            "metadata": {"name": "p", "labels": {"app": "p"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        });
        let pods = "/api/v1/namespaces/default/pods";
        let pod = call(client, post, pods, "application/json", pod).await;
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let merge = "application/merge-patch+json";
        call(client, Method::PATCH, &format!("{pods}/p/status"), merge, status).await;
        pod["metadata"]["uid"].as_str().expect("a uid").to_owned()
    }

    async fn condition(client: &Client) -> Value {
        let path = "/api/v1/namespaces/default/pods/p";
        let pod = call(client, Method::GET, path, "application/json", Value::Null).await;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ours = conditions
            .into_iter()
            .find(|condition| condition["type"] == "DisruptionTarget");
        json!({"condition": ours.unwrap_or_default(), "leaving": pod["metadata"]["deletionTimestamp"].is_string()})
    }

    #[tokio::test]
    async fn budgets_are_respected_and_refusals_are_taken_back() {
        let options = StoreOptions {
            indexer: index,
            ..StoreOptions::new(Backend::Memory)
        };
        let store = Store::open(options).expect("a store");
        let server = Server::new(store, ServerOptions::default());
        server.bootstrap().await.expect("a server");
        let client = server.client("test");
        let uid = running_pod(&client).await;
        let budget = json!({
            "metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "p"}}},
        });
        let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        call(&client, Method::POST, budgets, "application/json", budget).await;
        let executor = Executor::new(client.clone(), "volcano");
        let permits = Arc::new(Semaphore::new(1));
        let eviction = |uid: &str| Eviction {
            pod: "default/p".into(),
            uid: uid.into(),
            node: "n".into(),
            purpose: Purpose::Reclaim {
                beneficiary: "default/g".into(),
            },
        };

        let outcome = evict(executor.clone(), Arc::clone(&permits), &eviction(&uid), MESSAGE).await;
        assert!(
            matches!(&outcome, EvictionOutcome::Blocked(why) if why.contains("disruption budget")),
            "{outcome:?}"
        );
        let found = condition(&client).await;
        assert_eq!(
            (&found["condition"]["status"], &found["leaving"]),
            (&json!("False"), &json!(false))
        );

        let budget = format!("{budgets}/b");
        call(&client, Method::DELETE, &budget, "application/json", json!({})).await;
        let outcome = evict(executor.clone(), Arc::clone(&permits), &eviction("another"), MESSAGE).await;
        assert_eq!(outcome, EvictionOutcome::Evicted, "that pod is gone already");
        assert_eq!(
            condition(&client).await["leaving"],
            json!(false),
            "and this one is not it"
        );

        let outcome = evict(executor, permits, &eviction(&uid), MESSAGE).await;
        assert_eq!(outcome, EvictionOutcome::Evicted);
        let found = condition(&client).await;
        assert_eq!(found["leaving"], json!(true));
        let message = found["condition"]["message"].as_str().unwrap_or_default();
        assert_eq!(message, MESSAGE, "{found}");
    }
}
