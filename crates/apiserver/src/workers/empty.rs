//! Deleting what is inside before what holds it: the objects of a namespace, and those of a definition.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;

use super::feed::{Change, Feed};
use super::{change, is_gone, release};
use crate::face::{
    ApiResult, CLEANUP_FINALIZER, Call, DEFINITIONS, DeleteOptions, Kind, Server, Sub, Verbs, delete_one, draft, head,
    text,
};
use crate::store::{Expect, Key, Revision, Write};

/// How many objects are deleted at the same time.
const WIDTH: usize = 64;
/// Longest wait before looking again, should nothing change.
const PAUSE: Duration = Duration::from_secs(1);

/// Empties namespaces that are being deleted.
pub(super) async fn namespaces(server: Server) {
    follow(&server, "namespaces", |server, key| async move {
        let contents = |server: &Server| {
            let registry = server.registry();
            let kinds = registry
                .kinds()
                .filter(|kind| kind.namespaced && kind.verbs == Verbs::All && !kind.converted());
            let mut seen = BTreeSet::new();
            kinds
                .filter(|kind| seen.insert(kind.resource.clone()))
                .cloned()
                .collect::<Vec<_>>()
        };
        empty(&server, contents, Some(&key.name)).await;
        let registry = server.registry();
        let Some(kind) = registry.find("", "v1", "namespaces") else {
            return Ok(());
        };
        let call = Call {
            sub: Some(Sub::Finalize),
            ..Call::internal(&server, kind, "", &key.name)
        };
        change(&call, |namespace| {
            if let Some(Value::Array(finalizers)) = namespace.pointer_mut("/spec/finalizers") {
                finalizers.retain(|finalizer| finalizer != "kubernetes");
            }
        })
        .await
    })
    .await;
}

/// Empties definitions that are being deleted.
pub(super) async fn definitions(server: Server) {
    follow(&server, DEFINITIONS, |server, key| async move {
        let Some(object) = server.store().get(&key) else {
            return Ok(());
        };
        if !head(&object.body)
            .finalizers
            .iter()
            .any(|finalizer| finalizer == CLEANUP_FINALIZER)
        {
            return Ok(());
        }
        let crd: Value = serde_json::from_slice(&object.body).unwrap_or_default();
        let resource = format!(
            "{}.{}",
            text(&crd, &["spec", "names", "plural"]),
            text(&crd, &["spec", "group"])
        );
        let contents = |server: &Server| {
            server
                .registry()
                .by_resource(&resource)
                .cloned()
                .into_iter()
                .collect::<Vec<_>>()
        };
        empty(&server, contents, None).await;
        let registry = server.registry();
        let Some(kind) = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
            return Ok(());
        };
        release(&Call::internal(&server, kind, "", &key.name), CLEANUP_FINALIZER).await?;
        sweep(&server, &resource).await;
        Ok(())
    })
    .await;
}

/// Removes what slipped in between the last look and the end of a definition; after it nothing more can.
async fn sweep(server: &Server, resource: &str) {
    for object in server.store().list(resource, None).objects {
        let value: Value = serde_json::from_slice(&object.body).unwrap_or_default();
        let write = Write::Delete {
            key: object.key.clone(),
            expect: Expect::Present,
            last: draft(&value),
        };
        // Gone already is as good.
        let _gone = server.store().commit(vec![write]).await;
    }
}

/// Starts `work` once for each object of the resource that is being deleted.
async fn follow<F: Future<Output = ApiResult<()>> + Send + 'static>(
    server: &Server,
    resource: &str,
    work: impl Fn(Server, Key) -> F,
) {
    let mut feed = Feed::new(server.store(), resource);
    let busy: Arc<Mutex<BTreeSet<Key>>> = Arc::default();
    let mut tasks = JoinSet::new();
    loop {
        let change = tokio::select! {
            change = feed.next() => change,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
        };
        let Change::Present(object) = change else { continue };
        if head(&object.body).deletion_timestamp.is_none() || !busy.lock().insert(object.key.clone()) {
            continue;
        }
        let (busy, key) = (busy.clone(), object.key.clone());
        let work = work(server.clone(), key.clone());
        tasks.spawn(async move {
            match work.await {
                Err(error) if !is_gone(&error) => tracing::warn!(%error, %key, "cannot finish a deletion"),
                _ => {}
            }
            busy.lock().remove(&key);
        });
    }
}

/// Deletes all objects of the kinds, and returns when none is left.
async fn empty(server: &Server, contents: impl Fn(&Server) -> Vec<Arc<Kind>>, namespace: Option<&str>) {
    loop {
        let mut left: Option<(Arc<str>, Revision)> = None;
        for kind in contents(server) {
            let listing = server.store().list(&kind.resource, namespace);
            let doomed = listing
                .objects
                .iter()
                .filter(|object| head(&object.body).deletion_timestamp.is_none());
            let calls: Vec<Call> = doomed
                .map(|object| Call::internal(server, &kind, &object.key.namespace, &object.key.name))
                .collect();
            stream::iter(calls.iter()).for_each_concurrent(WIDTH, delete).await;
            let listing = server.store().list(&kind.resource, namespace);
            if !listing.objects.is_empty() {
                left = Some((kind.resource.clone(), listing.revision));
            }
        }
        let Some((resource, revision)) = left else { return };
        if let Ok(mut watch) = server.store().watch(&resource, revision) {
            // Either something changes there, or it is time to look again.
            let _either = tokio::time::timeout(PAUSE, watch.next()).await;
        }
    }
}

async fn delete(call: &Call) {
    match delete_one(call, &call.name, &DeleteOptions::default(), &mut Vec::new()).await {
        Err(error) if !is_gone(&error) => tracing::warn!(%error, "cannot delete"),
        _ => {}
    }
}
