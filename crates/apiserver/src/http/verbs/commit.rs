//! The write of every verb: one commit to the store, and what follows from it.

use crate::http::admission::Passage;
use crate::http::registry::custom_resources;
use crate::http::request::body;
use crate::http::request::call::Call;
use crate::http::response::status::ApiError;
use crate::store::{Commit, CommitError, Key, Store, Write};

/// A commit that was refused because of the state of a key, or an error that ends the request.
#[derive(Debug)]
pub(crate) enum CommitFailure {
    /// A condition on this key did not hold: look again.
    Conflict(Key),
    /// It cannot be done.
    Failed(ApiError),
}

/// Largest stored object: what fits in a request, and some room for what the server adds.
const OBJECT_MAX: usize = body::BODY_MAX + 64 * 1024;

/// Commits, and does what must follow: a changed definition changes the table of kinds, and only then others may pass.
pub(crate) async fn commit(call: &Call, passage: Passage, writes: Vec<Write>) -> Result<Commit, CommitFailure> {
    let defines = *call.kind.resource == *custom_resources::RESOURCE;
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
    let ended = |error: tokio::task::JoinError| Err(CommitFailure::Failed(ApiError::internal(error.to_string())));
    task.await.unwrap_or_else(ended)
}

/// Commits, and tells lost races apart from failures.
async fn submit(store: &Store, writes: Vec<Write>) -> Result<Commit, CommitFailure> {
    let size = |write: &Write| match write {
        Write::Put { draft, .. } => draft.bytes().len(),
        Write::Delete { .. } | Write::Check { .. } => 0,
    };
    // Patches could otherwise grow an object without end.
    if writes.iter().any(|write| size(write) > OBJECT_MAX) {
        return Err(CommitFailure::Failed(ApiError::too_large(OBJECT_MAX)));
    }
    store.commit(writes).await.map_err(|error| match error {
        CommitError::Conflict { key, .. } => CommitFailure::Conflict(key),
        CommitError::TooLarge { max, .. } => CommitFailure::Failed(ApiError::too_large(max)),
        CommitError::Closed => {
            CommitFailure::Failed(ApiError::new(503, "ServiceUnavailable", "the server is shutting down"))
        }
        CommitError::Io(why) => CommitFailure::Failed(ApiError::internal(why)),
    })
}
