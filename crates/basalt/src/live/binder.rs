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
    fn new(bind: Bind, error: &kube::Error) -> Self {
        let certain = matches!(error, kube::Error::Api(status) if status.code < 500);
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
                .map(|bind| Failed::new(bind.clone(), &error))
                .collect(),
        }
    }

    async fn bind_singly(&self, transaction: &Transaction) -> Vec<Failed> {
        stream::iter(transaction.binds.clone())
            .map(|bind| async move {
                let (namespace, name) = split_key(&bind.pod);
                let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
                let failure = self.post(&path, &binding(&bind)).await.err();
                failure.map(|error| Failed::new(bind, &error))
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
    let (_, name) = split_key(&bind.pod);
    json!({"metadata": {"name": name, "uid": &*bind.uid}, "target": {"kind": "Node", "name": &*bind.node}})
}
