//! The store: revisioned, transactional, durable. It knows nothing of HTTP or Kubernetes; bodies
//! are opaque bytes with a hole for the revision.
//!
//! - **Readers see only what is durable.** A write becomes visible after its fsync, and its
//!   transaction as a whole.
//! - **Conditions are checked against the head**, which includes writes still on their way to disk,
//!   so a chain of dependent writes does not wait for one fsync each.
//! - **Group commit.** One thread takes everything that waits, writes it as one record of a log kept
//!   in redb, lets redb fsync it, makes it visible, and answers. While it does so the next batch fills.
//! - **The log stays short.** When it is much longer than what is alive, commits carry what still
//!   lives out of its oldest records and drop those; see `reclaim`.
//! - **Every write has its own revision**; those of a transaction follow each other. So a watcher can
//!   resume after any event, also between two of one transaction.
//! - No clock, no randomness: with [`Backend::Memory`] there is no thread either, and a commit is
//!   done when the first poll of its future returns.

mod committer;
mod folder;
mod head;
mod log;
mod model;
mod pieces;
mod prepare;
mod reclaim;
mod record;
mod replay;
mod state;
#[cfg(test)]
mod tests;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, RwLock};
use smallvec::SmallVec;
use tokio::sync::{Semaphore, oneshot};

use folder::Folder;
use head::{Head, Transaction};
use log::Log;
pub use model::{
    Commit, CommitError, Compacted, Draft, Event, EventKind, Expect, FIRST_REVISION, Facets, Indexer, Key, Listing,
    Object, OpenError, Revision, Write,
};
use state::{State, TableId};
pub use watch::Watch;

/// The unit in which waiting writes are counted against [`Options::pending_bytes_max`].
const PERMIT_BYTES: usize = 1024;
/// No transaction is larger, whatever the options say.
const TRANSACTION_BYTES_LIMIT: usize = 1 << 30;
/// How many writes are made visible in one hold of the lock (a larger transaction is one hold).
const SHOWN_AT_ONCE: usize = 64;

/// Where the store keeps its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Nowhere: it ends with the process.
    Memory,
    /// In this folder, which belongs to the store alone. It is created when it does not exist.
    Disk(PathBuf),
}

/// How to open a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the data is.
    pub backend: Backend,
    /// Computes [`Object::facets`].
    pub indexer: Indexer,
    /// How much history is kept in memory for watchers, over all resources.
    pub history_bytes_max: usize,
    /// How much may wait for the disk before further writers wait too.
    pub pending_bytes_max: usize,
    /// The largest transaction.
    pub transaction_bytes_max: usize,
    /// The log is never reclaimed below this length.
    pub log_bytes_floor: u64,
}

impl Options {
    /// The usual limits, and no facets.
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            indexer: |_, _| Facets::default(),
            history_bytes_max: 64 << 20,
            pending_bytes_max: 64 << 20,
            transaction_bytes_max: 256 << 20,
            log_bytes_floor: 64 << 20,
        }
    }
}

/// What the store, its committer and its watchers share.
struct Shared {
    options: Options,
    /// Taken before `state` where both are needed.
    head: Mutex<Head>,
    /// Rings when there is something for the committer to do.
    work: Condvar,
    state: RwLock<State>,
    /// Room for waiting writes.
    room: Semaphore,
}

/// The store. Clones are handles to the same one; the last to go closes it.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// Shared by the clones, but not by the committer: it ends when they are gone.
    committer: Arc<Committer>,
}

impl Store {
    /// Opens or creates a store. What is in it is read completely and checked.
    pub fn open(mut options: Options) -> Result<Self, OpenError> {
        // Lengths are 32 bits wide in the log.
        options.transaction_bytes_max = options.transaction_bytes_max.min(TRANSACTION_BYTES_LIMIT);
        let (log, state) = match &options.backend {
            Backend::Memory => (None, State::new(options.history_bytes_max)),
            Backend::Disk(path) => {
                let (folder, condition) = Folder::open(path)?;
                let (log, state) = Log::open(folder, condition, &options)?;
                (Some(log), state)
            }
        };
        Self::start(options, log, state)
    }

