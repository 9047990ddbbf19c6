//! The log on disk: batches in a redb table, in order. redb owns the hard part, durability.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use parking_lot::RwLock;
use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};

use super::Options;
use super::folder::{Condition, Folder, io_error};
use super::head::Transaction;
use super::model::{OpenError, Revision};
use super::pieces::Cut;
use super::reclaim::{self, Alive, Batch, Entry, Plan};
use super::record::{self, Header};
use super::replay::{Replay, Replayed};
use super::state::State;

/// Sequence of a batch, number of a piece of it.
type Piece = (u64, u32);
/// The pieces of batches.
const BATCHES: TableDefinition<'static, Piece, &[u8]> = TableDefinition::new("batches");
/// redb's page cache. Batches are written once and read at the start only, so it need not be large;
/// but half of it must hold a usual batch, or redb writes pages before they are complete, and again.
const CACHE_BYTES: usize = 48 << 20;

/// The log, open for writing.
pub(super) struct Log {
    database: Database,
    batches: VecDeque<Batch>,
    /// The size of all batches.
    total_bytes: u64,
    /// What is alive in them.
    alive: Alive,
    floor: u64,
    trimmed: Revision,
    next_sequence: u64,
    /// Buffers, kept from batch to batch.
    buffer: Vec<u8>,
    first: Vec<u8>,
    /// Last, so that the lock is let go after the database is closed.
    _folder: Option<Folder>,
}

impl Log {
    /// Opens the log of a folder and reads it.
    pub(super) fn open(folder: Folder, condition: Condition, options: &Options) -> Result<(Self, State), OpenError> {
        let (path, file) = (folder.path().to_owned(), folder.log());
        let load = || match condition {
            Condition::New => {
                folder.clear_log().map_err(Failure::Open)?;
                create(builder().create(&file), options)
            }
            Condition::Ready if !file.exists() => Err(Failure::Damage("the log is missing".to_owned())),
            Condition::Ready => load(&file, options),
        };
        let loaded =
            catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|panic| Err(Failure::Damage(message(&*panic))));
        let (database, replayed) = loaded.map_err(|failure| match failure {
            Failure::Open(error) => error,
            Failure::Io(source) => io_error(&file, source),
            Failure::Damage(what) => OpenError::Corrupt { path, what },
        })?;
        if condition == Condition::New {
            folder.declare(Condition::Ready)?;
        }
        Ok(Self::new(database, replayed, Some(folder), options))
    }

    pub(super) fn new(
        database: Database,
        replayed: Replayed,
        folder: Option<Folder>,
        options: &Options,
    ) -> (Self, State) {
        let log = Self {
            database,
            total_bytes: replayed.batches.iter().map(|batch| batch.bytes).sum(),
            batches: replayed.batches,
            alive: replayed.alive,
            floor: options.log_bytes_floor,
            trimmed: replayed.trimmed,
            next_sequence: replayed.next_sequence,
            buffer: Vec::new(),
            first: Vec::new(),
            _folder: folder,
        };
        (log, replayed.state)
    }

    /// Writes a batch and waits until it is durable; shortens the log by the way. `visible` may lag behind what was
    /// written before. After an error the log must not be used again: what is on disk is known only after it has been
    /// opened anew.
    pub(super) fn append(&mut self, transactions: &[Transaction], visible: &RwLock<State>) -> Result<(), String> {
        let written = catch_unwind(AssertUnwindSafe(|| self.try_append(transactions, visible)));
        match written {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(panic) => Err(message(&*panic)),
        }
    }

    /// What to do for the log beside these writes of `bytes`.
    fn plan(&mut self, bytes: u64, writes: usize, visible: &RwLock<State>) -> Plan {
        let allowed = self.alive.bytes().saturating_mul(2).saturating_add(self.floor);
        let excess = (self.total_bytes + bytes).saturating_sub(allowed);
        let find = |entry: Entry| visible.read().version(entry.row, entry.revision);
        reclaim::plan(&mut self.batches, &self.alive, find, excess, (bytes, writes))
    }

    fn try_append(&mut self, transactions: &[Transaction], visible: &RwLock<State>) -> Result<(), redb::Error> {
        let events = || transactions.iter().flat_map(|transaction| &transaction.events);
        let Some(last) = events().last() else { return Ok(()) };
        let bytes: u64 = events().map(|event| record::size(&event.object)).sum();
        let plan = self.plan(bytes, events().count(), visible);
        let compacted = visible.read().compacted();
        let sequence = self.next_sequence;
        let dropped = plan.dropped.last().map_or(0, |batch| batch.revision);
        let header = Header {
            sequence,
            oldest: self.batches.front().map_or(sequence, |batch| batch.sequence),
            revision: last.revision,
            trimmed: self.trimmed.max(dropped).max(compacted),
        };
        let transaction = self.database.begin_write()?;
        let mut batch = Batch::new(sequence, &plan.carried, transactions);
        {
            let mut table = transaction.open_table(BATCHES)?;
            let put = |piece: u32, bytes: &[u8]| table.insert((sequence, piece), bytes).map(drop);
            let mut cut = Cut::new(&mut self.first, put);
            self.buffer.clear();
            record::encode(&mut self.buffer, header, &plan.carried, transactions, |bytes| {
                cut.complete(bytes)
            })?;
            (batch.bytes, batch.pieces) = cut.finish(&self.buffer)?;
            for batch in &plan.dropped {
                for piece in 0..batch.pieces {
                    table.remove((batch.sequence, piece))?;
                }
            }
        }
        transaction.commit()?;
        self.total_bytes += batch.bytes;
        self.total_bytes -= plan.dropped.iter().map(|batch| batch.bytes).sum::<u64>();
        self.batches.push_back(batch);
        self.next_sequence += 1;
        self.trimmed = header.trimmed;
        events().for_each(|event| self.alive.follow(event));
        Ok(())
    }
}

