//! Group commit: one thread, one batch after the other.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::folder::io_error;
use super::head::Transaction;
use super::log::Log;
use super::model::OpenError;
use super::{Backend, Shared};

/// A batch is closed when it has this much; what remains waits for the next.
const BATCH_BYTES: usize = 4 << 20;

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

fn run(shared: &Shared, mut log: Log) {
    while let Some(batch) = take(shared) {
        if let Err(what) = log.append(&batch, &shared.state) {
            shared.fail(batch, &what);
            return;
        }
        shared.show(&batch);
        shared.head.lock().settle(&batch);
        shared.answer(batch);
    }
}

/// The next batch: all that waits, in order, up to a limit. `None` when the store is closed and
/// nothing waits any more.
fn take(shared: &Shared) -> Option<Vec<Transaction>> {
    let mut head = shared.head.lock();
    while head.queue.is_empty() {
        if head.refusal.is_some() {
            return None;
        }
        shared.work.wait(&mut head);
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
