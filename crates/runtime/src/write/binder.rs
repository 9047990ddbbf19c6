//! Carries out the binds of one transaction: as one commit where the server can do that, else in parallel.
//!
//! Binds leave through the same [`Writer`] as all other writes.

use std::time::Duration;

use basalt_api::resource_kind::{GANG_BINDING, POD, api_version_path};
use basalt_api::slim::Pod;
use basalt_engine::plan::{Bind, Transaction, split_key};
use basalt_scheduler::FailedBind;
use futures::stream::{FuturesUnordered, StreamExt};
use http::{Method, Request};
use serde_json::{Value, json};

use crate::write::writer::{JSON, Writer};

/// Pause between two questions for what the server offers.
const CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// How binds reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// All binds of a gang in one store transaction.
    Gang,
    /// One request for each pod.
    Single,
}

/// Describes a bind that failed.
fn failed_bind(bind: Bind, message: impl Into<String>, is_certain: bool) -> FailedBind {
    FailedBind {
        bind,
        message: message.into(),
        is_certain,
    }
}

/// Describes a bind that was answered with an error: a server that refuses has surely done nothing.
fn refused_bind(bind: Bind, error: &kube::Error) -> FailedBind {
    let is_certain = matches!(error, kube::Error::Api(status) if status.code < 500);
    failed_bind(bind, error.to_string(), is_certain)
}

/// Binds pods.
#[derive(Clone)]
pub struct Binder {
    writer: Writer,
    manner: Manner,
}

impl Binder {
    /// Asks the server what it offers, until it answers.
    pub async fn connect(writer: Writer) -> Result<Self, kube::Error> {
        let manner = loop {
            let request = Request::get(api_version_path(GANG_BINDING.api_version))
                .body(Vec::new())
                .map_err(kube::Error::HttpError)?;
            match writer.client().request::<Value>(request).await {
                Ok(_) => break Manner::Gang,
                Err(kube::Error::Api(status)) if status.code == 404 => break Manner::Single,
                // A server that has just begun does not know its own roles yet, and refuses everybody.
                Err(kube::Error::Api(status)) if status.code < 500 && !matches!(status.code, 401 | 403 | 429) => {
                    return Err(kube::Error::Api(status));
                }
                Err(error) => tracing::warn!(%error, "the API server does not answer, will try again"),
            }
            tokio::time::sleep(CONNECT_PAUSE).await;
        };
        Ok(Self { writer, manner })
    }

    /// Binds all pods of `transaction`; returns those that were not, or not surely, bound.
    pub async fn bind(&self, transaction: &Transaction) -> Vec<FailedBind> {
        match self.manner {
            Manner::Gang => self.bind_gang(transaction).await,
            Manner::Single => self.bind_singly(transaction).await,
        }
    }

    async fn bind_gang(&self, transaction: &Transaction) -> Vec<FailedBind> {
        let (namespace, _) = split_key(&transaction.pod_group);
        let items: Vec<Value> = transaction.binds.iter().map(binding).collect();
        let path = GANG_BINDING.collection_path(namespace);
        match self.post(&path, &json!({"items": items})).await {
            Ok(()) => Vec::new(),
            Err(error) => transaction
                .binds
                .iter()
                .map(|bind| refused_bind(bind.clone(), &error))
                .collect(),
        }
    }

    async fn bind_singly(&self, transaction: &Transaction) -> Vec<FailedBind> {
        let binds = transaction.binds.iter().cloned();
        let under_way: FuturesUnordered<_> = binds.map(|bind| self.bind_one(bind)).collect();
        under_way.filter_map(std::future::ready).collect().await
    }

    async fn bind_one(&self, bind: Bind) -> Option<FailedBind> {
        let (namespace, name) = split_key(&bind.pod);
        let path = POD.object_path(namespace, name);
        let error = self
            .post(&POD.subresource_path(namespace, name, "binding"), &binding(&bind))
            .await
            .err()?;
        match error {
            kube::Error::Api(status) if status.code == 409 => {
                let found = self.read(&path).await;
                after_conflict(bind, &status.message, found)
            }
            error => Some(refused_bind(bind, &error)),
        }
    }

    async fn read(&self, path: &str) -> Result<Pod, kube::Error> {
        let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let text = self.writer.request_text(request).await?;
        serde_json::from_str(&text).map_err(kube::Error::SerdeError)
    }

    async fn post(&self, path: &str, body: &Value) -> Result<(), kube::Error> {
        self.writer.send_json(Method::POST, path, JSON, body).await.map(drop)
    }
}

