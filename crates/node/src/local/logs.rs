//! Logs of containers, as `kubectl logs` asks for them: over rotated files, from the end, from a time, and on as they grow.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use jiff::Timestamp;
use tokio::sync::mpsc;

use super::folder::PodFolder;
use super::state::{Now, PodState};

mod files;
mod lines;

use files::Reader;
use lines::{Form, Lines};

/// Which part of a log, in which form.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogWish {
    /// Goes on with what is written later, until the container ends.
    pub follow: bool,
    /// The run before this one.
    pub previous: bool,
    /// Each line begins with its time.
    pub timestamps: bool,
    /// Nothing that was written before.
    pub since: Option<Timestamp>,
    /// Only so many of the last lines of what was written so far.
    pub tail_lines: Option<u64>,
    /// At most so many bytes.
    pub limit_bytes: Option<u64>,
}

/// Why there is no log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The pod does not run on this machine.
    #[error("this machine does not have the pod's logs")]
    NoPod,
    /// The container has not begun.
    #[error("container {container:?} is waiting to start: {reason}")]
    Waiting {
        /// Which.
        container: String,
        /// What it waits for.
        reason: String,
    },
    /// There was no run before.
    #[error("previous terminated container {container:?} not found")]
    NoPrevious {
        /// Which.
        container: String,
    },
}

/// While a log is followed it is looked at this often.
const LOOK: Duration = Duration::from_millis(50);
/// Pieces that wait for who reads.
const PIECES_MAX: usize = 8;

/// Reads the log of a container of the pod with this uid; `pods` is the folder of all pods.
pub fn read(
    pods: &Path,
    uid: &str,
    container: &str,
    wish: LogWish,
) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + use<>, LogError> {
    let folder = PodFolder::of(pods, uid);
    if uid.is_empty() || uid.contains('/') || container.contains('/') || !folder.path().is_dir() {
        return Err(LogError::NoPod);
    }
    let run = which_run(&folder, container, wish.previous)?;
    let following = wish.follow && !wish.previous;
    let (pieces, out) = mpsc::channel(PIECES_MAX);
    let job = Job {
        path: folder.log(container, run),
        folder,
        container: container.to_owned(),
        run,
        wish,
    };
    tokio::spawn(async move {
        if let Err(error) = job.send_all(&pieces, following).await {
            let _ = pieces.send(Err(error)).await;
        }
    });
    Ok(futures::stream::unfold(out, |mut out| async move {
        Some((out.recv().await?, out))
    }))
}

/// Runs whose logs are there.
fn runs(folder: &PodFolder, container: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(folder.logs(container))
        .into_iter()
        .flatten()
        .flatten();
    let mut runs: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".log")?.parse().ok())
        .collect();
    runs.sort_unstable();
    runs
}

fn which_run(folder: &PodFolder, container: &str, previous: bool) -> Result<u32, LogError> {
    let runs = runs(folder, container);
    let state = super::agent::read_state(folder);
    let own = state.as_ref().and_then(|state| state.containers.get(container));
    let waits_again = own.is_some_and(|own| matches!(own.now, Now::Waiting { .. }) && own.last.is_some());
    if previous {
        // One that waits to be started again has its last run behind it.
        let found = if waits_again {
            runs.last()
        } else {
            runs.iter().rev().nth(1)
        };
        return found.copied().ok_or_else(|| LogError::NoPrevious {
            container: container.to_owned(),
        });
    }
    runs.last().copied().ok_or_else(|| LogError::Waiting {
        container: container.to_owned(),
        reason: match own.map(|own| &own.now) {
            Some(Now::Waiting { reason, .. }) => reason.clone(),
            _ => "ContainerCreating".to_owned(),
        },
    })
}

/// Whether nothing more can come into the log of this run.
fn is_over(state: Option<&PodState>, folder: &PodFolder, container: &str, run: u32) -> bool {
    let Some(state) = state else {
        return !folder.path().is_dir();
    };
    let own = state.containers.get(container);
    state.over.is_some()
        || own.is_none_or(|own| !matches!(own.now, Now::Running { .. }))
        || runs(folder, container).last().is_some_and(|last| *last > run)
}

struct Job {
    folder: PodFolder,
    container: String,
    run: u32,
    path: PathBuf,
    wish: LogWish,
}

type Pieces = mpsc::Sender<io::Result<Bytes>>;

impl Job {
    async fn send_all(&self, pieces: &Pieces, following: bool) -> io::Result<()> {
        let mut reader = Reader::open(&self.path)?;
        if let Some(count) = self.wish.tail_lines {
            reader = files::from_last_lines(reader, count)?;
        }
        let mut lines = Lines::new(Form {
            timestamps: self.wish.timestamps,
            since: self.wish.since,
            limit: self.wish.limit_bytes,
        });
        loop {
            // Asked before the reading: what was written until then is read.
            let over = !following || is_over(self.state().as_ref(), &self.folder, &self.container, self.run);
            while let Some(bytes) = reader.next(&self.path)? {
                let text = lines.take(&bytes);
                if !text.is_empty() && pieces.send(Ok(text.into())).await.is_err() {
                    return Ok(());
                }
                if lines.is_full() {
                    return Ok(());
                }
            }
            if over {
                return Ok(());
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = pieces.closed() => return Ok(()),
            }
        }
    }

    fn state(&self) -> Option<PodState> {
        super::agent::read_state(&self.folder)
    }
}

/// Opens a file; absent if there is none.
fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
