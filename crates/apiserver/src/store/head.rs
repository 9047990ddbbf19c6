//! The newest state: what is visible plus the writes that are on their way to disk. Conditions are
//! checked here, so that a writer need not wait for another's fsync to build on its result.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::DefaultHashBuilder;
use hashbrown::hash_table::{Entry, HashTable};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::model::{CommitError, Event, EventKind, Expect, Facets, Key, Object, Revision, Row};
use super::prepare::{Body, Step, Steps};
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

impl Accepted {
    fn push(&mut self, kind: EventKind, object: Arc<Object>, previous: Option<Arc<Object>>) {
        self.objects.push(Arc::clone(&object));
        let revision = object.revision;
        self.events.push(Event {
            kind,
            object,
            previous,
            revision,
            // Until the last of the transaction is known.
            complete: revision,
        });
    }
}

/// The newest versions, by key.
#[derive(Default)]
struct Newest {
    table: HashTable<Arc<Object>>,
    hasher: DefaultHashBuilder,
}

impl Newest {
    fn new<'a>(objects: impl Iterator<Item = &'a Arc<Object>>) -> Self {
        let mut newest = Self::default();
        objects.for_each(|object| drop(newest.replace(Arc::clone(object))));
        newest
    }

    fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.table.find(self.hasher.hash_one(key), |object| object.key == *key)
    }

    fn entry(&mut self, key: &Key) -> Entry<'_, Arc<Object>> {
        let Self { table, hasher } = self;
        let hash = hasher.hash_one(key);
        table.entry(hash, |object| object.key == *key, |object| hasher.hash_one(&object.key))
    }

    fn replace(&mut self, object: Arc<Object>) -> Option<Arc<Object>> {
        match self.entry(&object.key) {
            Entry::Occupied(mut known) => Some(mem::replace(known.get_mut(), object)),
            Entry::Vacant(place) => {
                place.insert(object);
                None
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Entry::Occupied(known) = self.entry(key) {
            known.remove();
        }
    }
}

/// The places of objects in tables: how many were ever given, and those of them that are free.
struct Places {
    given: Row,
    free: Vec<Row>,
}

impl Places {
    fn take(&mut self) -> Row {
        self.free.pop().unwrap_or_else(|| {
            self.given += 1;
            self.given - 1
        })
    }
}

pub(super) struct Head {
    /// The revision given last.
    revision: Revision,
    /// Every object, so that a condition is checked with one look and without the lock that readers use.
    newest: Newest,
    places: Places,
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
            newest: Newest::new(visible.objects()),
            places: Places {
                given: visible.rows(),
                free: Vec::new(),
            },
            queue: VecDeque::new(),
            refusal: None,
            failed: false,
        }
    }

    /// The newest version, or what is visible once nothing newer can become so.
    pub(super) fn get(&self, key: &Key, visible: impl FnOnce() -> Option<Arc<Object>>) -> Option<Arc<Object>> {
        if self.failed {
            return visible();
        }
        self.newest.get(key).cloned()
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
                EventKind::Added => self.places.free.push(event.object.row),
                EventKind::Modified => {}
                // The one freed last.
                EventKind::Deleted => drop(self.places.free.pop()),
            }
            match event.previous {
                Some(previous) => drop(self.newest.replace(previous)),
                None => self.newest.remove(&event.object.key),
            }
        }
    }

    fn step(&mut self, step: Step, accepted: &mut Accepted) -> Result<(), CommitError> {
        let (key, expect, body) = match step {
            Step::Check { key, expect } => return self.check(key, expect, accepted),
            Step::Put { key, expect, body } => (key, expect, body),
            Step::Delete { key, expect, last } => return self.delete(key, expect, last, accepted),
        };
        let revision = self.revision + 1;
        let entry = self.newest.entry(&key);
        let found = match &entry {
            Entry::Occupied(known) => Some(known.get().revision),
            Entry::Vacant(_) => None,
        };
        if !expect.holds(found) {
            return Err(CommitError::Conflict { key, expect, found });
        }
        let (object, previous) = match entry {
            Entry::Occupied(mut known) => {
                let object = body.seal(key, revision, known.get().row);
                let previous = mem::replace(known.get_mut(), Arc::clone(&object));
                (object, Some(previous))
            }
            Entry::Vacant(place) => {
                let object = body.seal(key, revision, self.places.take());
                place.insert(Arc::clone(&object));
                (object, None)
            }
        };
        self.revision = revision;
        let kind = if previous.is_some() {
            EventKind::Modified
        } else {
            EventKind::Added
        };
        accepted.push(kind, object, previous);
        Ok(())
    }

    fn delete(&mut self, key: Key, expect: Expect, last: Body, accepted: &mut Accepted) -> Result<(), CommitError> {
        let known = match self.newest.entry(&key) {
            Entry::Occupied(known) if expect.holds(Some(known.get().revision)) => known,
            other => {
                let found = match other {
                    Entry::Occupied(known) => Some(known.get().revision),
                    Entry::Vacant(_) => None,
                };
                // There must be something to delete, whatever was asked for.
                let expect = if expect == Expect::Any { Expect::Present } else { expect };
                return Err(CommitError::Conflict { key, expect, found });
            }
        };
        self.revision += 1;
        let (previous, _) = known.remove();
        self.places.free.push(previous.row);
        let object = last.seal(key, self.revision, previous.row);
        accepted.push(EventKind::Deleted, object, Some(previous));
        Ok(())
    }

    fn check(&self, key: Key, expect: Expect, accepted: &mut Accepted) -> Result<(), CommitError> {
        let known = self.newest.get(&key).cloned();
        let found = known.as_ref().map(|object| object.revision);
        if !expect.holds(found) {
            return Err(CommitError::Conflict { key, expect, found });
        }
        accepted.objects.push(known.unwrap_or_else(|| nothing(key)));
        Ok(())
    }

    /// Takes nothing more, and gives back what waits in the queue: it does not happen.
    pub(super) fn fail(&mut self, refusal: CommitError) -> VecDeque<Transaction> {
        self.refusal.get_or_insert(refusal);
        self.failed = true;
        self.newest = Newest::default();
        mem::take(&mut self.queue)
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
