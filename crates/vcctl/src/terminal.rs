//! What reaches a terminal: colour only where it is wanted, and no control characters from outside.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};

/// Columns of a line where nobody looks on: in a pipe or a file.
const PIPE_WIDTH: usize = 100;

/// What the reader's side of stdout can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether tables are coloured.
    pub(crate) colour: bool,
    /// Columns of a line.
    pub(crate) width: usize,
    /// Whether somebody looks on at stderr, so that a line there can change.
    pub(crate) live: bool,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            colour: false,
            width: PIPE_WIDTH,
            live: false,
        }
    }
}

impl Look {
    /// As the streams of this process are now.
    pub(crate) fn of_process() -> Self {
        let terminal = io::stdout().is_terminal();
        let size = terminal_size::terminal_size_of(io::stdout()).filter(|_| terminal);
        Self {
            colour: wants_colour(terminal, |name| std::env::var_os(name)),
            width: size.map_or(PIPE_WIDTH, |(width, _)| usize::from(width.0)),
            live: io::stderr().is_terminal() && !is_dumb(std::env::var_os("TERM")),
        }
    }
}

/// Whether to colour: only on a terminal that can, and not with `NO_COLOR`.
fn wants_colour(terminal: bool, env: impl Fn(&str) -> Option<OsString>) -> bool {
    let forbidden = env("NO_COLOR").is_some_and(|v| !v.is_empty());
    terminal && !forbidden && !is_dumb(env("TERM"))
}

fn is_dumb(terminal: Option<OsString>) -> bool {
    terminal.is_none_or(|name| name == "dumb")
}

/// One line with every character that could drive a terminal written out.
pub(crate) fn neutral(text: &str) -> String {
    escape(text, |_| false)
}

/// As [`neutral`], but line breaks and tabs stay: for messages of several lines.
pub(crate) fn neutral_text(text: &str) -> String {
    escape(text, |c| c == '\n' || c == '\t')
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_dangerous(c) && !keep(c) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Control characters, and the invisible ones that turn the reading direction around.
fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The colours in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// All is well.
    Green,
    /// Something waits.
    Yellow,
    /// Something is wrong.
    Red,
    /// Over and done with.
    Grey,
}

impl Colour {
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Green => 32,
            Self::Yellow => 33,
            Self::Red => 31,
            Self::Grey => 90,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Text in one of a few colours that tell neighbours apart.
pub(crate) fn tint(place: usize, text: &str) -> String {
    const CODES: [u8; 6] = [36, 33, 32, 35, 34, 31];
    let code = CODES.get(place % CODES.len()).copied().unwrap_or_default();
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_drive_the_terminal() {
        for (text, safe) in [
            ("train-7", "train-7"),
            ("a\u{1b}[31mb", "a\\u{1b}[31mb"),
            ("a\nb", "a\\u{a}b"),
            ("a\u{9b}1mb", "a\\u{9b}1mb"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("größe 数", "größe 数"),
        ] {
            assert_eq!(neutral(text), safe);
        }
        assert_eq!(neutral_text("a\n\tb\r\u{7}"), "a\n\tb\\u{d}\\u{7}");
    }

    #[test]
    fn colour_is_for_terminals_only() {
        let check = |terminal: bool, no_color: Option<&str>, term: Option<&str>, expected: bool| {
            let env = |name: &str| if name == "NO_COLOR" { no_color } else { term }.map(OsString::from);
            assert_eq!(
                wants_colour(terminal, env),
                expected,
                "{terminal} {no_color:?} {term:?}"
            );
        };
        check(true, None, Some("xterm"), true);
        check(true, Some(""), Some("xterm"), true);
        check(true, Some("1"), Some("xterm"), false);
        check(false, None, Some("xterm"), false);
        check(true, None, Some("dumb"), false);
        check(true, None, None, false);
    }
}