/// Why a log could not be opened.
#[derive(Debug)]
pub(super) enum Failure {
    Open(OpenError),
    Io(std::io::Error),
    Damage(String),
}

fn failure(error: impl Into<redb::Error>) -> Failure {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match error.into() {
        redb::Error::Io(error) if !matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof) => {
            Failure::Io(error)
        }
        other => Failure::Damage(other.to_string()),
    }
}

pub(super) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// A new database with an empty log.
pub(super) fn create(
    created: Result<Database, DatabaseError>,
    options: &Options,
) -> Result<(Database, Replayed), Failure> {
    let database = created.map_err(failure)?;
    let transaction = database.begin_write().map_err(failure)?;
    transaction.open_table(BATCHES).map_err(failure)?;
    transaction.commit().map_err(failure)?;
    let replayed = Replay::new(None, options).finish(options).map_err(Failure::Damage)?;
    Ok((database, replayed))
}

/// Reads a log, and only then opens it for writing: opening writes, and a log that turns out to be
/// damaged is to stay as it is. After a crash redb has to repair first.
fn load(file: &Path, options: &Options) -> Result<(Database, Replayed), Failure> {
    match builder().open_read_only(file) {
        Ok(database) => {
            let replayed = replay(&database, options)?;
            drop(database);
            Ok((builder().open(file).map_err(failure)?, replayed))
        }
        Err(DatabaseError::RepairAborted) => {
            let database = builder().open(file).map_err(failure)?;
            let replayed = replay(&database, options)?;
            Ok((database, replayed))
        }
        Err(error) => Err(failure(error)),
    }
}

fn replay(database: &impl ReadableDatabase, options: &Options) -> Result<Replayed, Failure> {
    let transaction = database.begin_read().map_err(failure)?;
    let table = transaction.open_table(BATCHES).map_err(failure)?;
    let newest = match table.last().map_err(failure)? {
        Some((key, _)) => {
            let (sequence, _) = key.value();
            let mut bytes = Vec::new();
            for piece in table.range((sequence, 0)..).map_err(failure)? {
                bytes.extend_from_slice(piece.map_err(failure)?.1.value());
            }
            Some(record::header(&bytes).map_err(|what| in_batch(sequence, &what))?.0)
        }
        None => None,
    };
    let mut replay = Replay::new(newest, options);
    let mut batch = |sequence: u64, pieces: u32, bytes: &mut Vec<u8>| {
        let replayed = replay.batch(sequence, pieces, bytes);
        bytes.clear();
        replayed.map_err(|what| in_batch(sequence, &what))
    };
    let (mut current, mut bytes) = (None, Vec::new());
    for entry in table.iter().map_err(failure)? {
        let (key, value) = entry.map_err(failure)?;
        let (sequence, piece) = key.value();
        match current {
            Some((before, pieces)) if before != sequence => batch(before, pieces, &mut bytes)?,
            _ => {}
        }
        current = Some((sequence, piece.saturating_add(1)));
        bytes.extend_from_slice(value.value());
    }
    if let Some((last, pieces)) = current {
        batch(last, pieces, &mut bytes)?;
    }
    replay.finish(options).map_err(Failure::Damage)
}

fn in_batch(sequence: u64, what: &str) -> Failure {
    Failure::Damage(format!("batch {sequence} of the log: {what}"))
}

/// What a panic said. redb panics on some kinds of damage; to us they are all the same.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