/// What a bind came to that met a conflict. That may be with an earlier one of ours whose answer was lost, so the pod
/// itself is asked; only if it cannot be read, the outcome stays unknown.
fn after_conflict(bind: Bind, message: &str, found: Result<Pod, kube::Error>) -> Option<FailedBind> {
    let pod = match found {
        Ok(pod) => pod,
        Err(kube::Error::Api(status)) if status.code == 404 => return Some(failed_bind(bind, "the pod is gone", true)),
        Err(error) => {
            let why = format!("{message}; and the pod cannot be read: {error}");
            return Some(failed_bind(bind, why, false));
        }
    };
    let node = pod.spec.node_name.as_str();
    if pod.metadata.uid.as_deref() != Some(&*bind.uid) {
        Some(failed_bind(bind, "the pod is gone, and another has its name", true))
    } else if node.is_empty() {
        Some(failed_bind(bind, message, true))
    } else if *bind.node == *node {
        None
    } else {
        let why = format!("somebody else bound the pod to {node}");
        Some(failed_bind(bind, why, true))
    }
}

/// A Binding; the uid keeps it from reaching a later pod of the same name.
fn binding(bind: &Bind) -> Value {
    let (_, name) = split_key(&bind.pod);
    json!({"metadata": {"name": name, "uid": &*bind.uid}, "target": {"kind": "Node", "name": &*bind.node}})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::Client;

    use super::*;
    use crate::scripted_server::{self, Answer};
    use crate::write::concurrency_limit::START;

    fn binder(client: Client, manner: Manner) -> Binder {
        Binder {
            writer: client.into(),
            manner,
        }
    }

    /// A gang of so many pods, all to be bound to `n`.
    fn gang(pods: usize) -> Transaction {
        let bind = |index| Bind {
            pod: format!("a/p-{index}").into(),
            uid: "u".into(),
            node: "n".into(),
        };
        Transaction {
            pod_group: "a/g".into(),
            uid: "g".into(),
            spec_hash: 0,
            min_member: 1,
            binds: (0..pods).map(bind).collect(),
            evictions: Vec::new(),
            pipelined: Vec::new(),
            phase: None,
            tally: None,
        }
    }

    fn pod(uid: &str, node: &str) -> Answer {
        Answer::Object(json!({"metadata": {"name": "p-0", "uid": uid}, "spec": {"nodeName": node}}))
    }

    /// Binds are answered so, reads of the pod so; is the bind done (none), or did it fail, and certainly?
    async fn check(bind: Answer, read: Answer, single: Option<bool>, gang_too: Option<bool>) {
        for (manner, expected) in [(Manner::Single, single), (Manner::Gang, gang_too)] {
            let (to_bind, to_read) = (bind.clone(), read.clone());
            let client = scripted_server::client(move |method, _| match *method {
                Method::GET => to_read.clone(),
                _ => to_bind.clone(),
            });
            let failed = binder(client, manner).bind(&gang(1)).await;
            let certain = failed.first().map(|failure| failure.is_certain);
            assert_eq!(certain, expected, "{bind:?} {read:?} {manner:?}: {failed:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_known_of_a_bind_by_its_answer() {
        let yes = || Answer::Object(json!({"kind": "Status", "status": "Success"}));
        let no = Answer::Refusal;
        check(yes(), no(500), None, None).await;
        check(no(403), no(500), Some(true), Some(true)).await;
        check(no(404), no(500), Some(true), Some(true)).await;
        check(no(500), pod("u", ""), Some(false), Some(false)).await;
        check(Answer::Silence, pod("u", ""), Some(false), Some(false)).await;
        // A conflict of a single bind is looked into; that of a whole gang is a refusal.
        check(no(409), pod("u", "n"), None, Some(true)).await;
        check(no(409), pod("u", "m"), Some(true), Some(true)).await;
        check(no(409), pod("u", ""), Some(true), Some(true)).await;
        check(no(409), pod("v", "n"), Some(true), Some(true)).await;
        check(no(409), no(404), Some(true), Some(true)).await;
        check(no(409), no(500), Some(false), Some(true)).await;
        check(no(409), Answer::Silence, Some(false), Some(true)).await;
        check(no(409), Answer::Object(json!("no pod")), Some(false), Some(true)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn all_transactions_share_one_limit_of_binds_under_way() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let client = scripted_server::client(move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            Answer::Silence
        });
        let binder = binder(client, Manner::Single);
        let transactions = [gang(40), gang(40), gang(20)];
        let all = futures::future::join_all(transactions.iter().map(|transaction| binder.bind(transaction)));
        let looked = async {
            let mut seen = Vec::new();
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(9)).await;
                seen.push(asked.load(Ordering::SeqCst));
            }
            seen
        };
        let (failed, seen) = tokio::join!(all, looked);
        // The first ones are given up after ten seconds; then half as many have their turn, and then the rest.
        assert_eq!(seen, [START, START + START / 2, 100]);
        assert_eq!(failed.iter().map(Vec::len).collect::<Vec<_>>(), [40, 40, 20]);
    }
}
