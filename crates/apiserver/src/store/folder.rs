//! The folder of a store: whose it is, in which format, and that nobody else has it open.
//!
//! ```text
//! FORMAT     "basalt store", the format's number, and whether the log was completely created
//! lock       locked while open; holds the process id
//! log.redb   the log
//! ```
//! `FORMAT` is a plain file, so that a folder can be refused without opening (and so touching) a
//! database that is not ours.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::model::OpenError;

/// The format that this code reads and writes.
const FORMAT: u32 = 1;
const FORMAT_FILE: &str = "FORMAT";
const FORMAT_DRAFT: &str = "FORMAT.new";
const LOCK_FILE: &str = "lock";
const LOG_FILE: &str = "log.redb";
/// The first line of `FORMAT`.
const KIND: &str = "basalt store";
/// More than this is no file of ours.
const FILE_BYTES_MAX: u64 = 4096;
/// How long a lock is waited for whose holder lives no more.
const HEIR_MAX: Duration = Duration::from_secs(2);

/// A store's folder, locked until this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

/// What a folder says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// There is no log yet, or only the beginning of one, in which nothing was ever acknowledged.
    New,
    /// There is a log.
    Ready,
}

impl Folder {
    /// Locks the folder, which is created when it does not exist, and says in what condition it is.
    pub(super) fn open(path: &Path) -> Result<(Self, Condition), OpenError> {
        // Before anything is written: a folder of somebody else is left as it is.
        let known = examine(path)?;
        if known.is_none() {
            fs::create_dir_all(path).map_err(|source| io_error(path, source))?;
        }
        let folder = Self {
            path: path.to_owned(),
            _lock: lock(path)?,
        };
        // Again, now that nobody else can be creating it.
        let condition = if let Some(condition) = examine(path)? {
            condition
        } else {
            folder.declare(Condition::New)?;
            Condition::New
        };
        Ok((folder, condition))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join(LOG_FILE)
    }

    /// Removes the beginning of a log that was never completed.
    pub(super) fn clear_log(&self) -> Result<(), OpenError> {
        match fs::remove_file(self.log()) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(io_error(&self.log(), source)),
            _ => Ok(()),
        }
    }

    /// Writes `FORMAT`, durably and at once.
    pub(super) fn declare(&self, condition: Condition) -> Result<(), OpenError> {
        let word = match condition {
            Condition::New => "new",
            Condition::Ready => "ready",
        };
        let draft = self.path.join(FORMAT_DRAFT);
        let write = || {
            let mut file = File::create(&draft)?;
            file.write_all(format!("{KIND}\nformat {FORMAT}\n{word}\n").as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, self.path.join(FORMAT_FILE))?;
            File::open(&self.path)?.sync_all()?;
            // The folder itself may be new, too.
            self.path
                .parent()
                .filter(|parent| parent.is_dir())
                .map_or(Ok(()), |parent| File::open(parent)?.sync_all())
        };
        write().map_err(|source| io_error(&draft, source))
    }
}

/// `None`: empty or not there.
fn examine(path: &Path) -> Result<Option<Condition>, OpenError> {
    let format = path.join(FORMAT_FILE);
    let mut text = String::new();
    let read = File::open(&format).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    match read.map_err(|error| (error.kind(), error)) {
        Ok(_) => parse(path, &text).map(Some),
        Err((io::ErrorKind::NotFound, _)) => examine_without_format(path).map(|()| None),
        Err((io::ErrorKind::NotADirectory, _)) => Err(foreign(path, "it is not a folder".to_owned())),
        Err((io::ErrorKind::InvalidData, _)) => Err(foreign(path, format!("{FORMAT_FILE} is not text"))),
        Err((_, source)) => Err(io_error(&format, source)),
    }
}

/// Only a folder that is not there or holds nothing of anybody may become a store.
fn examine_without_format(path: &Path) -> Result<(), OpenError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(io_error(path, source)),
    };
    for entry in entries {
        let name = entry.map_err(|source| io_error(path, source))?.file_name();
        // These two can be left of a creation that was interrupted.
        if name != LOCK_FILE && name != FORMAT_DRAFT {
            let name = name.to_string_lossy();
            return Err(foreign(
                path,
                format!("it has no {FORMAT_FILE} file, but it has {name:?}"),
            ));
        }
    }
    Ok(())
}

fn parse(path: &Path, text: &str) -> Result<Condition, OpenError> {
    let mut lines = text.lines();
    if lines.next() != Some(KIND) {
        return Err(foreign(path, format!("{FORMAT_FILE} does not begin with {KIND:?}")));
    }
    let found = lines.next().unwrap_or_default();
    let found = found.strip_prefix("format ").unwrap_or(found);
    if found != FORMAT.to_string() {
        return Err(OpenError::Version {
            path: path.to_owned(),
            found: found.to_owned(),
            known: FORMAT,
        });
    }
    match lines.next() {
        Some("new") => Ok(Condition::New),
        Some("ready") => Ok(Condition::Ready),
        other => Err(OpenError::Corrupt {
            path: path.to_owned(),
            what: format!("{FORMAT_FILE} says {other:?}"),
        }),
    }
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let at = path.join(LOCK_FILE);
    let fail = |source| io_error(&at, source);
    let open = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&at);
    let mut file = open.map_err(fail)?;
    // A child that was being started when its server was killed holds the lock until it has become its program.
    let until = Instant::now() + HEIR_MAX;
    loop {
        let holder = match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => holder(&mut file),
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        };
        let gone = holder.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists());
        if !gone || Instant::now() > until {
            return Err(OpenError::Locked {
                path: path.to_owned(),
                pid: holder,
            });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    file.set_len(0).map_err(fail)?;
    file.rewind().map_err(fail)?;
    writeln!(file, "{}", std::process::id()).map_err(fail)?;
    Ok(file)
}

/// Who holds the lock, as far as it is known.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn foreign(path: &Path, why: String) -> OpenError {
    OpenError::Foreign {
        path: path.to_owned(),
        why,
    }
}

pub(super) fn io_error(path: &Path, source: io::Error) -> OpenError {
    OpenError::Io {
        path: path.to_owned(),
        source,
    }
}