    fn start(options: Options, log: Option<Log>, state: State) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared {
            head: Mutex::new(Head::new(&state)),
            work: Condvar::new(),
            state: RwLock::new(state),
            room: Semaphore::new(permits(options.pending_bytes_max) as usize),
            options,
        });
        let thread = match log {
            Some(log) => Some(committer::spawn(&shared, log)?),
            None => None,
        };
        let committer = Arc::new(Committer {
            shared: Arc::clone(&shared),
            thread: Mutex::new(thread),
        });
        Ok(Self { shared, committer })
    }

    /// Takes no more writes, finishes those that wait, and lets go of the folder. Reading goes on.
    pub fn close(&self) {
        self.committer.close();
    }

    /// Why no writes are taken any more: the store is closed, or its disk failed.
    pub fn refusal(&self) -> Option<CommitError> {
        self.shared.head.lock().refusal.clone()
    }

    /// The durable version of an object.
    pub fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.shared
            .state
            .read()
            .get(&key.resource, &key.namespace, &key.name)
            .cloned()
    }

    /// The newest version, including writes still on their way to disk: the base of a
    /// read-modify-write, never an answer to a reader.
    pub fn head(&self, key: &Key) -> Option<Arc<Object>> {
        self.shared.head.lock().get(key, || self.get(key))
    }

    /// All objects of a resource, or of one namespace of it, at one revision, in key order.
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> Listing {
        self.shared.state.read().list(resource, namespace)
    }

    /// The same as it was at an older revision. A revision inside a transaction means all of it; one
    /// that is not reached yet means the newest. [`Listing::revision`] says which it became.
    pub fn list_at(&self, resource: &str, namespace: Option<&str>, revision: Revision) -> Result<Listing, Compacted> {
        self.shared.state.read().list_at(resource, namespace, revision)
    }

    /// How many objects each resource has; resources without any are left out.
    pub fn counts(&self) -> Vec<(Arc<str>, usize)> {
        self.shared
            .state
            .read()
            .counts()
            .map(|(resource, count)| (Arc::clone(resource), count))
            .collect()
    }

    /// The newest durable revision.
    pub fn revision(&self) -> Revision {
        self.shared.state.read().revision()
    }

    /// Forgets history up to and including a revision. Objects stay.
    pub fn compact(&self, up_to: Revision) {
        self.shared.state.write().compact(up_to);
    }

    /// The changes of a resource after a revision.
    pub fn watch(&self, resource: &str, after: Revision) -> Result<Watch, Compacted> {
        Watch::new(&self.shared, resource, after)
    }

    /// Does all of it or nothing. Returns when it is durable and visible. When the future is dropped
    /// before that, it may or may not have happened.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<Commit, CommitError> {
        let shared = &*self.shared;
        let steps = prepare::steps(writes, shared.options.indexer);
        let (bytes, max) = (prepare::weight(&steps), shared.options.transaction_bytes_max);
        if bytes > max {
            return Err(CommitError::TooLarge { bytes, max });
        }
        let weight = permits(bytes).min(permits(shared.options.pending_bytes_max));
        let room = shared
            .room
            .acquire_many(weight)
            .await
            .map_err(|_| CommitError::Closed)?;
        let (commit, done) = shared.submit(steps, bytes, weight)?;
        room.forget();
        match done.await {
            Ok(Ok(())) => Ok(commit),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(CommitError::Closed),
        }
    }
}

type Done = oneshot::Receiver<Result<(), CommitError>>;

impl Shared {
    fn submit(&self, steps: prepare::Steps, bytes: usize, permits: u32) -> Result<(Commit, Done), CommitError> {
        let (done, receiver) = oneshot::channel();
        let mut head = self.head.lock();
        let accepted = head.accept(steps)?;
        let commit = Commit {
            revision: accepted.revision,
            objects: accepted.objects,
        };
        let transaction = Transaction {
            events: accepted.events,
            bytes,
            permits,
            done,
        };
        match self.options.backend {
            Backend::Memory => {
                let mut batch = [transaction];
                self.show(&mut batch);
                self.answer(batch);
            }
            Backend::Disk(_) => {
                head.queue.push_back(transaction);
                drop(head);
                self.work.notify_one();
            }
        }
        Ok((commit, receiver))
    }

    /// Makes a batch visible and wakes its watchers. Its events move to where they are seen.
    fn show(&self, batch: &mut [Transaction]) {
        let mut rest = batch.iter_mut();
        while rest.len() > 0 {
            // Readers get in between, but never between the writes of one transaction.
            let mut bells: SmallVec<[Arc<watch::Bell>; 4]> = SmallVec::new();
            let mut touched: SmallVec<[TableId; 4]> = SmallVec::new();
            let mut state = self.state.write();
            let mut shown = 0;
            while shown < SHOWN_AT_ONCE
                && let Some(transaction) = rest.next()
            {
                shown += transaction.events.len().max(1);
                for event in transaction.events.drain(..) {
                    let table = state.apply(event);
                    if !touched.contains(&table) {
                        touched.push(table);
                    }
                }
            }
            bells.extend(touched.into_iter().map(|table| Arc::clone(state.bell(table))));
            drop(state);
            for bell in bells {
                bell.send_replace(());
            }
        }
    }

    /// Answers the writers of a batch that is visible. Not under the lock of the head, except where
    /// nobody waits yet: waking a writer can drop the last handle, and closing takes that lock.
    fn answer(&self, batch: impl IntoIterator<Item = Transaction>) {
        let permits = batch.into_iter().map(|transaction| {
            // A writer that no longer waits is not an error.
            let _ = transaction.done.send(Ok(()));
            transaction.permits as usize
        });
        self.room.add_permits(permits.sum());
    }

    /// The disk failed: nothing of what waits happens, and nothing more is taken.
    fn fail(&self, batch: Vec<Transaction>, what: &str) {
        tracing::error!(
            error = what,
            "the store cannot write to its disk and refuses writes from now on"
        );
        let error = CommitError::Io(Arc::from(what));
        let waiting = self.head.lock().fail(error.clone());
        let permits = batch.into_iter().chain(waiting).map(|transaction| {
            let _ = transaction.done.send(Err(error.clone()));
            transaction.permits as usize
        });
        // Those who wait for room get in, and get their refusal.
        self.room.add_permits(permits.sum());
    }
}

/// The thread that writes, for as long as there are handles to the store.
struct Committer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Committer {
    fn close(&self) {
        self.shared.head.lock().refusal.get_or_insert(CommitError::Closed);
        self.shared.work.notify_all();
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        // Waking a writer can drop the last handle on the committer's own thread.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the store's committer panicked");
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.close();
    }
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX)
}
