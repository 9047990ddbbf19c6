//! A container's output in a file: one line of CRI's format each, rotated.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use jiff::Timestamp;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// A file is put aside when it has grown to this.
pub(super) const FILE_MAX: u64 = 10 * 1024 * 1024;
/// Files of one run, the present one included.
pub(super) const FILES_MAX: u32 = 5;
/// Longer lines are cut into parts, as container runtimes do.
const PART_MAX: usize = 16 * 1024;

/// The log of one run.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// Absent while the disk refuses it.
    file: Option<File>,
    size: u64,
    file_max: u64,
    /// Bytes that could not be written, until it is possible again.
    lost: u64,
}

impl Log {
    /// Opens the log of a run; where that is impossible the output is read all the same.
    pub(super) fn open(path: PathBuf, file_max: u64) -> Self {
        let mut log = Self {
            path,
            file: None,
            size: 0,
            file_max,
            lost: 0,
        };
        if let Err(error) = log.reopen() {
            eprintln!("log {}: {error}", log.path.display());
        }
        log
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.path)?;
        self.size = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    /// Writes whole lines; what the disk refuses is counted and given up: the pod must not suffer.
    fn append(&mut self, lines: &[u8]) {
        if let Err(error) = self.try_append(lines) {
            if self.lost == 0 {
                eprintln!(
                    "log {}: {error}; output is dropped until it can be written",
                    self.path.display()
                );
            }
            self.lost = self.lost.saturating_add(lines.len() as u64);
            self.file = None;
        }
    }

    fn try_append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.reopen()?;
        }
        if self.size > 0 && self.size.saturating_add(lines.len() as u64) > self.file_max {
            self.rotate()?;
        }
        let Some(file) = self.file.as_mut() else { return Ok(()) };
        if let Err(error) = file.write_all(lines) {
            // A part of a line would spoil the next one.
            let _ = file.set_len(self.size);
            return Err(error);
        }
        self.size = self.size.saturating_add(lines.len() as u64);
        if self.lost > 0 {
            eprintln!(
                "log {}: {} bytes of output were dropped",
                self.path.display(),
                self.lost
            );
            self.lost = 0;
        }
        Ok(())
    }

    /// `N.log.3` becomes `N.log.4`, …, `N.log` becomes `N.log.1`; the oldest goes.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        for age in (1..FILES_MAX.saturating_sub(1)).rev() {
            ignore_absent(fs::rename(aged(&self.path, age), aged(&self.path, age + 1)))?;
        }
        fs::rename(&self.path, aged(&self.path, 1))?;
        self.reopen()
    }
}

/// `N.log.AGE`.
fn aged(path: &Path, age: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{age}"));
    PathBuf::from(name)
}

fn ignore_absent(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes all files of a run.
pub(super) fn remove(path: &Path) {
    for old in std::iter::once(path.to_owned()).chain((1..FILES_MAX).map(|age| aged(path, age))) {
        if let Err(error) = ignore_absent(fs::remove_file(&old)) {
            eprintln!("log {}: {error}", old.display());
        }
    }
}

/// One of the two streams of a container.
#[derive(Debug)]
struct Stream {
    name: &'static str,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
}

impl Stream {
    /// Turns what came into lines of the log; `last`: nothing comes after it.
    fn lines(&mut self, bytes: &[u8], last: bool, out: &mut Vec<u8>) {
        let now = format!("{:.9} {} ", Timestamp::now(), self.name);
        let mut line = |tag: &str, text: &[u8]| {
            out.extend_from_slice(now.as_bytes());
            out.extend_from_slice(tag.as_bytes());
            out.extend_from_slice(text);
            out.push(b'\n');
        };
        self.rest.extend_from_slice(bytes);
        let mut text = self.rest.as_slice();
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let (mut whole, after) = (
                text.get(..end).unwrap_or_default(),
                text.get(end + 1..).unwrap_or_default(),
            );
            while let Some((part, more)) = whole.split_at_checked(PART_MAX).filter(|(_, more)| !more.is_empty()) {
                line("P ", part);
                whole = more;
            }
            line("F ", whole);
            text = after;
        }
        while let Some((part, more)) = text.split_at_checked(PART_MAX) {
            line("P ", part);
            text = more;
        }
        if last && !text.is_empty() {
            line("F ", text);
            text = &[];
        }
        self.rest = text.to_vec();
    }
}

