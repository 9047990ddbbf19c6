//! Carries out the binds of one transaction: as one commit where the server can do that, else in parallel.

use basalt_engine::plan::{Bind, Transaction, split_key};
use futures::stream::{self, StreamExt};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

/// Binds under way at the same time, where they are single requests.
const IN_FLIGHT_MAX: usize = 64;

/// How binds reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// All binds of a gang in one store transaction.
    Gang,
    /// One request for each pod.
    Single,
}

/// Binds pods.
#[derive(Clone)]
pub struct Binder {
    client: Client,
    manner: Manner,
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
        Ok(Self { client, manner })
    }

    /// Binds all pods of `transaction`; returns those that were not bound, with the reason.
    pub async fn bind(&self, transaction: &Transaction) -> Vec<(Bind, kube::Error)> {
        match self.manner {
            Manner::Gang => self.bind_gang(transaction).await,
            Manner::Single => self.bind_singly(transaction).await,
        }
    }

    async fn bind_gang(&self, transaction: &Transaction) -> Vec<(Bind, kube::Error)> {
        let (namespace, _) = split_key(&transaction.pod_group);
        let items: Vec<Value> = transaction.binds.iter().map(binding).collect();
        let path = format!("/apis/basalt.sh/v1alpha1/namespaces/{namespace}/gangbindings");
        let result = self.post(&path, &json!({"items": items})).await;
        match result {
            Ok(()) => Vec::new(),
            Err(error) => {
                let told = error.to_string();
                let refused = |bind: &Bind| (bind.clone(), kube::Error::Service(told.clone().into()));
                transaction.binds.iter().map(refused).collect()
            }
        }
    }

    async fn bind_singly(&self, transaction: &Transaction) -> Vec<(Bind, kube::Error)> {
        stream::iter(transaction.binds.clone())
            .map(|bind| async move {
                let (namespace, name) = split_key(&bind.pod);
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
                let failure = self.post(&path, &binding(&bind)).await.err();
                failure.map(|error| (bind, error))
            })
            .buffer_unordered(IN_FLIGHT_MAX)
            .filter_map(std::future::ready)
            .collect()
            .await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<(), kube::Error> {
        let request = Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(kube::Error::HttpError)?;
        self.client.request_text(request).await.map(|_| ())
    }
}

/// A Binding; the uid keeps it from reaching a later pod of the same name.
fn binding(bind: &Bind) -> Value {
    let (namespace, name) = split_key(&bind.pod);
    json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": &*bind.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": &*bind.node},
    })
}
