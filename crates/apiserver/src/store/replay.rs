//! From the log back to the state: objects, recent history, and what of the log is alive.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::panic::resume_unwind;
use std::sync::Arc;

use bytes::Bytes;

use super::Options;
use super::model::{Event, EventKind, FIRST_REVISION, Indexer, Key, Object, Revision, Row};
use super::reclaim::{Alive, Batch, Entry};
use super::record::{self, Header, Record, Visitor};
use super::state::{EVENT_OVERHEAD, State};

/// Fewer versions than this are not worth a thread.
const SHARE_MIN: usize = 1024;

/// A version whose facets are not computed yet: most versions in a log are dead.
#[derive(Clone)]
struct Raw {
    key: Key,
    revision: Revision,
    body: Bytes,
}

impl Raw {
    fn object(&self, indexer: Indexer, row: Row) -> Arc<Object> {
        let facets = indexer(&self.key, &self.body);
        Arc::new(Object {
            key: self.key.clone(),
            revision: self.revision,
            body: self.body.clone(),
            facets,
            row,
        })
    }
}

struct RawEvent {
    kind: EventKind,
    object: Raw,
    previous: Option<Raw>,
    complete: Revision,
}

impl RawEvent {
    fn cost(&self) -> usize {
        self.object.body.len() + self.object.key.len() + EVENT_OVERHEAD
    }
}

/// Takes the batches of a log, oldest first.
pub(super) struct Replay {
    /// Of the newest batch.
    header: Option<Header>,
    objects: HashMap<Key, Raw>,
    events: VecDeque<RawEvent>,
    events_bytes: usize,
    events_bytes_max: usize,
    /// Per resource: history is complete only above this.
    floors: BTreeMap<Arc<str>, Revision>,
    names: HashSet<Arc<str>>,
    batches: Vec<Batch>,
    /// The versions in each of them; a row is given only to those that turn out to be alive.
    entries: Vec<Vec<Revision>>,
    entries_of_this: Vec<Revision>,
    /// Revisions seen so far, to see that they grow.
    revision: Revision,
}

/// What a log holds.
pub(super) struct Replayed {
    pub(super) state: State,
    pub(super) batches: VecDeque<Batch>,
    pub(super) alive: Alive,
    pub(super) trimmed: Revision,
    pub(super) next_sequence: u64,
}

impl Replay {
    /// `newest` is the header of the last batch: it says what the log as a whole must be.
    pub(super) fn new(newest: Option<Header>, options: &Options) -> Self {
        Self {
            header: newest,
            objects: HashMap::new(),
            events: VecDeque::new(),
            events_bytes: 0,
            events_bytes_max: options.history_bytes_max,
            floors: BTreeMap::new(),
            names: HashSet::new(),
            batches: Vec::new(),
            entries: Vec::new(),
            entries_of_this: Vec::new(),
            revision: FIRST_REVISION,
        }
    }

    /// The next batch, found in the log under `sequence` in so many pieces.
    pub(super) fn batch(&mut self, sequence: u64, pieces: u32, bytes: &[u8]) -> Result<(), String> {
        let (header, reader) = record::header(bytes)?;
        let expected = self
            .batches
            .last()
            .map_or(self.header.map(|newest| newest.oldest), |b| Some(b.sequence + 1));
        if header.sequence != sequence || expected != Some(sequence) {
            return Err(format!(
                "it is number {}, where {expected:?} was expected",
                header.sequence
            ));
        }
        record::walk(reader, self)?;
        if header.revision < self.revision {
            return Err(format!("its revision {} is behind {}", header.revision, self.revision));
        }
        self.revision = header.revision;
        self.entries.push(std::mem::take(&mut self.entries_of_this));
        self.batches.push(Batch {
            sequence,
            bytes: bytes.len() as u64,
            pieces,
            revision: header.revision,
            entries: Vec::new(),
        });
        Ok(())
    }

    fn raw(&mut self, record: &Record<'_>) -> Raw {
        let names = &mut self.names;
        let key = record.key(|part| {
            if let Some(known) = names.get(part) {
                return Arc::clone(known);
            }
            let new: Arc<str> = Arc::from(part);
            names.insert(Arc::clone(&new));
            new
        });
        Raw {
            key,
            revision: record.revision,
            body: Bytes::copy_from_slice(record.body),
        }
    }

    fn remember(&mut self, event: RawEvent) {
        self.events_bytes += event.cost();
        self.events.push_back(event);
        while self.events_bytes > self.events_bytes_max {
            let Some(event) = self.events.pop_front() else { break };
            self.events_bytes -= event.cost();
            self.raise_floor(&event.object.key.resource, event.complete);
        }
    }

    fn raise_floor(&mut self, resource: &Arc<str>, floor: Revision) {
        let known = self.floors.entry(Arc::clone(resource)).or_default();
        *known = floor.max(*known);
    }

