//! Carries out the binds of one transaction: as one commit where the server can do that, else in parallel.

use std::sync::Arc;

use basalt_engine::plan::{Bind, Transaction, split_key};
use futures::stream::{FuturesUnordered, StreamExt};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::executor::request_text;

/// Binds of all transactions under way at the same time, where they are single requests.
const IN_FLIGHT_MAX: usize = 64;

/// How binds reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// All binds of a gang in one store transaction.
    Gang,
    /// One request for each pod.
    Single,
}

/// A bind that failed.
#[derive(Debug)]
pub struct Failed {
    /// Which.
    pub bind: Bind,
    /// What the server said.
    pub why: String,
    /// Whether the server surely did not do it; otherwise only the watch can tell.
    pub certain: bool,
}

impl Failed {
    fn new(bind: Bind, error: &kube::Error, manner: Manner) -> Self {
        // A conflict of a single bind may be with an earlier one of ours whose answer was lost.
        let refuses = |code: u16| code < 500 && (code != 409 || manner == Manner::Gang);
        let certain = matches!(error, kube::Error::Api(status) if refuses(status.code));
        Self {
            bind,
            why: error.to_string(),
            certain,
        }
    }
}

/// Binds pods.
#[derive(Clone)]
pub struct Binder {
    client: Client,
    manner: Manner,
    permits: Arc<Semaphore>,
}

impl Binder {
    /// Asks the server what it offers.
    pub async fn connect(client: Client) -> Result<Self, kube::Error> {
        let request = Request::get("/apis/basalt.sh/v1alpha1")
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        let manner = match client.request::<Value>(request).await {
            Ok(_) => Manner::Gang,
            Err(kube::Error::Api(status)) if status.code == 404 => Manner::Single,
            Err(error) => return Err(error),
        };
        Ok(Self {
            client,
            manner,
            permits: Arc::new(Semaphore::new(IN_FLIGHT_MAX)),
        })
    }

    /// Binds all pods of `transaction`; returns those that were not, or not surely, bound.
    pub async fn bind(&self, transaction: &Transaction) -> Vec<Failed> {
        match self.manner {
            Manner::Gang => self.bind_gang(transaction).await,
            Manner::Single => self.bind_singly(transaction).await,
        }
    }

    async fn bind_gang(&self, transaction: &Transaction) -> Vec<Failed> {
        let (namespace, _) = split_key(&transaction.pod_group);
        let items: Vec<Value> = transaction.binds.iter().map(binding).collect();
        let path = format!("/apis/basalt.sh/v1alpha1/namespaces/{namespace}/gangbindings");
        match self.post(&path, &json!({"items": items})).await {
            Ok(()) => Vec::new(),
            Err(error) => transaction
                .binds
                .iter()
                .map(|bind| Failed::new(bind.clone(), &error, Manner::Gang))
                .collect(),
        }
    }

    async fn bind_singly(&self, transaction: &Transaction) -> Vec<Failed> {
        let binds = transaction.binds.iter().cloned();
        let under_way: FuturesUnordered<_> = binds
            .map(|bind| async move {
                // The semaphore is never closed; without a permit we would only be less polite.
                let _permit = self.permits.acquire().await.ok();
                let (namespace, name) = split_key(&bind.pod);
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
                let failure = self.post(&path, &binding(&bind)).await.err();
                failure.map(|error| Failed::new(bind, &error, Manner::Single))
            })
            .collect();
        under_way.filter_map(std::future::ready).collect().await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<(), kube::Error> {
        let request = Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        request_text(&self.client, request).await.map(drop)
    }
}

/// A Binding; the uid keeps it from reaching a later pod of the same name.
fn binding(bind: &Bind) -> Value {
    let (_, name) = split_key(&bind.pod);
    json!({"metadata": {"name": name, "uid": &*bind.uid}, "target": {"kind": "Node", "name": &*bind.node}})
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn only_a_refusal_is_certain() {
        let check = |error: &kube::Error, single: bool, gang: bool| {
            for (manner, expected) in [(Manner::Single, single), (Manner::Gang, gang)] {
                let bind = Bind {
                    pod: "a/p".into(),
                    uid: "u".into(),
                    node: "n".into(),
                };
                assert_eq!(Failed::new(bind, error, manner).certain, expected, "{error} {manner:?}");
            }
        };
        let answer = |code: u16| kube::Error::Api(Box::new(Status::failure("no", "no").with_code(code)));
        check(&answer(403), true, true);
        check(&answer(404), true, true);
        check(&answer(409), false, true);
        check(&answer(500), false, false);
        check(&kube::Error::Service("no answer".into()), false, false);
    }
}
