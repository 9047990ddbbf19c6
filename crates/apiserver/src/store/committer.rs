//! Group commit: one thread, one batch after the other.

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::MutexGuard;

use super::folder::io_error;
use super::head::Transaction;
use super::log::Log;
use super::model::OpenError;
use super::{Backend, Shared};

/// A batch is closed when it has this much; what remains waits for the next.
const BATCH_BYTES: usize = 4 << 20;
/// Smaller batches are answered at once: passing them on would take longer.
const ANSWERED_MEANWHILE: usize = 16;
/// How many batches may be durable before they are shown.
const AHEAD_MAX: usize = 4;
/// After a batch of this many it is worth waiting for the next to fill.
const LINGER_FOR: usize = 8;
/// How long to wait for one more writer: a fraction of what an fsync takes.
const LINGER: Duration = Duration::from_micros(50);

pub(super) fn spawn(shared: &Arc<Shared>, log: Log) -> Result<JoinHandle<()>, OpenError> {
    let committer = Arc::clone(shared);
    let thread = std::thread::Builder::new()
        .name("store".to_owned())
        .spawn(move || run(&committer, log));
    thread.map_err(|source| match &shared.options.backend {
        Backend::Disk(path) => io_error(path, source),
        Backend::Memory => io_error("".as_ref(), source),
    })
}

/// What the other thread is asked for.
enum Ask {
    /// Show a durable batch, and answer its writers.
    Publish(Vec<Transaction>),
    /// Say when everything before is shown.
    Report(mpsc::SyncSender<()>),
}

/// Writes one batch after the other. Showing a batch and waking a thousand writers takes as long as a write to the
/// disk, so another thread does it meanwhile, in the same order.
fn run(shared: &Shared, mut log: Log) {
    let (publisher, asks) = mpsc::channel();
    // `publisher` moves in, so that its end, which ends the other thread, comes before the wait for that.
    std::thread::scope(move |scope| {
        let answers = std::thread::Builder::new().name("store-answers".to_owned());
        let spawned = answers.spawn_scoped(scope, move || asks.into_iter().for_each(|ask| serve(shared, ask)));
        if let Err(error) = spawned {
            return shared.fail(Vec::new(), &error.to_string());
        }
        let (mut last, mut ahead) = (0, 0);
        while let Some(batch) = take(shared, last) {
            last = batch.len();
            let small = last < ANSWERED_MEANWHILE;
            if ahead >= AHEAD_MAX || (small && ahead > 0) {
                if !catch_up(&publisher) {
                    return shared.fail(batch, "the thread that answers has ended");
                }
                ahead = 0;
            }
            if let Err(what) = log.append(&batch, &shared.state) {
                return shared.fail(batch, &what);
            }
            if small {
                publish(shared, batch);
            } else {
                ahead += 1;
                if publisher.send(Ask::Publish(batch)).is_err() {
                    return shared.fail(Vec::new(), "the thread that answers has ended");
                }
            }
        }
    });
}

/// Waits until the other thread has done everything asked so far; false if it is gone.
fn catch_up(publisher: &mpsc::Sender<Ask>) -> bool {
    let (done, shown) = mpsc::sync_channel(1);
    publisher.send(Ask::Report(done)).is_ok() && shown.recv().is_ok()
}

fn serve(shared: &Shared, ask: Ask) {
    match ask {
        Ask::Publish(batch) => publish(shared, batch),
        Ask::Report(done) => {
            // Who asked may be gone: then the store is ending.
            let _ = done.send(());
        }
    }
}

fn publish(shared: &Shared, mut batch: Vec<Transaction>) {
    shared.show(&mut batch);
    shared.answer(batch);
}

/// The next batch: all that waits, in order, up to a limit. `None` when the store is closed and
/// nothing waits any more.
fn take(shared: &Shared, last: usize) -> Option<Vec<Transaction>> {
    let mut head = shared.head.lock();
    while head.queue.is_empty() {
        if head.refusal.is_some() {
            return None;
        }
        shared.work.wait(&mut head);
    }
    // The writers that the last batch has answered come back one by one. A batch of the first few would cost nearly as
    // much as one of half of them, so as long as they keep coming, that many are waited for. Not all: the other half
    // is answered and comes back while this one is on its way to the disk.
    let mut seen = 0;
    while last >= LINGER_FOR && seen < head.queue.len() && head.queue.len() < last / 2 {
        seen = head.queue.len();
        MutexGuard::unlocked(&mut head, || std::thread::sleep(LINGER));
    }
    let mut bytes = 0;
    let count = head.queue.iter().take_while(|transaction| {
        let fits = bytes < BATCH_BYTES;
        bytes += transaction.bytes;
        fits
    });
    let count = count.count();
    Some(head.queue.drain(..count).collect())
}
