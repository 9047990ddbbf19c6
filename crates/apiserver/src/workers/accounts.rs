//! Every namespace has a service account named `default`.

use serde_json::json;

use super::feed::{Change, Feed};
use crate::http::{Call, Server, head, insert};
use crate::store::Key;

/// Runs for as long as the server.
pub(super) async fn run(server: Server) {
    let mut namespaces = Feed::new(server.store(), "namespaces");
    let mut accounts = Feed::new(server.store(), "serviceaccounts");
    loop {
        tokio::select! {
            change = namespaces.next() => {
                if let Change::Present(namespace) = change {
                    ensure(&server, &namespace.key.name).await;
                }
            }
            change = accounts.next() => {
                if let Change::Gone(account) = change && &*account.key.name == "default" {
                    ensure(&server, &account.key.namespace).await;
                }
            }
        }
    }
}

async fn ensure(server: &Server, namespace: &str) {
    let store = server.store();
    let Some(found) = store.get(&Key::new("namespaces", "", namespace)) else {
        return;
    };
    if head(&found.body).deletion_timestamp.is_some()
        || store.head(&Key::new("serviceaccounts", namespace, "default")).is_some()
    {
        return;
    }
    let registry = server.registry();
    let Some(kind) = registry.find("", "v1", "serviceaccounts") else {
        return;
    };
    let call = Call::internal(server, kind, namespace, "");
    match insert(&call, json!({"metadata": {"name": "default"}})).await {
        Err(error) if !matches!(error.code, 403 | 404 | 409) => {
            tracing::warn!(%error, namespace, "cannot create the default service account");
        }
        _ => {}
    }
}
