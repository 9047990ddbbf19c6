//! An object as text for a person: lines and blocks as `kubectl describe` has them.

use std::fmt::Write as _;

use super::age::age;
use super::table::Table;
use crate::terminal::{Colour, Look, neutral};

/// Where values begin.
const INDENT: usize = 14;

/// A page that grows line by line.
pub(crate) struct Page {
    text: String,
    look: Look,
}

impl Page {
    pub(crate) fn new(look: Look) -> Self {
        Self {
            text: String::new(),
            look,
        }
    }

    /// `Key:  value`; `-` stands for nothing.
    pub(crate) fn line(&mut self, key: &str, value: &str) {
        self.painted(key, value, None);
    }

    /// The same, only where there is something.
    pub(crate) fn line_if_any(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.line(key, value);
        }
    }

    /// The same with a colour.
    pub(crate) fn painted(&mut self, key: &str, value: &str, colour: Option<Colour>) {
        let value = neutral(value);
        let value = match colour.filter(|_| self.look.colour && !value.is_empty()) {
            Some(colour) => colour.paint(&value),
            None if value.is_empty() => "-".to_owned(),
            None => value,
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{:<INDENT$}{value}", format!("{key}:"));
    }

    /// A table under its title.
    pub(crate) fn block(&mut self, title: &str, table: &Table) {
        if table.is_empty() {
            return self.line(title, "none");
        }
        let _ = writeln!(self.text, "{title}:");
        for row in table.render(self.look.colour).lines() {
            let _ = writeln!(self.text, "  {row}");
        }
    }

    /// Sentences under a title; nothing where there are none.
    pub(crate) fn sentences(&mut self, title: &str, sentences: &[String]) {
        if sentences.is_empty() {
            return;
        }
        let _ = writeln!(self.text, "{title}:");
        for sentence in sentences {
            let _ = writeln!(self.text, "  {}", neutral(sentence));
        }
    }

    /// A block of what could not be read, or of what could.
    pub(crate) fn block_or(&mut self, title: &str, table: Result<Table, &String>) {
        match table {
            Ok(table) => self.block(title, &table),
            Err(why) => self.line(title, &format!("not readable: {why}")),
        }
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// A time and how long ago it is.
pub(crate) fn moment(time: &str, now: jiff::Timestamp) -> String {
    match age(time, now) {
        age if age.is_empty() => time.to_owned(),
        age => format!("{time} ({age} ago)"),
    }
}
