//! A state without what differs from run to run: uids, versions, times; and, if wanted, without the queues' names.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use basalt_api::json::string_at;
use serde_json::Value;

use crate::api::{Kind, Snapshot};

/// Fields that count time or writes.
const VOLATILE: [&str; 5] = [
    "resourceVersion",
    "generation",
    "observedGeneration",
    "runningDuration",
    "deletionGracePeriodSeconds",
];

/// The ways to number up to three queues.
const NAMINGS: [Naming; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// By a queue's number, the one that it gets instead.
pub(crate) type Naming = [u8; 3];

/// A text, and where in it a queue is named by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    text: String,
    numbers: Vec<usize>,
}

struct Canon<'a> {
    /// What each uid stands for.
    labels: &'a BTreeMap<&'a str, String>,
    /// Whether conditions are left out: those of pods and PodGroups say that they waited once.
    omits_conditions: bool,
    out: String,
    numbers: Vec<usize>,
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
                for (key, value) in map {
                    let is_history = self.omits_conditions && key == "conditions";
                    if is_history || VOLATILE.contains(&key.as_str()) {
                        continue;
                    }
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
            Some(("q", "0" | "1" | "2")) => {
                self.numbers.push(self.out.len() + 1);
                self.out.push_str(word);
            }
            Some(("u", digits)) if number(digits) => match self.labels.get(word) {
                Some(label) => self.out.push_str(label),
                None => self.out.push_str("GONE"),
            },
            _ => self.out.push_str(word),
        }
    }
}

/// A state as texts, one for each object, that are the same in every run.
pub(crate) struct Form {
    texts: Vec<Named>,
    /// The queues that are there, by number.
    there: [bool; 3],
}

impl Form {
    /// The form of a state.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let labels = snapshot.objects().map(|(key, object)| {
            let short = key.name.split("-u").next().unwrap_or_default();
            let short = if key.kind == Kind::Queue { "" } else { short };
            (
                string_at(object, "/metadata/uid"),
                format!("{}={short}", key.kind.name()),
            )
        });
        let labels: BTreeMap<&str, String> = labels.collect();
        let mut there = [false; 3];
        let texts = snapshot.objects().map(|(key, object)| {
            let number = key.name.strip_prefix('q').and_then(|digit| digit.parse::<usize>().ok());
            if let Some(place) = number
                .filter(|_| key.kind == Kind::Queue)
                .and_then(|at| there.get_mut(at))
            {
                *place = true;
            }
            let mut canon = Canon {
                labels: &labels,
                omits_conditions: matches!(key.kind, Kind::Pod | Kind::PodGroup),
                out: String::new(),
                numbers: Vec::new(),
            };
            canon.value(object);
            Named {
                text: canon.out,
                numbers: canon.numbers,
            }
        });
        let texts = texts.collect();
        Self { texts, there }
    }

    /// The texts under one naming, in order.
    fn named(&self, naming: Naming) -> Vec<Vec<u8>> {
        let rename = |named: &Named| {
            let mut bytes = named.text.clone().into_bytes();
            for place in &named.numbers {
                if let Some(byte) = bytes.get_mut(*place) {
                    let number = usize::from(byte.wrapping_sub(b'0'));
                    *byte = b'0' + naming.get(number).copied().unwrap_or_default();
                }
            }
            bytes
        };
        let mut texts: Vec<Vec<u8>> = self.texts.iter().map(rename).collect();
        texts.sort_unstable();
        texts
    }

    /// A number for the state, with the queues' own names.
    pub(crate) fn plain(&self) -> u128 {
        digest(&self.named(NAMINGS[0]))
    }

    /// A number for the state; the same for states that differ in the names of their queues alone.
    pub(crate) fn merged(&self) -> u128 {
        let count = self.there.iter().filter(|there| **there).count();
        // The queues that are there get the lowest numbers: the other namings need not be tried.
        let fits = |naming: &Naming| {
            let mut numbers = naming.iter().zip(self.there);
            numbers.all(|(number, there)| !there || usize::from(*number) < count)
        };
        let namings = NAMINGS.into_iter().filter(fits);
        let least = namings.map(|naming| self.named(naming)).min();
        digest(&least.unwrap_or_default())
    }

    /// The namings, other than its own, under which the state is the same.
    pub(crate) fn symmetries(&self) -> Vec<Naming> {
        let own = self.named(NAMINGS[0]);
        let others = NAMINGS.into_iter().skip(1);
        others.filter(|naming| self.named(*naming) == own).collect()
    }
}

fn digest(texts: &[Vec<u8>]) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, texts).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}

/// The state in words, with the queues' own names.
pub(crate) fn plain(snapshot: &Snapshot) -> String {
    let mut texts: Vec<String> = Form::of(snapshot).texts.into_iter().map(|named| named.text).collect();
    texts.sort_unstable();
    texts.join("\n")
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
