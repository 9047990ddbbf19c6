//! Watching: a cursor into a resource's history. A watcher costs nothing while nothing happens,
//! and nothing more when it is slow: it reads from the one history that everybody shares.

use std::sync::Arc;

use tokio::sync::watch;

use super::Shared;
use super::model::{Compacted, Event, Revision};

/// How many events one call hands out, so that a reader far behind holds the lock for a bounded time.
const EVENTS_MAX: usize = 1024;

/// Rings when a resource changes.
pub(super) type Bell = watch::Sender<()>;

/// The changes of one resource after a revision, each once and in order.
pub struct Watch {
    shared: Arc<Shared>,
    resource: Arc<str>,
    cursor: Revision,
    bell: watch::Receiver<()>,
}

impl Watch {
    pub(super) fn new(shared: &Arc<Shared>, resource: &str, after: Revision) -> Result<Self, Compacted> {
        let mut state = shared.state.write();
        state.retained(resource, after)?;
        let resource = Arc::from(resource);
        let table = state.table_id(&resource);
        let bell = state.bell(table).subscribe();
        Ok(Self {
            shared: Arc::clone(shared),
            resource,
            cursor: after,
            bell,
        })
    }

    /// The next changes, at least one. Waits while there are none: for ever, once the store is
    /// closed. Dropping the future loses nothing. `Compacted` when this watcher fell so far behind
    /// that changes which it has not seen are no longer kept: list again and watch from there.
    pub async fn next(&mut self) -> Result<Vec<Event>, Compacted> {
        loop {
            // Before looking, so that a change between looking and waiting wakes us.
            self.bell.mark_unchanged();
            let events = self.ready()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.bell.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The changes that are there already, without waiting; empty when there are none.
    pub fn ready(&mut self) -> Result<Vec<Event>, Compacted> {
        let events = self
            .shared
            .state
            .read()
            .events(&self.resource, self.cursor, EVENTS_MAX)?;
        if let Some(last) = events.last() {
            self.cursor = last.revision;
        }
        Ok(events)
    }

    /// Up to which revision this watcher has seen everything: what a bookmark may say.
    pub fn progress(&self) -> Revision {
        let state = self.shared.state.read();
        match state.events(&self.resource, self.cursor, 1) {
            Ok(events) if events.is_empty() => self.cursor.max(state.revision()),
            _ => self.cursor,
        }
    }
}
