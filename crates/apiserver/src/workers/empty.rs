//! Deleting what is inside before what holds it: the objects of a namespace, and those of a definition.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use basalt_apimachinery::json::string_at;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;

use super::feed::{Change, Feed};
use super::{change, is_gone, release};
use crate::http::{
    ApiResult, CLEANUP_FINALIZER, Call, DEFINITIONS, DeleteOptions, Kind, Server, Sub, Verbs, delete_one, head,
};
use crate::store::{Key, Revision};

/// How many objects are deleted at the same time.
const WIDTH: usize = 64;
/// Longest wait before looking again, should nothing change.
const PAUSE: Duration = Duration::from_secs(1);

/// Empties namespaces that are being deleted.
pub(super) async fn namespaces(server: Server) {
    follow(&server, "namespaces", |server, key, uid| async move {
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
        if !empty(&server, (&key, &uid), contents, Some(&key.name)).await {
            return Ok(());
        }
        let registry = server.registry();
        let Some(kind) = registry.find("", "v1", "namespaces") else {
            return Ok(());
        };
        let call = Call {
            sub: Some(Sub::Finalize),
            ..Call::internal(&server, kind, "", &key.name)
        };
        change(&call, &uid, |namespace| {
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
    follow(&server, DEFINITIONS, |server, key, uid| async move {
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
            string_at(&crd, "/spec/names/plural"),
            string_at(&crd, "/spec/group")
        );
        let contents = |server: &Server| {
            server
                .registry()
                .by_resource(&resource)
                .cloned()
                .into_iter()
                .collect::<Vec<_>>()
        };
        if !empty(&server, (&key, &uid), contents, None).await {
            return Ok(());
        }
        let registry = server.registry();
        let Some(kind) = registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
            return Ok(());
        };
        release(&Call::internal(&server, kind, "", &key.name), &uid, CLEANUP_FINALIZER).await
    })
    .await;
}

/// Starts `work` once for each object of the resource that is being deleted.
async fn follow<F: Future<Output = ApiResult<()>> + Send + 'static>(
    server: &Server,
    resource: &str,
    work: impl Fn(Server, Key, String) -> F,
) {
    let mut feed = Feed::new(server.store(), resource);
    // By uid: one of the same name may be on its way out before the work for the last one has noticed that it is over.
    let busy: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let mut tasks = JoinSet::new();
    loop {
        let change = tokio::select! {
            change = feed.next() => change,
            Some(_) = tasks.join_next(), if !tasks.is_empty() => continue,
        };
        let Change::Present(object) = change else { continue };
        let found = head(&object.body);
        if found.deletion_timestamp.is_none() || !busy.lock().insert(found.uid.clone()) {
            continue;
        }
        let (busy, key, uid) = (busy.clone(), object.key.clone(), found.uid);
        let work = work(server.clone(), key.clone(), uid.clone());
        tasks.spawn(async move {
            match work.await {
                Err(error) if !is_gone(&error) => tracing::warn!(%error, %key, "cannot finish a deletion"),
                _ => {}
            }
            busy.lock().remove(&uid);
        });
    }
}

/// Deletes all objects of the kinds. True when none is left; false when the holder is not, or not any more, the one
/// that is being deleted: what is there then belongs to another of that name.
async fn empty(
    server: &Server,
    (holder, uid): (&Key, &str),
    contents: impl Fn(&Server) -> Vec<Arc<Kind>>,
    namespace: Option<&str>,
) -> bool {
    let is_going = || {
        let found = server.store().head(holder).map(|object| head(&object.body));
        found.is_some_and(|found| found.uid == uid && found.deletion_timestamp.is_some())
    };
    loop {
        let mut left: Option<(Arc<str>, Revision)> = None;
        for kind in contents(server) {
            let listing = server.store().list(&kind.resource, namespace);
            // Looked at after listing: what was listed is then this holder's, and uids keep it apart from what follows.
            if !is_going() {
                return false;
            }
            let doomed = listing.objects.iter().filter_map(|object| {
                let found = head(&object.body);
                let call = || Call::internal(server, &kind, &object.key.namespace, &object.key.name);
                found.deletion_timestamp.is_none().then(|| (call(), found.uid))
            });
            let doomed: Vec<(Call, String)> = doomed.collect();
            stream::iter(doomed).for_each_concurrent(WIDTH, delete).await;
            let listing = server.store().list(&kind.resource, namespace);
            if !listing.objects.is_empty() {
                left = Some((kind.resource.clone(), listing.revision));
            }
        }
        let Some((resource, revision)) = left else {
            return is_going();
        };
        if let Ok(mut watch) = server.store().watch(&resource, revision) {
            // Either something changes there, or it is time to look again.
            let _either = tokio::time::timeout(PAUSE, watch.next()).await;
        }
    }
}

async fn delete((call, uid): (Call, String)) {
    let options = DeleteOptions {
        uid: Some(uid),
        ..DeleteOptions::default()
    };
    match delete_one(&call, &call.name, &options, &mut Vec::new()).await {
        Err(error) if !is_gone(&error) => tracing::warn!(%error, "cannot delete"),
        _ => {}
    }
}
