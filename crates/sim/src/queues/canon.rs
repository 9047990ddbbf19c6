//! A state without what differs from run to run: uids, versions, times; and, if wanted, without the queues' names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use crate::api::Snapshot;
use crate::api::meta::text;

/// Fields that count time or writes.
const VOLATILE: [&str; 5] = [
    "resourceVersion",
    "generation",
    "observedGeneration",
    "runningDuration",
    "deletionGracePeriodSeconds",
];

/// The ways to name up to three queues.
const NAMINGS: [[char; 3]; 6] = [
    ['0', '1', '2'],
    ['0', '2', '1'],
    ['1', '0', '2'],
    ['1', '2', '0'],
    ['2', '0', '1'],
    ['2', '1', '0'],
];

struct Canon<'a> {
    /// What each uid stands for.
    labels: BTreeMap<&'a str, String>,
    naming: [char; 3],
    out: String,
}

impl Canon<'_> {
    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(list) => {
                self.out.push('[');
                for item in list {
                    self.value(item);
                    self.out.push(',');
                }
                self.out.push(']');
            }
            Value::Object(map) => {
                self.out.push('{');
                for (key, value) in map.iter().filter(|(key, _)| !VOLATILE.contains(&key.as_str())) {
                    self.text(key);
                    self.out.push(':');
                    self.value(value);
                    self.out.push(',');
                }
                self.out.push('}');
            }
            // Writing to a text cannot fail.
            plain => drop(write!(self.out, "{plain}")),
        }
    }

    fn text(&mut self, text: &str) {
        if text.len() >= 20 && text.ends_with('Z') && text.starts_with("20") && text.contains('T') {
            self.out.push_str("TIME");
            return;
        }
        for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let end = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            self.word(end);
            self.out.push_str(word.get(end.len()..).unwrap_or_default());
        }
    }

    fn word(&mut self, word: &str) {
        let number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        match word.split_at_checked(1) {
            Some(("q", digit)) if digit.len() == 1 => {
                let at = digit.parse::<usize>().unwrap_or(usize::MAX);
                self.out.push('q');
                match self.naming.get(at) {
                    Some(name) => self.out.push(*name),
                    None => self.out.push_str(digit),
                }
            }
            Some(("u", digits)) if number(digits) => match self.labels.get(word) {
                Some(label) => self.out.push_str(label),
                None => self.out.push_str("GONE"),
            },
            _ => self.out.push_str(word),
        }
    }
}

/// The state under one naming of the queues.
fn named(snapshot: &Snapshot, naming: [char; 3]) -> String {
    let labels = snapshot.objects().map(|(key, object)| {
        let short = key.name.split("-u").next().unwrap_or_default();
        let short = if key.kind == crate::api::Kind::Queue { "" } else { short };
        (text(object, "/metadata/uid"), format!("{}={short}", key.kind.name()))
    });
    let labels: BTreeMap<&str, String> = labels.collect();
    let mut texts: Vec<String> = snapshot
        .objects()
        .map(|(_, object)| {
            let mut canon = Canon {
                labels: labels.clone(),
                naming,
                out: String::new(),
            };
            canon.value(object);
            canon.out
        })
        .collect();
    texts.sort_unstable();
    texts.join("\n")
}

/// The state, with the queues' own names.
pub(crate) fn plain(snapshot: &Snapshot) -> String {
    named(snapshot, NAMINGS[0])
}

/// A number for the state; the same for states that differ in the names of their queues alone.
pub(crate) fn merged(snapshot: &Snapshot) -> u128 {
    let names = NAMINGS.into_iter().map(|naming| named(snapshot, naming));
    let least = names.min().unwrap_or_default();
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, &least).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}

/// Where two states differ, for people.
pub(crate) fn difference(wanted: &str, found: &str) -> String {
    let (wanted, found): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), found.lines().collect());
    let mut lines: Vec<String> = Vec::new();
    lines.extend(
        wanted
            .iter()
            .filter(|line| !found.contains(line))
            .map(|line| format!("- {line}")),
    );
    lines.extend(
        found
            .iter()
            .filter(|line| !wanted.contains(line))
            .map(|line| format!("+ {line}")),
    );
    lines.join("\n")
}
