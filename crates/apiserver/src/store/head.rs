//! The newest state: what is visible plus the writes that are on their way to disk. Conditions are
//! checked here, so that a writer need not wait for another's fsync to build on its result.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::model::{CommitError, Event, EventKind, Expect, Facets, Key, Object, Revision};
use super::prepare::Step;
use super::state::State;

/// A transaction whose conditions held, waiting for the disk.
pub(super) struct Transaction {
    pub(super) events: Vec<Event>,
    pub(super) bytes: usize,
    /// What it takes of the room for waiting writes.
    pub(super) permits: u32,
    pub(super) done: oneshot::Sender<Result<(), CommitError>>,
}

/// What a writer gets when its conditions held.
pub(super) struct Accepted {
    pub(super) revision: Revision,
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) events: Vec<Event>,
}

/// The pending version of a key; `None` is a deletion.
type Pending = (Revision, Option<Arc<Object>>);

pub(super) struct Head {
    /// The revision given last.
    revision: Revision,
    overlay: HashMap<Key, Pending>,
    pub(super) queue: VecDeque<Transaction>,
    /// Why nothing is accepted any more.
    pub(super) refusal: Option<CommitError>,
}

impl Head {
    pub(super) fn new(revision: Revision) -> Self {
        Self {
            revision,
            overlay: HashMap::new(),
            queue: VecDeque::new(),
            refusal: None,
        }
    }

    pub(super) fn get(&self, key: &Key, visible: impl FnOnce() -> Option<Arc<Object>>) -> Option<Arc<Object>> {
        match self.overlay.get(key) {
            Some((_, pending)) => pending.clone(),
            None => visible(),
        }
    }

    /// Checks every condition and gives every write its revision; or changes nothing.
    pub(super) fn accept(&mut self, steps: Vec<Step>, visible: &State) -> Result<Accepted, CommitError> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let before = self.revision;
        let mut undo = Vec::with_capacity(steps.len());
        let mut accepted = Accepted {
            revision: before,
            objects: Vec::with_capacity(steps.len()),
            events: Vec::with_capacity(steps.len()),
        };
        for step in steps {
            if let Err(conflict) = self.step(step, visible, &mut accepted, &mut undo) {
                for (key, pending) in undo.into_iter().rev() {
                    match pending {
                        Some(pending) => self.overlay.insert(key, pending),
                        None => self.overlay.remove(&key),
                    };
                }
                self.revision = before;
                return Err(conflict);
            }
        }
        accepted.revision = self.revision;
        for event in &mut accepted.events {
            event.complete = self.revision;
        }
        Ok(accepted)
    }

    fn step(
        &mut self,
        step: Step,
        visible: &State,
        accepted: &mut Accepted,
        undo: &mut Vec<(Key, Option<Pending>)>,
    ) -> Result<(), CommitError> {
        let (key, expect, body) = match step {
            Step::Put { key, expect, body } => (key, expect, Some((body, false))),
            Step::Delete { key, expect, last } => (key, expect, Some((last, true))),
            Step::Check { key, expect } => (key, expect, None),
        };
        let previous = self.get(&key, || visible.get(&key.resource, &key.namespace, &key.name).cloned());
        let found = previous.as_ref().map(|object| object.revision);
        let Some((body, delete)) = body else {
            if !expect.holds(found) {
                return Err(CommitError::Conflict { key, expect, found });
            }
            accepted.objects.push(previous.unwrap_or_else(|| nothing(key)));
            return Ok(());
        };
        if !expect.holds(found) || (delete && found.is_none()) {
            let expect = if delete && expect == Expect::Any {
                Expect::Present
            } else {
                expect
            };
            return Err(CommitError::Conflict { key, expect, found });
        }
        self.revision += 1;
        let object = body.seal(key.clone(), self.revision);
        let pending = (self.revision, (!delete).then(|| Arc::clone(&object)));
        undo.push((key.clone(), self.overlay.insert(key, pending)));
        accepted.objects.push(Arc::clone(&object));
        let kind = match (delete, &previous) {
            (true, _) => EventKind::Deleted,
            (false, Some(_)) => EventKind::Modified,
            (false, None) => EventKind::Added,
        };
        accepted.events.push(Event {
            kind,
            object,
            previous,
            revision: self.revision,
            complete: self.revision,
        });
        Ok(())
    }

    /// These are visible now: the overlay need not hold them, unless it holds newer ones.
    pub(super) fn settle(&mut self, batch: &[Transaction]) {
        for event in batch.iter().flat_map(|transaction| &transaction.events) {
            if self
                .overlay
                .get(&event.object.key)
                .is_some_and(|(revision, _)| *revision == event.revision)
            {
                self.overlay.remove(&event.object.key);
            }
        }
    }

    /// Takes nothing more, and gives back what waits in the queue.
    pub(super) fn refuse(&mut self, refusal: CommitError) -> VecDeque<Transaction> {
        self.refusal.get_or_insert(refusal);
        self.overlay.clear();
        std::mem::take(&mut self.queue)
    }
}

/// What a check of an absent key finds.
fn nothing(key: Key) -> Arc<Object> {
    Arc::new(Object {
        key,
        revision: 0,
        body: Bytes::new(),
        facets: Facets::default(),
    })
}
