//! The newest state: what is visible plus the writes that are on their way to disk. Conditions are
//! checked here, so that a writer need not wait for another's fsync to build on its result.

use std::borrow::Borrow;
use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::model::{CommitError, Event, EventKind, Expect, Facets, Key, Object, Revision, Row};
use super::prepare::{Step, Steps};
use super::state::State;

/// The changes of a transaction; most have one.
pub(super) type Events = SmallVec<[Event; 1]>;

/// A transaction whose conditions held, waiting for the disk.
pub(super) struct Transaction {
    pub(super) events: Events,
    pub(super) bytes: usize,
    /// What it takes of the room for waiting writes.
    pub(super) permits: u32,
    pub(super) done: oneshot::Sender<Result<(), CommitError>>,
}

/// What a writer gets when its conditions held.
pub(super) struct Accepted {
    pub(super) revision: Revision,
    pub(super) objects: Vec<Arc<Object>>,
    pub(super) events: Events,
}

/// The newest version of an object, found by its key.
struct Newest(Arc<Object>);

impl Borrow<Key> for Newest {
    fn borrow(&self) -> &Key {
        &self.0.key
    }
}

impl Hash for Newest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}

impl PartialEq for Newest {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Newest {}

pub(super) struct Head {
    /// The revision given last.
    revision: Revision,
    /// Every object, so that a condition is checked with one look and without the lock that readers use.
    newest: HashSet<Newest>,
    /// How many rows were ever given, and those of them that are free.
    rows: Row,
    free: Vec<Row>,
    pub(super) queue: VecDeque<Transaction>,
    /// Why nothing is accepted any more.
    pub(super) refusal: Option<CommitError>,
    /// The disk failed: what is visible is the newest there will be.
    failed: bool,
}

impl Head {
    /// The head of a store at rest.
    pub(super) fn new(visible: &State) -> Self {
        Self {
            revision: visible.revision(),
            newest: visible.objects().cloned().map(Newest).collect(),
            rows: visible.rows(),
            free: Vec::new(),
            queue: VecDeque::new(),
            refusal: None,
            failed: false,
        }
    }

    /// The newest version, or what is visible once nothing newer can become so.
    pub(super) fn get(&self, key: &Key, visible: impl FnOnce() -> Option<Arc<Object>>) -> Option<Arc<Object>> {
        if self.failed { visible() } else { self.find(key) }
    }

    fn find(&self, key: &Key) -> Option<Arc<Object>> {
        self.newest.get(key).map(|newest| Arc::clone(&newest.0))
    }

    /// Checks every condition and gives every write its revision; or changes nothing.
    pub(super) fn accept(&mut self, steps: Steps) -> Result<Accepted, CommitError> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let before = self.revision;
        let mut accepted = Accepted {
            revision: before,
            objects: Vec::with_capacity(steps.len()),
            events: Events::with_capacity(steps.len()),
        };
        for step in steps {
            if let Err(conflict) = self.step(step, &mut accepted) {
                self.undo(accepted.events);
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

    fn undo(&mut self, events: Events) {
        for event in events.into_iter().rev() {
            match event.kind {
                EventKind::Added => self.free.push(event.object.row),
                EventKind::Modified => {}
                // The one freed last.
                EventKind::Deleted => drop(self.free.pop()),
            }
            match event.previous {
                Some(previous) => self.newest.replace(Newest(previous)),
                None => self.newest.take(&event.object.key),
            };
        }
    }

    fn new_row(&mut self) -> Row {
        self.free.pop().unwrap_or_else(|| {
            self.rows += 1;
            self.rows - 1
        })
    }

    fn step(&mut self, step: Step, accepted: &mut Accepted) -> Result<(), CommitError> {
        let (key, expect, body) = match step {
            Step::Put { key, expect, body } => (key, expect, Some((body, false))),
            Step::Delete { key, expect, last } => (key, expect, Some((last, true))),
            Step::Check { key, expect } => (key, expect, None),
        };
        let previous = self.find(&key);
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
        let row = previous.as_ref().map_or_else(|| self.new_row(), |previous| previous.row);
        let object = body.seal(key, self.revision, row);
        if delete {
            self.newest.remove(&object.key);
            self.free.push(row);
        } else {
            self.newest.replace(Newest(Arc::clone(&object)));
        }
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

    /// Takes nothing more, and gives back what waits in the queue: it does not happen.
    pub(super) fn fail(&mut self, refusal: CommitError) -> VecDeque<Transaction> {
        self.refusal.get_or_insert(refusal);
        self.failed = true;
        self.newest.clear();
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
        row: Row::MAX,
    })
}