    /// The end of the log: computes facets of what is left and builds the state.
    pub(super) fn finish(self, options: &Options) -> Result<Replayed, String> {
        let (last, newest) = (self.batches.last().map(|batch| batch.sequence), self.header);
        if last != newest.map(|header| header.sequence) {
            return Err(format!("the log ends with batch {last:?}, not with the newest"));
        }
        let mut versions = Versions {
            indexer: options.indexer,
            known: HashMap::new(),
        };
        let mut state = State::new(options.history_bytes_max);
        let mut alive = Alive::default();
        for object in index(&self.objects.into_values().collect::<Vec<_>>(), options.indexer) {
            alive.insert(&object);
            versions.known.insert(object.revision, Arc::clone(&object));
            state.restore(object);
        }
        let batches = self.batches.into_iter().zip(self.entries).map(|(batch, revisions)| {
            let alive = revisions.iter().filter_map(|revision| versions.known.get(revision));
            let entries = alive.map(|object| Entry::of(object)).collect();
            Batch { entries, ..batch }
        });
        let batches = batches.collect();
        for event in self.events {
            let object = versions.object(event.object);
            let previous = event.previous.map(|previous| versions.object(previous));
            let (kind, revision, complete) = (event.kind, object.revision, event.complete);
            state.restore_event(Event {
                kind,
                object,
                previous,
                revision,
                complete,
            });
        }
        for (resource, floor) in &self.floors {
            state.restore_floor(resource, *floor);
        }
        let trimmed = newest.map_or(0, |header| header.trimmed);
        state.restore_revisions(self.revision, trimmed);
        let next_sequence = last.map_or(1, |last| last + 1);
        Ok(Replayed {
            state,
            batches,
            alive,
            trimmed,
            next_sequence,
        })
    }
}

impl Visitor for Replay {
    fn carried(&mut self, record: &Record<'_>) -> Result<(), String> {
        let raw = self.raw(record);
        self.entries_of_this.push(raw.revision);
        match self.objects.get(&raw.key) {
            Some(known) if known.revision == raw.revision => Ok(()),
            Some(known) => Err(format!(
                "{} was carried at {} over {}",
                raw.key, raw.revision, known.revision
            )),
            None => {
                self.objects.insert(raw.key.clone(), raw);
                Ok(())
            }
        }
    }

    fn event(
        &mut self,
        kind: EventKind,
        record: &Record<'_>,
        previous: Revision,
        complete: Revision,
    ) -> Result<(), String> {
        let object = self.raw(record);
        let (key, revision) = (object.key.clone(), object.revision);
        if revision <= self.revision || complete < revision || (previous == 0) != (kind == EventKind::Added) {
            return Err(format!("{key} at {revision} does not follow {}", self.revision));
        }
        self.revision = revision;
        let known = if kind == EventKind::Deleted {
            self.objects.remove(&key)
        } else {
            self.entries_of_this.push(revision);
            self.objects.insert(key.clone(), object.clone())
        };
        let trimmed = self.header.map_or(0, |newest| newest.trimmed);
        match known {
            // Its version before was dropped with an old batch: no complete history reaches back here.
            None if previous != 0 && previous <= trimmed => self.raise_floor(&key.resource, complete),
            known if known.as_ref().map_or(0, |known| known.revision) == previous => {
                self.remember(RawEvent {
                    kind,
                    object,
                    previous: known,
                    complete,
                });
            }
            known => {
                let known = known.map_or(0, |known| known.revision);
                return Err(format!("{key} at {revision} follows {previous}, but {known} was there"));
            }
        }
        Ok(())
    }
}

/// Objects by revision, which is unique to a version: history and state share them.
struct Versions {
    indexer: Indexer,
    known: HashMap<Revision, Arc<Object>>,
}

impl Versions {
    fn object(&mut self, raw: Raw) -> Arc<Object> {
        let indexer = self.indexer;
        Arc::clone(
            self.known
                .entry(raw.revision)
                .or_insert_with(|| raw.object(indexer, Row::MAX)),
        )
    }
}

/// Computes the facets of the newest versions, on all cores: of a start this is what takes longest.
fn index(raws: &[Raw], indexer: Indexer) -> Vec<Arc<Object>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = raws.len().div_ceil(threads).max(SHARE_MIN);
    std::thread::scope(|scope| {
        let work = |(first, raws): (Row, &'_ [Raw])| {
            let numbered = (first..).zip(raws);
            numbered.map(|(row, raw)| raw.object(indexer, row)).collect::<Vec<_>>()
        };
        let shares: Vec<_> = (0..)
            .step_by(share)
            .zip(raws.chunks(share))
            .map(|share| scope.spawn(move || work(share)))
            .collect();
        let done = shares
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        done.flatten().collect()
    })
}