/// Reads one stream to its end.
pub(super) async fn keep(log: Rc<RefCell<Log>>, name: &'static str, from: OwnedFd) -> io::Result<()> {
    let mut from = pipe::Receiver::from_owned_fd(from)?;
    let mut stream = Stream { name, rest: Vec::new() };
    let mut bytes = vec![0; 64 * 1024];
    let mut out = Vec::new();
    loop {
        let count = from.read(&mut bytes).await?;
        stream.lines(bytes.get(..count).unwrap_or_default(), count == 0, &mut out);
        if !out.is_empty() {
            log.borrow_mut().append(&out);
            out.clear();
        }
        if count == 0 {
            return Ok(());
        }
    }
}

/// The end of a log as text without its time stamps: what failed containers leave as message.
pub(super) fn tail(path: &Path, lines_max: usize, bytes_max: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<&str> = text
        .lines()
        .rev()
        .take(lines_max)
        .filter_map(|line| line.splitn(4, ' ').nth(3))
        .collect();
    lines.reverse();
    last_bytes(&lines.join("\n"), bytes_max).to_owned()
}

/// The end of a text, cut where a character begins.
pub(super) fn last_bytes(text: &str, max: usize) -> &str {
    let begin = text.len().saturating_sub(max);
    let begin = (begin..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    text.get(begin..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines without their time stamps.
    fn written(chunks: &[&[u8]]) -> Vec<String> {
        let mut stream = Stream {
            name: "stdout",
            rest: Vec::new(),
        };
        let mut out = Vec::new();
        for chunk in chunks {
            stream.lines(chunk, false, &mut out);
        }
        stream.lines(&[], true, &mut out);
        String::from_utf8_lossy(&out)
            .lines()
            .map(|line| line.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap())
            .collect()
    }

    #[test]
    fn output_becomes_lines() {
        let check = |chunks: &[&[u8]], expected: &[&str]| assert_eq!(written(chunks), expected, "{chunks:?}");
        check(&[], &[]);
        check(&[b"one\ntwo\n"], &["stdout F one", "stdout F two"]);
        check(&[b"o", b"ne\ntw", b"o"], &["stdout F one", "stdout F two"]);
        check(&[b"\n\n"], &["stdout F ", "stdout F "]);
        let long = "x".repeat(PART_MAX);
        check(
            &[format!("{long}yy\n").as_bytes()],
            &[&format!("stdout P {long}"), "stdout F yy"],
        );
        check(&[long.as_bytes(), b"yy"], &[&format!("stdout P {long}"), "stdout F yy"]);
    }

    #[test]
    fn files_are_rotated_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/0.log");
        let mut log = Log::open(path.clone(), 10);
        for number in 0..8 {
            log.append(format!("line {number}\n").as_bytes());
        }
        let found: Vec<Option<String>> = (0..6)
            .map(|age| if age == 0 { path.clone() } else { aged(&path, age) })
            .map(|path| fs::read_to_string(path).ok())
            .collect();
        let expected = [7, 6, 5, 4, 3].map(|number| Some(format!("line {number}\n")));
        assert_eq!(found.get(..5).unwrap(), expected);
        assert_eq!(found.get(5).unwrap(), &None);
        remove(&path);
        assert_eq!(fs::read_dir(folder.path().join("logs")).unwrap().count(), 0);
    }

    #[test]
    fn the_end_of_a_log_is_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        fs::write(
            &path,
            "t stdout F one\nt stderr F two words\nt stdout F \nt stdout F äö\n",
        )
        .unwrap();
        let check = |lines, bytes, expected: &str| assert_eq!(tail(&path, lines, bytes), expected);
        check(80, 2048, "one\ntwo words\n\näö");
        check(3, 2048, "two words\n\näö");
        check(80, 3, "ö");
        check(1, 2048, "äö");
    }
}
