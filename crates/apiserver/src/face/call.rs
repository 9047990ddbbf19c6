//! One request about a resource, and which handler answers it.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderMap, Method, Response, StatusCode};

use super::admission::Passage;
use super::auth::Identity;
use super::kinds::{Kind, Sub, Verbs};
use super::negotiate::Form;
use super::path::Query;
use super::server::Server;
use super::status::{ApiError, ApiResult};
use super::{body, create, custom, delete, evict, list, patch, pods, present, reviews, scale, tokens, update, watch};
use crate::store::{Commit, CommitError, Key, Store, Write};

/// One request about a resource, read from its head.
pub(crate) struct Call {
    pub(crate) server: Server,
    pub(crate) kind: Arc<Kind>,
    /// Empty for cluster-scoped kinds and for all namespaces.
    pub(crate) namespace: Arc<str>,
    /// Empty for the collection.
    pub(crate) name: Arc<str>,
    pub(crate) sub: Option<Sub>,
    pub(crate) query: Query,
    pub(crate) form: Form,
    pub(crate) identity: Identity,
    pub(crate) headers: HeaderMap,
}

impl Call {
    pub(crate) fn store(&self) -> &Store {
        &self.server.inner.store
    }

    /// Where an object of this call's kind and namespace is kept.
    pub(crate) fn key(&self, name: &str) -> Key {
        Key {
            resource: self.kind.resource.clone(),
            namespace: self.namespace.clone(),
            name: name.into(),
        }
    }

    /// The namespace for a list: none for all of them.
    pub(crate) fn list_namespace(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(self.namespace.as_ref())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.kind, &self.name)
    }

    /// The time as objects carry it.
    pub(crate) fn now(&self) -> String {
        super::meta::time(self.server.now())
    }
}

/// A commit that was refused because of the state of a key, or an error that ends the request.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A condition on this key did not hold: look again.
    Conflict(Key),
    /// It cannot be done.
    Failed(ApiError),
}

/// Largest stored object: what fits in a request, and some room for what the server adds.
const OBJECT_MAX: usize = body::BODY_MAX + 64 * 1024;

/// Commits, and does what must follow: a changed definition changes the table of kinds, and only then others may pass.
pub(crate) async fn commit(call: &Call, passage: Passage, writes: Vec<Write>) -> Result<Commit, Refused> {
    let defines = *call.kind.resource == *custom::RESOURCE;
    let server = call.server.clone();
    if matches!(passage, Passage::Free) && !defines {
        let done = submit(call.store(), writes).await;
        server.look(&call.kind.resource);
        return done;
    }
    let resource = call.kind.resource.clone();
    // In a task of its own, for the client may go away at any moment and what follows must happen all the same.
    let task = tokio::spawn(async move {
        let done = submit(server.store(), writes).await;
        if defines && done.is_ok() {
            server.reload();
        }
        server.look(&resource);
        drop(passage);
        done
    });
    let ended = |error: tokio::task::JoinError| Err(Refused::Failed(ApiError::internal(error.to_string())));
    task.await.unwrap_or_else(ended)
}

/// Commits, and tells lost races apart from failures.
async fn submit(store: &Store, writes: Vec<Write>) -> Result<Commit, Refused> {
    let size = |write: &Write| match write {
        Write::Put { draft, .. } => draft.bytes().len(),
        Write::Delete { .. } | Write::Check { .. } => 0,
    };
    // Patches could otherwise grow an object without end.
    if writes.iter().any(|write| size(write) > OBJECT_MAX) {
        return Err(Refused::Failed(ApiError::too_large(OBJECT_MAX)));
    }
    store.commit(writes).await.map_err(|error| match error {
        CommitError::Conflict { key, .. } => Refused::Conflict(key),
        CommitError::TooLarge { max, .. } => Refused::Failed(ApiError::too_large(max)),
        CommitError::Closed => Refused::Failed(ApiError::new(503, "ServiceUnavailable", "the server is shutting down")),
        CommitError::Io(why) => Refused::Failed(ApiError::internal(why)),
    })
}

/// Answers the request.
pub(crate) async fn run(call: &Call, method: &Method, request: Body) -> ApiResult<Response<Body>> {
    let named = !call.name.is_empty();
    if call.kind.verbs == Verbs::CreateOnly {
        return match (method, named) {
            (&Method::POST, false) if call.kind.is("basalt.sh", "GangBinding") => {
                pods::bind_gang(call, &body::read_up_to(request, pods::GANG_BYTES_MAX).await?).await
            }
            (&Method::POST, false) => reviews::create(call, &body::read(request).await?),
            _ => Err(ApiError::method_not_allowed()),
        };
    }
    match (method, named, call.sub) {
        (&Method::GET, false, None) if call.query.watch => watch::watch(call),
        (&Method::GET, false, None) => list::list(call),
        (&Method::GET, true, None | Some(Sub::Status)) => get(call),
        (&Method::GET, true, Some(Sub::Scale)) => scale::get(call),
        (&Method::POST, false, None) => create::create(call, &body::read(request).await?).await,
        (&Method::POST, true, Some(Sub::Binding)) => pods::bind(call, &body::read(request).await?).await,
        (&Method::POST, true, Some(Sub::Eviction)) => evict::evict(call, &body::read(request).await?).await,
        (&Method::POST, true, Some(Sub::Token)) => tokens::create(call, &body::read(request).await?),
        (&Method::PUT, true, None | Some(Sub::Status | Sub::Finalize)) => {
            update::replace(call, &body::read(request).await?).await
        }
        (&Method::PUT | &Method::PATCH, true, Some(Sub::Scale)) => {
            scale::change(call, method, &body::read(request).await?).await
        }
        (&Method::PATCH, true, None | Some(Sub::Status)) => patch::patch(call, &body::read(request).await?).await,
        (&Method::DELETE, true, None) => delete::delete(call, &body::read(request).await?).await,
        (&Method::DELETE, false, None) => delete::collection(call, &body::read(request).await?).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn get(call: &Call) -> ApiResult<Response<Body>> {
    let object = call
        .store()
        .get(&call.key(&call.name))
        .ok_or_else(|| call.not_found())?;
    list::check_not_older(call, object.revision)?;
    Ok(present::answer(call, StatusCode::OK, &object))
}
