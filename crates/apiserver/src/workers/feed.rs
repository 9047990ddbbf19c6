//! A resource's objects and then its changes, without end: what every worker reads.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::store::{EventKind, Object, Store, Watch};

/// One thing that a worker gets to know.
#[derive(Debug)]
pub(super) enum Change {
    /// Some changes were missed: the objects that follow are all there are now.
    Relisted,
    /// All objects that there were have been told; what follows is new.
    Listed,
    /// There is such an object, new or changed.
    Present(Arc<Object>),
    /// It is gone; this was its last state.
    Gone(Arc<Object>),
}

/// Lists, watches, and lists again after falling too far behind.
pub(super) struct Feed {
    store: Store,
    resource: Arc<str>,
    watch: Option<Watch>,
    ready: VecDeque<Change>,
    listed: bool,
}

impl Feed {
    pub(super) fn new(store: &Store, resource: &str) -> Feed {
        Feed {
            store: store.clone(),
            resource: resource.into(),
            watch: None,
            ready: VecDeque::new(),
            listed: false,
        }
    }

    /// The next change. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Change {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return change;
            }
            let Some(watch) = &mut self.watch else {
                let listing = self.store.list(&self.resource, None);
                self.watch = self.store.watch(&self.resource, listing.revision).ok();
                if std::mem::replace(&mut self.listed, true) {
                    self.ready.push_back(Change::Relisted);
                }
                self.ready.extend(listing.objects.into_iter().map(Change::Present));
                self.ready.push_back(Change::Listed);
                continue;
            };
            match watch.next().await {
                Ok(events) => self.ready.extend(events.into_iter().map(|event| match event.kind {
                    EventKind::Added | EventKind::Modified => Change::Present(event.object),
                    EventKind::Deleted => Change::Gone(event.object),
                })),
                Err(_) => self.watch = None,
            }
        }
    }
}
