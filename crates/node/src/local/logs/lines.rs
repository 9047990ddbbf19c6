//! Lines in CRI's format become the text that people read.

use jiff::Timestamp;

/// What is left of lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Form {
    pub(super) timestamps: bool,
    pub(super) since: Option<Timestamp>,
    pub(super) limit: Option<u64>,
}

/// Takes bytes in pieces of any size.
#[derive(Debug)]
pub(super) struct Lines {
    form: Form,
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
    /// Whether the line before was a whole one.
    whole: bool,
    left: Option<u64>,
}

/// The parts of a line: time, whether it ends one, text.
fn parts(line: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    let mut words = line.splitn(4, |byte| *byte == b' ');
    let (time, _, tag) = (words.next()?, words.next()?, words.next()?);
    Some((time, !tag.starts_with(b"P"), words.next().unwrap_or_default()))
}

/// Whether a line of the file ends a line of the output.
pub(super) fn is_whole(line: &[u8]) -> bool {
    parts(line).is_none_or(|(_, whole, _)| whole)
}

impl Lines {
    pub(super) fn new(form: Form) -> Self {
        Self {
            left: form.limit,
            form,
            rest: Vec::new(),
            whole: true,
        }
    }

    /// The text of the lines that are complete with this piece.
    pub(super) fn take(&mut self, piece: &[u8]) -> Vec<u8> {
        self.rest.extend_from_slice(piece);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.rest.split_off(end + 1);
        let lines = std::mem::replace(&mut self.rest, rest);
        let mut out = Vec::with_capacity(lines.len());
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.add(line.strip_suffix(b"\n").unwrap_or(line), &mut out);
        }
        if let Some(left) = &mut self.left {
            out.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left = left.saturating_sub(out.len() as u64);
        }
        out
    }

    fn add(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let Some((time, whole, text)) = parts(line) else { return };
        if let Some(since) = self.form.since {
            let at = std::str::from_utf8(time)
                .ok()
                .and_then(|time| time.parse::<Timestamp>().ok());
            if at.is_some_and(|at| at < since) {
                self.whole = whole;
                return;
            }
        }
        if self.form.timestamps && self.whole {
            out.extend_from_slice(time);
            out.push(b' ');
        }
        out.extend_from_slice(text);
        if whole {
            out.push(b'\n');
        }
        self.whole = whole;
    }

    /// Whether nothing more is wanted.
    pub(super) fn is_full(&self) -> bool {
        self.left == Some(0)
    }
}
