//! What the server does by itself: garbage collection, emptying namespaces and definitions, and small defaults.
//!
//! Every worker follows the store's own changes, so it acts at once and rests otherwise.

mod accounts;
mod budgets;
mod collector;
mod empty;
mod events;
mod feed;
mod volumes;

use serde_json::Value;
use tokio::task::JoinSet;

use crate::http::{ApiError, ApiResult, Call, Modified, Server, modify};

/// The running workers; they end when this is dropped.
#[derive(Debug)]
pub struct Workers {
    _tasks: JoinSet<()>,
}

impl Server {
    /// Starts the workers on the current tokio runtime.
    pub fn start_workers(&self) -> Workers {
        let mut tasks = JoinSet::new();
        tasks.spawn(collector::run(self.clone()));
        tasks.spawn(empty::namespaces(self.clone()));
        tasks.spawn(empty::definitions(self.clone()));
        tasks.spawn(accounts::run(self.clone()));
        tasks.spawn(budgets::run(self.clone()));
        tasks.spawn(volumes::run(self.clone()));
        tasks.spawn(events::run(self.clone()));
        Workers { _tasks: tasks }
    }
}

/// Changes a stored object; one that is gone needs no change, and another that has its name gets none.
async fn change(call: &Call, uid: &str, edit: impl Fn(&mut Value)) -> ApiResult<()> {
    let mut warnings = Vec::new();
    let changed = modify(call, &mut warnings, |current, _| {
        let mut new = current.clone();
        edit(&mut new);
        new["metadata"]["uid"] = uid.into();
        Ok(new)
    });
    match changed.await {
        Ok(Modified::Stored(_) | Modified::Dry(_)) => Ok(()),
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes a finalizer.
async fn release(call: &Call, uid: &str, finalizer: &str) -> ApiResult<()> {
    change(call, uid, |object| {
        if let Some(Value::Array(finalizers)) = object.pointer_mut("/metadata/finalizers") {
            finalizers.retain(|found| found != finalizer);
        }
    })
    .await
}

/// Whether an error says that the object, or this incarnation of it, is not there any more.
fn is_gone(error: &ApiError) -> bool {
    error.code == 404 || (error.code == 409 && error.message.contains("Precondition failed"))
}
