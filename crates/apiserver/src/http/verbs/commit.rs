//! The write that every verb ends with: one commit to the store, and what follows from it.

use crate::http::admission::Passage;
use crate::http::registry::custom_resources;
use crate::http::request::body;
use crate::http::request::call::Call;
use crate::http::response::status::ApiError;
use crate::store::{Commit, CommitError, Key, Store, Write};

/// Why a commit did not happen.
#[derive(Debug)]
pub(crate) enum CommitFailure {
    /// A condition on this key did not hold: the caller may read the key again and retry.
    Conflict(Key),
    /// The request ends with this error.
    Failed(ApiError),
}

/// The size of the largest stored object: what fits in a request, and some room for what the server adds.
const OBJECT_MAX: usize = body::BODY_MAX + 64 * 1024;

/// Commits writes, then reloads the registry after a change of a CustomResourceDefinition, and only then lets the next
/// request pass admission.
pub(crate) async fn commit(call: &Call, passage: Passage, writes: Vec<Write>) -> Result<Commit, CommitFailure> {
    let defines = *call.kind.resource == *custom_resources::RESOURCE;
    let server = call.server.clone();
    if matches!(passage, Passage::Free) && !defines {
        let done = submit(call.store(), writes).await;
        server.look(&call.kind.resource);
        return done;
    }
    let resource = call.kind.resource.clone();
    // In a task of its own: the client may go away at any moment, and what follows must still happen.
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

/// Commits writes and tells conflicts apart from other failures.
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
