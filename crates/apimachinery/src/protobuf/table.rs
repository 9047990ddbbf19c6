//! The tables of messages, read once.

use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// When a field that is on the wire is shown in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    UnlessZero,
    AsItIs,
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
    Inline,
}

/// One field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) name: &'static str,
    pub(super) presence: Presence,
    pub(super) shape: Shape,
    /// A simple type, or the name of a message.
    pub(super) kind: &'static str,
}

/// A message: its fields, sorted by number.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<Field>);

impl Message {
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        self.0
            .binary_search_by_key(&number, |field| field.number)
            .ok()
            .and_then(|at| self.0.get(at))
    }
}

const TABLES: [&str; 3] = [
    include_str!("pod.txt"),
    include_str!("core.txt"),
    include_str!("groups.txt"),
];
const KINDS: &str = include_str!("kinds.txt");

static MESSAGES: LazyLock<FxHashMap<&'static str, Message>> = LazyLock::new(|| {
    let mut messages: FxHashMap<&'static str, Message> = FxHashMap::default();
    for table in TABLES {
        let mut current = "";
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            if !line.starts_with(' ') {
                current = words.next().unwrap_or_default();
            }
            messages.entry(current).or_default().0.extend(words.filter_map(field));
        }
    }
    for message in messages.values_mut() {
        message.0.sort_by_key(|field| field.number);
    }
    messages
});

/// Reads `?name:3:*type`.
fn field(word: &'static str) -> Option<Field> {
    let mut parts = word.splitn(3, ':');
    let (name, number, kind) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    let (presence, inline) = match name.as_bytes().first()? {
        b'?' => (Presence::AsItIs, false),
        b'!' => (Presence::Always, false),
        b'^' => (Presence::Always, true),
        _ => (Presence::UnlessZero, false),
    };
    let (shape, kind) = match kind.as_bytes().first()? {
        b'*' => (Shape::List, kind.trim_start_matches('*')),
        b'%' => (Shape::Map, kind.trim_start_matches('%')),
        _ => (Shape::One, kind),
    };
    let shape = if inline { Shape::Inline } else { shape };
    Some(Field {
        number,
        name: name.trim_start_matches(['?', '!', '^']),
        presence,
        shape,
        kind,
    })
}

/// A message by name.
pub(super) fn message(name: &str) -> Option<&'static Message> {
    MESSAGES.get(name)
}

/// The message of a kind.
pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
    let mut rows = KINDS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let fits = |row: &Vec<&str>| match row.as_slice() {
        [version, name, _] => *name == kind && (*version == api_version || *version == "*"),
        _ => false,
    };
    rows.find(fits).and_then(|row| row.last().copied()).and_then(message)
}

#[cfg(test)]
mod tests {
    use super::{KINDS, MESSAGES, Shape, message};

    #[test]
    fn every_type_that_is_named_is_there() {
        let simple = [
            "s",
            "b",
            "i32",
            "i64",
            "d",
            "y",
            "raw",
            "words",
            "time",
            "microtime",
            "quantity",
            "intstr",
        ];
        for (name, found) in MESSAGES.iter() {
            for field in &found.0 {
                assert!(
                    simple.contains(&field.kind) || message(field.kind).is_some(),
                    "{name}.{}",
                    field.name
                );
                assert!(
                    field.shape != Shape::Inline || message(field.kind).is_some(),
                    "{name}.{}",
                    field.name
                );
            }
            assert!(
                found.0.is_sorted_by(|left, right| left.number < right.number),
                "{name} has a number twice"
            );
        }
        let named = KINDS
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split(' ').next_back());
        assert!(named.clone().count() > 30);
        named.for_each(|name| assert!(message(name).is_some(), "{name}"));
    }
}
