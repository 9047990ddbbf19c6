//! The live system: watches feed the pure crates, one executor carries out what they decide.

pub mod binder;
pub mod cache;
pub mod controllers;
pub mod executor;
pub mod feed;
pub mod latest;
pub mod lenient;
pub mod scheduler;

use tokio::task::{JoinError, JoinSet};

/// A task without which a loop would go on blind has panicked.
#[derive(Debug, thiserror::Error)]
#[error("a part of it failed")]
pub struct PartFailed(#[from] JoinError);

/// Lets go of tasks that have ended; one that panicked is a failure of the whole.
fn reap(tasks: &mut JoinSet<()>) -> Result<(), PartFailed> {
    while let Some(ended) = tasks.try_join_next() {
        ended?;
    }
    Ok(())
}
