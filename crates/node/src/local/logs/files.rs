//! The files of one run's log, from the oldest to the one that grows.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::open;

/// Older files than this are not kept.
const AGES_MAX: u32 = 16;
const PIECE: usize = 64 * 1024;

/// All files of a log, open: who is renamed while we read is read all the same.
pub(super) struct Reader {
    files: VecDeque<File>,
    buffer: Vec<u8>,
}

/// The files that are there, oldest first.
fn present(path: &Path) -> io::Result<VecDeque<File>> {
    let mut files = VecDeque::new();
    files.extend(open(path)?);
    for age in 1..AGES_MAX {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{age}"));
        let Some(file) = open(&PathBuf::from(name))? else { break };
        // Put aside between two looks: it is the one that we have.
        let same = |other: &File| Ok::<_, io::Error>(other.metadata()?.ino() == file.metadata()?.ino());
        if files.front().is_some_and(|newer| same(newer).unwrap_or(false)) {
            continue;
        }
        files.push_front(file);
    }
    Ok(files)
}

impl Reader {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            files: present(path)?,
            buffer: vec![0; PIECE],
        })
    }

    /// The next piece; absent when all that is there was read. At the end of a file, those that came after it are looked for.
    pub(super) fn next(&mut self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        loop {
            let Some(file) = self.files.front_mut() else {
                self.files = present(path)?;
                if self.files.is_empty() {
                    return Ok(None);
                }
                continue;
            };
            let length = file.read(&mut self.buffer)?;
            if length > 0 {
                return Ok(Some(self.buffer.get(..length).unwrap_or_default().to_vec()));
            }
            if self.files.len() == 1 && !self.look_for_newer(path)? {
                return Ok(None);
            }
            self.files.pop_front();
        }
    }

    /// Whether the last file was put aside; then those after it are lined up.
    fn look_for_newer(&mut self, path: &Path) -> io::Result<bool> {
        let Some(last) = self.files.back() else {
            return Ok(false);
        };
        let inode = last.metadata()?.ino();
        let mut all = present(path)?;
        if all
            .back()
            .is_none_or(|newest| newest.metadata().is_ok_and(|meta| meta.ino() == inode))
        {
            return Ok(false);
        }
        let mut at = None;
        for (index, file) in all.iter().enumerate() {
            if file.metadata()?.ino() == inode {
                at = Some(index);
            }
        }
        // Our file may have been removed already: then everything that is there came after it.
        let newer = all.split_off(at.map_or(0, |at| at + 1));
        // Something may have been written to ours between the last read and its putting aside: it stays, before the others.
        let mut rest = None;
        if let Some(file) = self.files.front_mut()
            && file.stream_position()? < file.metadata()?.len()
        {
            rest = Some(file.try_clone()?);
        }
        self.files.extend(newer);
        if let Some(rest) = rest {
            // The caller drops the front.
            self.files.push_front(rest);
        }
        Ok(true)
    }
}

/// Moves the reader to the beginning of the last lines.
pub(super) fn from_last_lines(mut reader: Reader, count: u64) -> io::Result<Reader> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // Where lines begin: file, and place in it. Parts of a line (`P`) are no beginnings.
    let mut begins: VecDeque<(usize, u64)> = VecDeque::new();
    let mut line = Vec::new();
    let mut whole_before = true;
    let mut ends = Vec::new();
    for (index, file) in reader.files.iter_mut().enumerate() {
        let mut place = 0_u64;
        let mut begin = 0_u64;
        line.clear();
        loop {
            let length = file.read(&mut reader.buffer)?;
            if length == 0 {
                break;
            }
            for &byte in reader.buffer.get(..length).unwrap_or_default() {
                place += 1;
                if line.len() < HEAD_MAX {
                    line.push(byte);
                }
                if byte == b'\n' {
                    if whole_before {
                        begins.push_back((index, begin));
                    }
                    if begins.len() > count {
                        begins.pop_front();
                    }
                    whole_before = super::lines::is_whole(&line);
                    begin = place;
                    line.clear();
                }
            }
        }
        ends.push(place);
    }
    let (from, place) = begins.front().copied().unwrap_or_else(|| {
        let last = ends.len().saturating_sub(1);
        (last, ends.last().copied().unwrap_or(0))
    });
    for _ in 0..from {
        reader.files.pop_front();
    }
    for (index, file) in reader.files.iter_mut().enumerate() {
        file.seek(SeekFrom::Start(if index == 0 { place } else { 0 }))?;
    }
    Ok(reader)
}

/// Time, stream and tag of a line fit into this.
const HEAD_MAX: usize = 64;
