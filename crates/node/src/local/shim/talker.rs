//! Calls the agent, and calls again until there is one.

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::record::Record;
use crate::local::talk::{FromShim, LINE_MAX, ToShim};

/// Between two calls.
const AGAIN: Duration = Duration::from_millis(200);
/// A line that the agent does not take for so long means that it is as good as gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// Talks until the pod is over and the agent, if there is one, knows it.
pub(super) async fn talk(record: Rc<Record>, socket: &Path, orders: impl Fn(ToShim), mut over: watch::Receiver<bool>) {
    let mut last_call = None;
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => match converse(&record, stream, &orders, &mut over).await {
                Ok(()) => return,
                Err(error) => eprintln!("agent: {error}"),
            },
            // An agent that is alive but busy has a full queue of calls: it would not look into the file again.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let since = last_call.get_or_insert_with(Instant::now);
                if *over.borrow() && since.elapsed() > PATIENCE {
                    return;
                }
                sleep(Duration::from_millis(5)).await;
                continue;
            }
            // Nobody listens: who comes later begins with the files.
            Err(_) if *over.borrow() => return,
            Err(_) => {}
        }
        tokio::select! {
            () = sleep(AGAIN) => {}
            _ = over.wait_for(|over| *over) => {}
        }
    }
}

/// One connection; comes back without an error when all was said.
async fn converse(
    record: &Record,
    stream: UnixStream,
    orders: &impl Fn(ToShim),
    over: &mut watch::Receiver<bool>,
) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    let mut said = None;
    loop {
        if said != Some(record.sequence()) {
            let state = record.state();
            said = Some(state.sequence);
            say(&mut write, &FromShim::State(Box::new(state))).await?;
        }
        while let Some(told) = record.next_told() {
            if let Err(error) = say(&mut write, &told).await {
                record.untold(told);
                return Err(error);
            }
        }
        if said != Some(record.sequence()) {
            continue;
        }
        if *over.borrow() {
            return write.shutdown().await;
        }
        tokio::select! {
            () = record.changed() => {}
            _ = over.wait_for(|over| *over) => {}
            heard = hear(&mut read, &mut line) => {
                let text = heard?;
                match serde_json::from_slice(&text) {
                    Ok(order) => orders(order),
                    Err(error) => eprintln!("agent: not understood: {error}"),
                }
            }
        }
    }
}

/// One line, whole; what was read of it survives when the caller turns to something else.
async fn hear(read: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let room = (LINE_MAX as u64).saturating_sub(line.len() as u64);
    read.take(room).read_until(b'\n', line).await?;
    if line.last() == Some(&b'\n') {
        return Ok(std::mem::take(line));
    }
    let kind = if line.len() >= LINE_MAX {
        io::ErrorKind::InvalidData
    } else {
        io::ErrorKind::UnexpectedEof
    };
    Err(io::Error::new(kind, "the connection ended without a whole line"))
}

async fn say(write: &mut OwnedWriteHalf, what: &FromShim) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    timeout(PATIENCE, write.write_all(&line))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "it does not listen"))?
}
